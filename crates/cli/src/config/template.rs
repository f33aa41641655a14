//! Templates of a command line, judged by the rules of the executor that fills them.

use super::schema;
use crate::nearest;
use longhaul_upstream::command::Template;
use serde_json::Value;

/// Whether `text` is a template over the properties of `input_schema`; without a schema only its form is judged.
///
/// # Errors
/// What is wrong and what would be right, in words.
pub(super) fn check(text: &str, input_schema: Option<&Value>) -> Result<(), String> {
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    let Some(input_schema) = input_schema else {
        return Ok(());
    };
    let known = schema::property_names(input_schema);
    match template.properties().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let hint = nearest::suggestion(name, known.iter().copied());
            let hint = hint.unwrap_or_else(|| format!("declare it: input = {{ {name} = {{ type = \"string\" }} }}"));
            Err(format!("`{{{name}}}` names no property of the input; {hint}"))
        }
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
