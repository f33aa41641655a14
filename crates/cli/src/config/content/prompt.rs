//! The `[[prompt]]` sections: messages with placeholders.

use crate::{
    config::{
        display::Display,
        paths::{Environment, read_file},
        section::{Entry, Section},
    },
    output::nearest,
};
use longhaul::Role;
use longhaul_command::{Template, literal_braces};

/// The largest file of a text.
const MAX_TEXT: u64 = 1 << 20;

/// Messages that a user chooses and fills in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PromptConfig {
    pub(crate) name: String,
    pub(crate) display: Display,
    pub(crate) description: Option<String>,
    pub(crate) arguments: Vec<PromptArgument>,
    /// At least one. The placeholders are names of arguments.
    pub(crate) messages: Vec<(Role, Template)>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptArgument {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
    /// The values that it may have; any if there are none.
    pub(crate) choices: Vec<String>,
}

/// Reads one section; `None` after a problem.
pub(super) fn read(section: &Section<'_>, name: Option<String>, environment: &Environment) -> Option<PromptConfig> {
    let display = Display::read(section, environment);
    let description = section.optional_text("description");
    let arguments_entry = section.get("arguments");
    let arguments = arguments_entry.as_ref().map_or(Some(Vec::new()), read_arguments);
    let messages = read_messages(section, arguments.as_deref(), environment);
    section.finish();

    let (arguments, messages) = (arguments?, messages?);
    if let Some(entry) = arguments_entry {
        let is_used = |name: &str| {
            messages
                .iter()
                .any(|(_, text)| text.properties().any(|one| one == name))
        };
        for argument in arguments.iter().filter(|argument| !is_used(&argument.name)) {
            entry.warn(format!(
                "the argument `{}` is not used: no text has `{{{}}}`",
                argument.name, argument.name
            ));
        }
    }
    Some(PromptConfig {
        name: name?,
        display: display?,
        description: description?,
        arguments,
        messages,
    })
}

fn read_arguments(entry: &Entry<'_>) -> Option<Vec<PromptArgument>> {
    let entries = entry.elements("an array of tables such as [{ name = \"language\", required = true }]")?;
    let mut names = Vec::new();
    let arguments: Vec<_> = entries
        .iter()
        .map(|entry| {
            let argument = read_argument(entry)?;
            if names.contains(&argument.name) {
                entry.report(format!("there is an argument `{}` already", argument.name));
                return None;
            }
            names.push(argument.name.clone());
            Some(argument)
        })
        .collect();
    arguments.into_iter().collect()
}

fn read_argument(entry: &Entry<'_>) -> Option<PromptArgument> {
    let section = entry.section("`arguments`", "such as { name = \"language\" }")?;
    let name = section.require("name").and_then(|entry| {
        let name = entry.filled_text()?;
        if name.contains(['{', '}']) || literal_braces(name).is_some() {
            entry.report(format!(
                "{name:?} cannot be the name of an argument: use letters, digits and _ - ."
            ));
            return None;
        }
        Some(name.to_owned())
    });
    let title = section.optional_text("title");
    let description = section.optional_text("description");
    let required = section.get_or("required", false, Entry::flag);
    let choices = section.get_or("choices", Vec::new(), |entry| {
        Some(entry.texts()?.into_iter().map(|(_, text)| text.to_owned()).collect())
    });
    section.finish();
    Some(PromptArgument {
        name: name?,
        title: title?,
        description: description?,
        required: required?,
        choices: choices?,
    })
}

/// One message of the user, or `messages`.
fn read_messages(
    section: &Section<'_>,
    arguments: Option<&[PromptArgument]>,
    environment: &Environment,
) -> Option<Vec<(Role, Template)>> {
    let Some(entry) = section.get("messages") else {
        let text = read_text(section, arguments, environment, ", or `messages`")?;
        return Some(vec![(Role::User, text)]);
    };
    if section.get("text").or(section.get("file")).is_some() {
        entry.report("`messages` stands alone: leave out `text` and `file`, or make them a message of it".to_owned());
        return None;
    }
    let elements = entry.elements("an array of tables such as [{ role = \"user\", text = \"…\" }]")?;
    if elements.is_empty() {
        entry.report("`messages` must have at least one message".to_owned());
        return None;
    }
    let messages: Vec<_> = elements
        .iter()
        .map(|entry| {
            let section = entry.section("`messages`", "such as { role = \"user\", text = \"…\" }")?;
            let role = section.get_or("role", Role::User, |entry| {
                entry.choice(&[("user", Role::User), ("assistant", Role::Assistant)])
            });
            let text = read_text(&section, arguments, environment, "");
            section.finish();
            Some((role?, text?))
        })
        .collect();
    messages.into_iter().collect()
}

/// The template in `text` or `file`.
fn read_text(
    section: &Section<'_>,
    arguments: Option<&[PromptArgument]>,
    environment: &Environment,
    or: &str,
) -> Option<Template> {
    let (entry, text, place) = match (section.get("text"), section.get("file")) {
        (Some(entry), None) => {
            let text = entry.filled_text()?.to_owned();
            (entry, text, String::new())
        }
        (None, Some(entry)) => {
            let (path, bytes) = read_file(&entry, environment, MAX_TEXT)?;
            let Ok(text) = String::from_utf8(bytes) else {
                entry.report(format!("`file`: {} is not text in UTF-8", path.display()));
                return None;
            };
            (entry, text, format!("{}, ", path.display()))
        }
        (Some(_), Some(entry)) => {
            entry.report("`file` and `text` are both there: leave one of them out".to_owned());
            return None;
        }
        (None, None) => {
            section.report(format!("it needs `text` or `file`{or}"));
            return None;
        }
    };
    let key = entry.key();
    let template = match Template::parse(&text) {
        Ok(template) => template,
        Err(error) => {
            // The column counts from the start of the text.
            let before: String = text.chars().take(error.column - 1).collect();
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|char| *char != '\n').count() + 1;
            entry.report(format!(
                "`{key}`: {place}line {line}, column {column}: {}",
                error.problem
            ));
            return None;
        }
    };
    let known: Vec<&str> = arguments?.iter().map(|argument| &*argument.name).collect();
    let mut unknown: Vec<&str> = template.properties().filter(|name| !known.contains(name)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    for name in &unknown {
        let hint = literal_braces(name)
            .or_else(|| nearest::suggestion(name, known.iter().copied()))
            .unwrap_or_else(|| format!("declare it: arguments = [{{ name = \"{name}\" }}]"));
        entry.report(format!(
            "`{key}`: {place}`{{{name}}}` is no argument of the prompt; {hint}"
        ));
    }
    unknown.is_empty().then_some(template)
}
