//! Templates of a command line, judged by the rules of the executor that fills them.

use super::{
    schema::{self, Kind},
    section::Entry,
};
use crate::nearest;
use longhaul_upstream::command::{Placeholder, Template, literal_braces};
use serde_json::Value;
use std::collections::BTreeSet;

/// Where a template stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It makes an argument, or several.
    Argument,
    /// It makes the standard input.
    Stdin,
}

/// What a tool's templates may hold.
pub(super) struct Rules<'a> {
    /// The schema of the tool's input; without it only the form of a template is judged.
    pub(super) input_schema: Option<&'a Value>,
    /// Properties whose value may begin with `-`.
    pub(super) allow_leading_dash: &'a BTreeSet<String>,
}

impl Rules<'_> {
    /// Reports every mistake in a template; `false` if there is one.
    pub(super) fn check(&self, entry: &Entry<'_>, text: &str, place: Place) -> bool {
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
            if let Some(mistake) = mistake(placeholder, input_schema, place) {
                entry.report(format!("`{key}`: {mistake}"));
                is_sound = false;
            } else if let Some(warning) = self.warning(placeholder, input_schema, place) {
                entry.warn(format!("`{key}`: {warning}"));
            }
        }
        is_sound
    }

    /// A number is no option unless an argument begins with it and it is below 0.
    fn warning(&self, placeholder: Placeholder<'_>, input_schema: &Value, place: Place) -> Option<String> {
        let Placeholder {
            name,
            is_first,
            is_whole,
        } = placeholder;
        let refused = place == Place::Argument && is_first && !self.allow_leading_dash.contains(name);
        if !refused || !schema::may_be_negative(input_schema, name, is_whole) {
            return None;
        }
        Some(format!(
            "`{name}` may be negative by its schema, and here an argument begins with it: a number such as -3 is refused, because the program would take it for an option; give it `minimum = 0`, write `--{name}={{{name}}}` if the program takes that, or list it in `allow_leading_dash`"
        ))
    }
}

/// What is wrong with a placeholder and what would be right, in words.
fn mistake(placeholder: Placeholder<'_>, input_schema: &Value, place: Place) -> Option<String> {
    let name = placeholder.name;
    let known = schema::property_names(input_schema);
    if !known.contains(name) {
        let hint = literal_braces(name)
            .or_else(|| nearest::suggestion(name, known.iter().copied()))
            .unwrap_or_else(|| format!("declare it: input = {{ {name} = {{ type = \"string\" }} }}"));
        return Some(format!("`{{{name}}}` names no property of the input; {hint}"));
    }
    let alone = placeholder.is_whole && place == Place::Argument;
    match schema::kind(input_schema, name) {
        Kind::Object => Some(format!(
            "`{name}` is an object, which cannot be text: take its members as properties of their own"
        )),
        Kind::ArrayOfNoWords => Some(format!(
            "`{name}` has elements that are objects or arrays, which cannot be arguments"
        )),
        Kind::Array if !alone => Some(format!(
            "`{name}` is an array, which gives one argument for each element: it must be a whole argument, \"{{{name}}}\""
        )),
        Kind::Array | Kind::Other => None,
    }
}

/// The property that a program's name spells. The program is taken as it stands, so it would not be replaced.
pub(super) fn property_in_program(program: &str, input_schema: Option<&Value>) -> Option<String> {
    let known = schema::property_names(input_schema?);
    let template = Template::parse(program).ok()?;
    template
        .properties()
        .find(|name| known.contains(name))
        .map(str::to_owned)
}
