//! Checking the templates in a tool's command and standard input.

use crate::config::{
    section::Entry,
    tool::schema::{self, Kind},
};
use crate::output::nearest;
use longhaul_command::{Placeholder, Template, literal_braces};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a template is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TemplateUse {
    /// An argument, or several.
    Argument,
    /// Standard input.
    Stdin,
    /// The value of a variable, or a folder.
    Value,
}

/// What the templates of a tool are checked against.
pub(crate) struct Rules<'a> {
    /// The schema of the tool's input; without it only the syntax of a template is checked.
    pub(crate) input_schema: Option<&'a Value>,
    /// Properties whose value may begin with `-`.
    pub(crate) allow_leading_dash: &'a BTreeSet<String>,
}

impl Rules<'_> {
    /// Reports every mistake in a template; `false` if there is one.
    pub(crate) fn check(&self, entry: &Entry<'_>, text: &str, usage: TemplateUse) -> bool {
        let key = entry.key();
        let template = match Template::parse(text) {
            Ok(template) => template,
            Err(error) => {
                entry.report(format!("`{key}`: {error}"));
                return false;
            }
        };
        let Some(input_schema) = self.input_schema else {
            return true;
        };
        let mut seen = BTreeSet::new();
        let mut is_sound = true;
        for placeholder in template.placeholders() {
            if !seen.insert(placeholder.name) {
                continue;
            }
            let is_variable = text.contains(&format!("${{{}}}", placeholder.name));
            if is_variable && !schema::property_names(input_schema).contains(placeholder.name) {
                let name = placeholder.name;
                entry.report(format!(
                    "`{key}`: variables such as `${{{name}}}` are not replaced, and `{{{name}}}` is not a property of the input: write the value itself, or in a script of a shell `${{{{{name}}}}}`"
                ));
                is_sound = false;
            } else if let Some(mistake) = mistake(placeholder, input_schema, usage) {
                entry.report(format!("`{key}`: {mistake}"));
                is_sound = false;
            } else if let Some(warning) = self.warning(placeholder, input_schema, usage) {
                entry.warn(format!("`{key}`: {warning}"));
            }
        }
        is_sound
    }

    /// Warns about a number that may be negative at the start of an argument, where it would look like an option.
    fn warning(&self, placeholder: Placeholder<'_>, input_schema: &Value, usage: TemplateUse) -> Option<String> {
        let Placeholder {
            name,
            is_first,
            is_whole,
        } = placeholder;
        let refused = usage == TemplateUse::Argument && is_first && !self.allow_leading_dash.contains(name);
        if !refused || !schema::may_be_negative(input_schema, name, is_whole) {
            return None;
        }
        Some(format!(
            "`{name}` may be negative by its schema and begins an argument here: a number such as -3 is refused, because the program would take it for an option; set `minimum = 0`, write `--{name}={{{name}}}` if the program accepts that, or add it to `allow_leading_dash`"
        ))
    }
}

/// What is wrong with a placeholder and how to fix it.
fn mistake(placeholder: Placeholder<'_>, input_schema: &Value, usage: TemplateUse) -> Option<String> {
    let name = placeholder.name;
    let known = schema::property_names(input_schema);
    if !known.contains(name) {
        let hint = literal_braces(name)
            .or_else(|| nearest::suggestion(name, known.iter().copied()))
            .unwrap_or_else(|| format!("declare it: input = {{ {name} = {{ type = \"string\" }} }}"));
        return Some(format!("`{{{name}}}` is not a property of the input; {hint}"));
    }
    let alone = placeholder.is_whole && usage == TemplateUse::Argument;
    match schema::kind(input_schema, name) {
        Kind::Object => Some(format!(
            "`{name}` is an object, which cannot be text: make its members properties of the input"
        )),
        Kind::ArrayOfObjects => Some(format!(
            "`{name}` has elements that are objects or arrays, which cannot be arguments"
        )),
        Kind::Array if !alone => Some(format!(
            "`{name}` is an array, which gives one argument for each element: it must be a whole argument, \"{{{name}}}\""
        )),
        Kind::Array | Kind::Other => None,
    }
}

/// The placeholder in a program's name, if any. The program is not a template, so it would not be replaced.
pub(crate) fn property_in_program(program: &str, input_schema: Option<&Value>) -> Option<String> {
    let known = schema::property_names(input_schema?);
    let template = Template::parse(program).ok()?;
    template
        .properties()
        .find(|name| known.contains(name))
        .map(str::to_owned)
}
