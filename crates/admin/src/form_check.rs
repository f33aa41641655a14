//! Whether the values of an answer fit the form that was asked for: the same for the API, the page and the command.

use serde_json::{Value, value::RawValue};

/// A longer schema is not used, so that a check takes bounded time.
const LONGEST_SCHEMA: usize = 64 * 1024;
/// Violations that are named.
const NAMED: usize = 5;

/// What does not fit, in words; `None` if all does, if there is no form, and if its schema cannot be used: then the task decides.
pub(crate) fn violations(request: &str, answer: &RawValue) -> Option<String> {
    let request: Value = serde_json::from_str(request).ok()?;
    let answer: Value = serde_json::from_str(answer.get()).ok()?;
    let schema = request["params"].get("requestedSchema")?;
    if answer["action"] != "accept" || is_too_much(schema) {
        return None;
    }
    let nothing = Value::Object(serde_json::Map::new());
    let content = answer.get("content").filter(|content| !content.is_null());
    let validator = jsonschema::options().should_validate_formats(true).build(schema).ok()?;
    let found = validator.iter_errors(content.unwrap_or(&nothing));
    let in_words = |error: jsonschema::ValidationError<'_>| {
        let place = error.instance_path().to_string();
        // The values may be secret, and whoever answers knows them.
        match place.trim_start_matches('/') {
            "" => error.masked().to_string(),
            field => format!("`{field}`: {}", error.masked()),
        }
    };
    let found: Vec<String> = found.take(NAMED).map(in_words).collect();
    (!found.is_empty()).then(|| format!("the answer does not fit the form: {}", found.join("; ")))
}

/// References may lead in circles.
fn is_too_much(schema: &Value) -> bool {
    fn refers(schema: &Value) -> bool {
        match schema {
            Value::Object(members) => members
                .iter()
                .any(|(name, value)| matches!(&**name, "$ref" | "$dynamicRef") || refers(value)),
            Value::Array(values) => values.iter().any(refers),
            _ => false,
        }
    }
    refers(schema) || schema.to_string().len() > LONGEST_SCHEMA
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, value::to_raw_value};

    #[test]
    fn values_that_do_not_fit_are_named_with_their_field() {
        let of = |schema: Value, answer: Value| {
            let request =
                json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": schema}});
            violations(&request.to_string(), &to_raw_value(&answer).unwrap())
        };
        let schema = json!({"type": "object", "required": ["copies"], "properties": {
            "copies": {"type": "integer", "maximum": 3},
            "when": {"type": "string", "format": "date"},
        }});
        let accepted = |content: Value| of(schema.clone(), json!({"action": "accept", "content": content}));
        assert_eq!(accepted(json!({"copies": 3, "when": "2026-11-23"})), None);
        for (content, named) in [
            (json!({"copies": 4}), "`copies`"),
            (json!({"copies": "3"}), "`copies`"),
            (json!({"copies": 3, "when": "monday"}), "`when`"),
            (json!({}), "copies"),
        ] {
            let why = accepted(content.clone());
            assert!(
                why.as_ref().is_some_and(|why| why.contains(named)),
                "{content}: {why:?}"
            );
        }
        assert_eq!(of(schema, json!({"action": "decline"})), None);
        let circle = json!({"$ref": "#"});
        assert_eq!(of(circle, json!({"action": "accept", "content": {}})), None);
    }
}
