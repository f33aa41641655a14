//! `command` and `stdin` of a tool.

use crate::config::{
    paths::Environment,
    section::Entry,
    tool::{
        schema,
        template::{Rules, TemplateUse, property_in_program},
    },
};
use crate::output::nearest;
use longhaul_command::{CommandElement, CommandSwitch, HarmlessValues, StandardInput, placeholders_in_scripts};
use std::path::Path;

/// The text of `stdin` that asks for all arguments as JSON.
const JSON: &str = "json";

/// The standard input of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stdin {
    /// A template; empty for none.
    Template(String),
    /// All arguments as JSON.
    Json,
}

impl Default for Stdin {
    fn default() -> Self {
        Self::Template(String::new())
    }
}

impl Stdin {
    pub(super) fn source(&self) -> StandardInput<'_> {
        match self {
            Self::Template(text) => StandardInput::Template(text),
            Self::Json => StandardInput::Json,
        }
    }
}

/// Reads the program and the whole command, each `None` after a problem of its own. The program is the first element, and not a template.
pub(super) fn read(
    entry: &Entry<'_>,
    rules: &Rules<'_>,
    environment: &Environment,
) -> (Option<String>, Option<Vec<CommandElement>>) {
    let Some(elements) = entry.elements("an array of strings") else {
        return (None, None);
    };
    let Some((program, arguments)) = elements.split_first() else {
        entry.report("`command` must name a program, for example [\"sha256sum\", \"{path}\"]".to_owned());
        return (None, None);
    };
    let program = read_program(program, rules, environment);
    let mut command: Vec<Option<CommandElement>> = vec![program.clone().map(CommandElement::Text)];
    command.extend(arguments.iter().map(|entry| read_argument(entry, rules)));
    (program, command.into_iter().collect())
}

fn read_program(entry: &Entry<'_>, rules: &Rules<'_>, environment: &Environment) -> Option<String> {
    if entry.is_array() || entry.is_table() {
        entry.report("the first element of `command` must be a program, not a list or a switch".to_owned());
        return None;
    }
    let program = entry.text_in_array()?;
    if program.is_empty() || program.contains('\0') {
        entry.report("the first element of `command` must be a program".to_owned());
        return None;
    }
    if let Some(name) = property_in_program(program, rules.input_schema) {
        entry.report(format!(
            "the program must not contain a placeholder: `{{{name}}}` would not be replaced; use it in the arguments"
        ));
        return None;
    }
    let program = environment.program(program);
    program
        .map_err(|error| entry.report(format!("`command`: {error}")))
        .ok()
}

fn read_argument(entry: &Entry<'_>, rules: &Rules<'_>) -> Option<CommandElement> {
    let element = if entry.is_table() {
        read_switch(entry, rules)?
    } else if entry.is_array() {
        let texts = read_texts(entry, rules, TemplateUse::Group)?;
        rules.check_arrays(entry, &texts).then_some(())?;
        CommandElement::Group(texts)
    } else {
        return read_text(entry, rules, TemplateUse::Argument).map(CommandElement::Text);
    };
    if let Some(problem) = element.problem() {
        entry.report(format!("`command`: {problem}"));
        return None;
    }
    Some(element)
}

fn read_switch(entry: &Entry<'_>, rules: &Rules<'_>) -> Option<CommandElement> {
    let section = entry.section("the switch", "such as { if = \"verbose\", then = [\"-v\"] }")?;
    let property = section.require("if").and_then(|entry| read_condition(&entry, rules));
    let texts = |entry: &Entry<'_>| read_texts(entry, rules, TemplateUse::Argument);
    let then = section.get_or("then", Vec::new(), texts);
    let otherwise = section.get_or("else", Vec::new(), texts);
    section.finish().then_some(())?;
    Some(CommandElement::Switch(CommandSwitch {
        property: property?,
        then: then?,
        otherwise: otherwise?,
    }))
}

/// The boolean that decides about a switch.
fn read_condition(entry: &Entry<'_>, rules: &Rules<'_>) -> Option<String> {
    let name = entry.text()?;
    let Some(input_schema) = rules.input_schema else {
        return Some(name.to_owned());
    };
    let known = schema::property_names(input_schema);
    if !known.contains(name) {
        let hint = nearest::suggestion(name, known.iter().copied());
        let hint = hint.unwrap_or_else(|| format!("declare it: input = {{ {name} = {{ type = \"boolean\" }} }}"));
        entry.report(format!("`if`: `{name}` is not a property of the input; {hint}"));
        return None;
    }
    if !schema::is_boolean(input_schema, name) {
        entry.report(format!(
            "`if`: `{name}` must be a boolean by its schema, {{ type = \"boolean\" }}; what appears only with a value is a list, such as [\"--{name}\", \"{{{name}}}\"]"
        ));
        return None;
    }
    Some(name.to_owned())
}

fn read_texts(entry: &Entry<'_>, rules: &Rules<'_>, usage: TemplateUse) -> Option<Vec<String>> {
    let elements = entry.elements("an array of strings")?;
    // Collected first, so that every wrong element is reported.
    let texts: Vec<_> = elements.iter().map(|entry| read_text(entry, rules, usage)).collect();
    texts.into_iter().collect()
}

fn read_text(entry: &Entry<'_>, rules: &Rules<'_>, usage: TemplateUse) -> Option<String> {
    if entry.is_array() || entry.is_table() {
        entry.report(
            "`command`: a list or a switch has strings only; write what should be inside of it beside it".to_owned(),
        );
        return None;
    }
    let text = entry.text_in_array()?;
    rules.check(entry, text, usage).then(|| text.to_owned())
}

/// Reads `stdin`.
pub(super) fn read_stdin(entry: &Entry<'_>, rules: &Rules<'_>) -> Option<Stdin> {
    let text = entry.text()?;
    if text == JSON {
        return Some(Stdin::Json);
    }
    let letters = text.trim_matches(|char: char| char.is_whitespace() || "{}:\"'".contains(char));
    let is_near = letters.eq_ignore_ascii_case(JSON) && !text.contains("{json}");
    if is_near {
        entry.warn(format!(
            "`stdin`: {text:?} is passed as this text; the word that stands for all arguments as JSON is exactly \"{JSON}\""
        ));
    }
    rules
        .check(entry, text, TemplateUse::Stdin)
        .then(|| Stdin::Template(text.to_owned()))
}

/// Warns about a missing program. It is not an error, because the program may be installed while the server runs.
pub(super) fn warn_if_program_is_missing(
    entry: &Entry<'_>,
    program: &str,
    path: Option<&str>,
    cwd: Option<&Path>,
    environment: &Environment,
) {
    if let Some(cwd) = cwd
        && let Some(missing) = environment.missing_program(program, path, cwd)
    {
        entry.warn(format!("`command`: {missing}, so every call would fail"));
    }
}

/// Reports placeholders in scripts.
pub(super) fn check_scripts(
    entry: &Entry<'_>,
    command: &[CommandElement],
    stdin: Option<(&Entry<'_>, &Stdin)>,
    rules: &Rules<'_>,
    harmless: &HarmlessValues,
) {
    let source = stdin.map_or(StandardInput::Template(""), |(_, stdin)| stdin.source());
    let elements = entry.elements("an array of strings").unwrap_or_default();
    for placeholder in placeholders_in_scripts(command, source, rules.allow_leading_dash, harmless) {
        let entry = match placeholder.element {
            Some(element) => elements.get(element),
            None => stdin.map(|(entry, _)| entry),
        };
        if let Some(entry) = entry {
            entry.report(format!("`{}`: {placeholder}", entry.key()));
        }
    }
}
