//! Whether the values of an answer fit the form that was asked for: the same for the API, the page and the command.

use longhaul_json_schema::{Schema, SchemaAuthor, Violation as SchemaViolation, ViolationKind, text_len};
use serde_json::{Value, value::RawValue};

/// Violations that are named.
const NAMED: usize = 5;

/// What is wrong with an answer; [`violations`] finds some.
#[derive(Debug, thiserror::Error)]
#[error("the answer does not fit the form: {}", self.in_words())]
pub(crate) struct Violations(pub(crate) Vec<Violation>);

/// What is wrong with the value of a field, or with the whole answer.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) field: Option<String>,
    pub(crate) what: String,
}

impl Violations {
    fn in_words(&self) -> String {
        let words = |violation: &Violation| match &violation.field {
            Some(field) => format!("`{field}`: {}", violation.what),
            None => violation.what.clone(),
        };
        self.0.iter().map(words).collect::<Vec<_>>().join("; ")
    }
}

/// What does not fit; `None` if all does, if there is no form, and if it cannot be checked at once: then the task decides.
pub(crate) fn violations(request: &str, answer: &RawValue) -> Option<Violations> {
    let request: Value = serde_json::from_str(request).ok()?;
    let answer: Value = serde_json::from_str(answer.get()).ok()?;
    let schema = request["params"].get("requestedSchema")?;
    if answer["action"] != "accept" {
        return None;
    }
    let nothing = Value::Object(serde_json::Map::new());
    let content = answer.get("content").filter(|content| !content.is_null());
    let content = content.unwrap_or(&nothing);
    let schema = Schema::with_formats(schema, SchemaAuthor::Foreign, true).ok()?;
    let checked = schema.check_now(content, text_len(content), |found| {
        Violations(found.take(NAMED).map(violation).collect())
    });
    checked?.err()
}

fn violation(error: SchemaViolation<'_>) -> Violation {
    let path = error.instance_path().to_string();
    let path = path.trim_start_matches('/').split('/').next();
    let field = path.filter(|field| !field.is_empty());
    let (field, what) = match (error.kind(), field) {
        (ViolationKind::Required { property }, None) => (property.as_str(), "it is missing".to_owned()),
        // The values may be secret, and whoever answers knows them.
        (_, field) => (field, error.masked().to_string()),
    };
    Violation {
        field: field.map(str::to_owned),
        what,
    }
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
            let found = violations(&request.to_string(), &to_raw_value(&answer).unwrap());
            found.map(|found| found.to_string())
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
            (json!({}), "`copies`: it is missing"),
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
