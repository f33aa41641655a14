//! The output schema of a tool whose calls may be handed off: it allows the tool's own output, and what is answered in its place.

use serde_json::{Map, Value, json};

/// Keywords that stay at the root: what references point to, and how the schema is read.
const ROOT: [&str; 3] = ["$schema", "$defs", "definitions"];

/// The structured content of a call that was handed off.
pub(crate) fn handed_off(task: &str, text: &str) -> Value {
    json!({"task": task, "status": "working", "message": text})
}

/// The schema of a tool that may be handed off: what the tool's own `schema` allows, or the answer of a hand-off. `None` if the own schema cannot become a
/// part of another one, because its references would then point elsewhere.
pub(crate) fn allowing_handoff(schema: &Value) -> Option<Value> {
    let own = schema.as_object()?;
    if !is_movable(schema) {
        return None;
    }
    let (mut root, mut moved) = (Map::new(), Map::new());
    for (keyword, value) in own {
        let to = if ROOT.contains(&keyword.as_str()) {
            &mut root
        } else {
            &mut moved
        };
        to.insert(keyword.clone(), value.clone());
    }
    let handoff = json!({
        "type": "object",
        "description": "The work is not over: it goes on as this task. Call task_wait with its id to get the result.",
        "properties": {"task": {"type": "string"}, "status": {"const": "working"}, "message": {"type": "string"}},
        "required": ["task", "status", "message"],
        "additionalProperties": false,
    });
    // Clients of 2025-11-25 take no other.
    if own.get("type") == Some(&json!("object")) {
        root.insert("type".to_owned(), "object".into());
    }
    root.insert("anyOf".to_owned(), json!([moved, handoff]));
    Some(root.into())
}

fn is_movable(schema: &Value) -> bool {
    let points_to_root = |text: &str| text.starts_with("#/$defs/") || text.starts_with("#/definitions/");
    match schema {
        Value::Object(members) => members.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(to)) => points_to_root(to),
            ("$id" | "$anchor" | "$dynamicAnchor" | "id", Value::String(_)) => false,
            _ => is_movable(value),
        }),
        Value::Array(elements) => elements.iter().all(is_movable),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_definitions_still_find_them() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"], "$defs": {"a": {"type": "integer"}}});
        let both = jsonschema::validator_for(&allowing_handoff(&schema).unwrap()).unwrap();
        assert!(both.is_valid(&json!({"a": 1})) && both.is_valid(&handed_off("t", "it runs")));
        for wrong in [json!({"a": "x"}), json!({"task": "t"}), json!(1)] {
            assert!(!both.is_valid(&wrong), "{wrong}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_moved_is_left_out() {
        for schema in [
            json!({"properties": {"a": {"$ref": "#"}}}),
            json!({"properties": {"a": {"$ref": "#/properties/b"}, "b": {}}}),
            json!({"$id": "https://example.org/a"}),
            json!(true),
        ] {
            assert_eq!(allowing_handoff(&schema), None, "{schema}");
        }
    }
}
