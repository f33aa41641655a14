//! Arguments that are secret: `secret = true` in their schema.

use super::schema;
use crate::config::section::Section;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const SECRET: &str = "secret";
/// Members of a schema that hold values, and no schemas.
const VALUES: [&str; 4] = ["default", "const", "enum", "examples"];

/// Whether an argument is secret.
pub(crate) fn is_secret(input_schema: &Value, name: &str) -> bool {
    input_schema["properties"][name][SECRET] == true
}

/// The arguments that are secret.
pub(crate) fn names(input_schema: &Value) -> BTreeSet<String> {
    let names = schema::property_names(input_schema).into_iter();
    names
        .filter(|name| is_secret(input_schema, name))
        .map(str::to_owned)
        .collect()
}

/// The schema without `secret`, which is none of JSON Schema's words.
pub(crate) fn without_marks(mut input_schema: Value) -> Value {
    let properties = input_schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        if let Some(property) = property.as_object_mut() {
            property.remove(SECRET);
        }
    }
    input_schema
}

/// Reports what is wrong with `secret`; `false` if something is.
pub(super) fn check(section: &Section<'_>, input_schema: &Value) -> bool {
    let mut is_sound = true;
    for name in schema::property_names(input_schema) {
        if let (Some(problem), Some((key, entry))) = (problem(input_schema, name), schema::declaration(section, name)) {
            entry.report(format!("`{key}`: `{name}`: {problem}"));
            is_sound = false;
        }
    }
    is_sound
}

fn problem(input_schema: &Value, name: &str) -> Option<&'static str> {
    let property = input_schema["properties"][name].as_object()?;
    let has = |key: &str| property.contains_key(key);
    match property.get(SECRET) {
        None | Some(Value::Bool(false)) => {
            let is_within = |(key, part): (&String, &Value)| !VALUES.contains(&&**key) && marks_within(part);
            property.iter().any(is_within).then_some(
                "`secret` must stand beside the `type` of an argument: a part of one cannot be secret, but the whole argument can, as a text",
            )
        }
        Some(Value::Bool(true)) => {
            let types = schema::types(schema::resolve(input_schema, &input_schema["properties"][name]));
            if types != ["string"] {
                Some("what is secret must be a text, { type = \"string\", secret = true }; it may hold JSON")
            } else if schema::default(input_schema, name).is_some() {
                Some(
                    "what is secret has no `default`, which everybody could read: give such a value by `env_from` or `env_file`",
                )
            } else if has("x-mcp-header") {
                Some(
                    "what is secret cannot be repeated in a header by `x-mcp-header`, which proxies log: leave one of them out",
                )
            } else {
                None
            }
        }
        Some(_) => Some("`secret` must be true or false"),
    }
}

/// Whether a schema within that of an argument says `secret`.
fn marks_within(part: &Value) -> bool {
    match part {
        Value::Object(members) => members.iter().any(|(key, member)| {
            (key == SECRET && member == &Value::Bool(true)) || (!VALUES.contains(&&**key) && marks_within(member))
        }),
        Value::Array(items) => items.iter().any(marks_within),
        _ => false,
    }
}
