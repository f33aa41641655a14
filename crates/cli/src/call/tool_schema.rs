//! Whether arguments fit the schema of their tool, or an answer the form of its question. The server has the last word; this says what is wrong before
//! anything is sent.

use longhaul_client::Tool;
use longhaul_json_schema::{Schema, SchemaAuthor, Violation, ViolationKind, text_len};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The input schema of a tool, or the form of a question.
pub(crate) struct ToolSchema {
    /// `None` if the schema cannot be used; then only the server checks. So it does what takes long to check.
    schema: Option<Schema>,
    /// The properties whose values are not shown: those that the schema calls write-only, or passwords.
    hidden: BTreeSet<String>,
}

impl ToolSchema {
    pub(crate) fn of(tool: &Tool) -> Self {
        Self::new(&tool.input_schema)
    }

    pub(crate) fn new(schema: &Value) -> Self {
        let properties = schema["properties"].as_object();
        let is_hidden = |property: &Value| property["writeOnly"] == true || property["format"] == "password";
        let hidden = properties.into_iter().flatten();
        Self {
            hidden: hidden
                .filter(|(_, property)| is_hidden(property))
                .map(|(name, _)| name.clone())
                .collect(),
            schema: Schema::compile(schema, SchemaAuthor::Foreign).ok(),
        }
    }

    /// What does not fit first, with its place if that is not the whole.
    pub(crate) fn problem(&self, values: &Map<String, Value>) -> Option<String> {
        let values = Value::from(values.clone());
        let schema = self.schema.as_ref()?;
        let describe = |violations: &mut dyn Iterator<Item = Violation<'_>>| describe(violations, &self.hidden);
        schema.check_now(&values, text_len(&values), describe)?.err()
    }
}

fn describe(violations: &mut dyn Iterator<Item = Violation<'_>>, hidden: &BTreeSet<String>) -> String {
    let Some(violation) = violations.next() else {
        return "they do not fit".to_owned();
    };
    let violation = innermost(&violation);
    let place = violation.instance_path().to_string();
    let is_hidden = |place: &str| place.split('/').next().is_some_and(|name| hidden.contains(name));
    match place.strip_prefix('/') {
        Some(name) if is_hidden(name) => format!("`{name}`: {}", violation.masked()),
        Some(name) => format!("`{name}`: {violation}"),
        None => violation.to_string(),
    }
}

/// Of a value that fits no branch of an `anyOf` or `oneOf`, what is wrong deepest within it: that of the branch which was meant.
fn innermost<'a>(error: &'a Violation<'a>) -> &'a Violation<'a> {
    let (ViolationKind::AnyOf { context } | ViolationKind::OneOfNotValid { context }) = error.kind() else {
        return error;
    };
    let depth = |error: &Violation<'_>| error.instance_path().as_str().len();
    let deepest = context
        .iter()
        .filter_map(|branch| branch.first())
        .max_by_key(|inner| depth(inner));
    match deepest.filter(|inner| depth(inner) > depth(error)) {
        Some(inner) => innermost(inner),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_fit_is_said_with_its_place() {
        let schema = json!({"type": "object", "required": ["n"], "additionalProperties": false, "properties": {
            "n": {"type": "integer", "maximum": 9},
            "pin": {"type": "string", "minLength": 9, "writeOnly": true},
            "tags": {"type": "array", "items": {"type": "string"}},
            "point": {"anyOf": [{"type": "object", "properties": {"x": {"type": "integer"}}}, {"type": "null"}]},
        }});
        let problem = |values: Value| ToolSchema::new(&schema).problem(values.as_object().unwrap());
        assert_eq!(problem(json!({"n": 9, "tags": ["a"]})), None);
        let expected = "`n`: 10 is greater than the maximum of 9";
        assert_eq!(problem(json!({"n": 10})).unwrap(), expected);
        let expected = "`tags/0`: 1 is not of type \"string\"";
        assert_eq!(problem(json!({"n": 1, "tags": [1]})).unwrap(), expected);
        let expected = "`point/x`: \"q\" is not of type \"integer\"";
        assert_eq!(problem(json!({"n": 1, "point": {"x": "q"}})).unwrap(), expected);
        assert_eq!(problem(json!({"n": 1, "point": null})), None);
        let hidden = problem(json!({"n": 1, "pin": "hunter2"})).unwrap();
        assert!(hidden.starts_with("`pin`: ") && !hidden.contains("hunter"), "{hidden}");
        assert_eq!(problem(json!({})).unwrap(), "\"n\" is a required property");
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_left_to_the_server() {
        for schema in [json!({"type": 5}), json!({"$ref": "https://schemas.invalid/x.json"})] {
            assert_eq!(ToolSchema::new(&schema).problem(&Map::new()), None, "{schema}");
        }
    }
}
