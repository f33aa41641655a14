//! Whether the answer to a question fits its form. The server has the last word; this gives the reason before anything is sent.

use crate::tool_schema::ToolSchema;
use serde_json::{Map, Value, json};

/// The formats that MCP allows in a form, each in words and with an example.
const FORMATS: [(&str, &str, &str); 4] = [
    ("date-time", "a date and time with a time zone", "2026-11-23T17:30:00Z"),
    ("date", "a date", "2026-11-23"),
    ("email", "an email address", "ann@example.com"),
    ("uri", "a URI", "https://example.com/page"),
];

/// A text of the format that the field's schema wants.
pub(crate) fn format_example(field: &Value) -> Option<&'static str> {
    let wanted = field["format"].as_str()?;
    let (.., example) = FORMATS.iter().find(|(name, ..)| *name == wanted)?;
    Some(example)
}

/// Why `text` is not of the format that the field's schema wants.
pub(crate) fn format_problem(field: &Value, text: &str) -> Option<String> {
    let wanted = field["format"].as_str()?;
    let (name, words, example) = FORMATS.iter().find(|(name, ..)| *name == wanted)?;
    let schema = json!({"type": "string", "format": name});
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .ok()?;
    (!validator.is_valid(&Value::from(text))).then(|| format!("it must be {words}, such as {example}"))
}

/// Why the content does not fit the form: the field and what is wrong with it. A schema that cannot be used is left to the server.
pub(crate) fn form_problem(schema: &Value, content: &Map<String, Value>) -> Option<String> {
    for (name, value) in content {
        let problem = value
            .as_str()
            .and_then(|text| format_problem(&schema["properties"][name], text));
        if let Some(problem) = problem {
            return Some(format!("`{name}`: {problem}"));
        }
    }
    ToolSchema::new(schema).problem(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_its_example_and_refuses_others() {
        for (name, words, example) in FORMATS {
            let field = json!({"type": "string", "format": name});
            assert_eq!(format_problem(&field, example), None, "{name}");
            let problem = format_problem(&field, "next week").unwrap();
            assert_eq!(problem, format!("it must be {words}, such as {example}"));
        }
        assert_eq!(format_problem(&json!({"format": "hostname"}), "?"), None);
        assert_eq!(format_problem(&json!({}), "?"), None);
    }

    #[test]
    fn a_problem_names_its_field() {
        let schema = json!({"type": "object", "properties": {
            "when": {"type": "string", "format": "date"},
            "copies": {"type": "integer", "maximum": 3},
        }});
        let problem = |content: Value| form_problem(&schema, content.as_object().unwrap());
        assert_eq!(problem(json!({"when": "2026-11-23", "copies": 3})), None);
        assert_eq!(
            problem(json!({"when": "monday"})).unwrap(),
            "`when`: it must be a date, such as 2026-11-23"
        );
        assert_eq!(
            problem(json!({"copies": 4})).unwrap(),
            "`copies`: 4 is greater than the maximum of 3"
        );
        assert_eq!(form_problem(&json!({"type": 5}), &Map::new()), None);
    }
}
