//! Whether an answer fits what was asked. The server has the last word; this says what is wrong before anything is sent.

use crate::{
    error::excerpt,
    input_request::{InputRequest, invalid_answer::InvalidAnswer},
    offer::output_schema::violation_of,
    options::input::InputResponse,
};
use longhaul_wire::range_in_words;
use serde_json::{Map, Value};

/// The formats that MCP allows in a form, each in words and with an example.
const FORMATS: [(&str, &str, &str); 4] = [
    ("date-time", "a date and time with a time zone", "2026-11-23T17:30:00Z"),
    ("date", "a date", "2026-11-23"),
    ("email", "an email address", "ann@example.com"),
    ("uri", "a URI", "https://example.com/page"),
];
/// The choices of a field that an error lists.
const SHOWN_CHOICES: usize = 20;
/// How much of a wrong value an error shows, in characters.
const SHOWN_VALUE: usize = 60;

/// A field of the form of an elicitation, by its schema.
///
/// ```
/// use longhaul_client::FormField;
/// use serde_json::json;
///
/// let schema = json!({"type": "integer", "minimum": 1, "maximum": 3});
/// let field = FormField::new(&schema);
/// assert_eq!(field.expected(), "a whole number from 1 to 3");
/// assert!(field.takes(&json!(2)) && !field.takes(&json!(4)));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FormField<'a>(&'a Value);

impl<'a> FormField<'a> {
    /// The field with this schema: a value of the `properties` of [`InputRequest::schema`].
    pub fn new(schema: &'a Value) -> Self {
        Self(schema)
    }

    /// Whether the value fits. A schema that cannot be used, or refers to others, takes any: the server decides.
    pub fn takes(&self, value: &Value) -> bool {
        violation_of(self.0, value, self.format().is_some()).is_none()
    }

    /// What fits, in words, such as `a whole number from 1 to 3`.
    pub fn expected(&self) -> String {
        let schema = self.0;
        if schema["type"] == "array" {
            let items = match choices(&schema["items"]).as_slice() {
                [] => Self(&schema["items"]).expected(),
                words => listed(words),
            };
            return match range_in_words(&schema["minItems"], &schema["maxItems"]) {
                Some(count) => format!("a list of {count}: {items}"),
                None => format!("a list of any of {items}"),
            };
        }
        match choices(schema).as_slice() {
            [] => {}
            [only] => return only.clone(),
            words => return format!("one of {}", listed(words)),
        }
        let kind = schema["type"].as_str().unwrap_or_default();
        match (kind, self.format()) {
            ("boolean", _) => "true or false".to_owned(),
            ("integer", _) => with_range("a whole number", &schema["minimum"], &schema["maximum"], ""),
            ("number", _) => with_range("a number", &schema["minimum"], &schema["maximum"], ""),
            ("string", format) => {
                let words = format.map_or_else(
                    || "a text".to_owned(),
                    |(words, example)| format!("{words}, such as {example}"),
                );
                let text = with_range(&words, &schema["minLength"], &schema["maxLength"], " characters");
                match schema["pattern"].as_str() {
                    Some(pattern) => format!("{text} that matches `{}`", excerpt(pattern)),
                    None => text,
                }
            }
            _ => format!("JSON that fits {}", excerpt(&schema.to_string())),
        }
    }

    /// A text of the format that the field wants, if it wants one of those of MCP (`date-time`, `date`, `email`, `uri`).
    pub fn format_example(&self) -> Option<&'static str> {
        self.format().map(|(_, example)| example)
    }

    fn format(&self) -> Option<(&'static str, &'static str)> {
        let wanted = self.0["format"].as_str()?;
        let (_, words, example) = FORMATS.iter().find(|(name, ..)| *name == wanted)?;
        Some((words, example))
    }
}

/// The values that can be chosen, as they are written.
fn choices(schema: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(word).collect();
    }
    let listed = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    let listed = listed.into_iter().flatten().chain([schema]);
    listed.filter_map(|choice| choice.get("const")).map(word).collect()
}

fn listed(words: &[String]) -> String {
    let shown = words.iter().take(SHOWN_CHOICES).map(|word| excerpt(word).into_owned());
    let shown = shown.collect::<Vec<_>>().join(", ");
    match words.len().saturating_sub(SHOWN_CHOICES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn with_range(words: &str, least: &Value, most: &Value, unit: &str) -> String {
    let Some(range) = range_in_words(least, most) else {
        return words.to_owned();
    };
    let preposition = match (least.is_number() && most.is_number(), unit) {
        (true, "") => "from",
        _ => "of",
    };
    format!("{words} {preposition} {range}{unit}")
}

impl InputRequest {
    /// Whether `answer` fits: an elicitation is accepted with values that fit its form, declined or dismissed. [`TaskHandle::answer`](crate::TaskHandle::answer) sends
    /// no other answer. What is no elicitation has no form, and a schema that cannot be used takes any values: there the server decides.
    ///
    /// ```no_run
    /// # async fn example(task: longhaul_client::TaskHandle) -> Result<(), longhaul_client::RequestError> {
    /// use longhaul_client::InputResponse;
    ///
    /// for question in task.questions().await? {
    ///     let answer = InputResponse::accept(serde_json::json!({"copies": 4}));
    ///     if let Err(wrong) = question.check(&answer) {
    ///         // `copies`: 4 does not fit; it must be a whole number from 1 to 3
    ///         println!("{wrong}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`InvalidAnswer`] names the field, what is wrong with it and what would be right.
    pub fn check(&self, answer: &InputResponse) -> Result<(), InvalidAnswer> {
        if !self.is_elicitation() {
            return Ok(());
        }
        let answer = answer.as_value();
        let whole = |problem: String| Err(InvalidAnswer { field: None, problem });
        match answer["action"].as_str() {
            Some("accept") => {}
            Some("decline" | "cancel") => return Ok(()),
            _ => {
                return whole("its `action` must be `accept`, `decline` or `cancel`".to_owned());
            }
        }
        let nothing = Map::new();
        let content = match answer.get("content") {
            None | Some(Value::Null) => &nothing,
            Some(Value::Object(content)) => content,
            Some(other) => {
                let shown = shorten(other);
                return whole(format!(
                    "its content is {shown}, and must be an object with a value for each field"
                ));
            }
        };
        if self.url().is_some() {
            return match content.is_empty() {
                true => Ok(()),
                false => whole("a page takes no values; accept it without any, or decline".to_owned()),
            };
        }
        match self.schema() {
            Some(schema) => check_form(schema, content),
            None => Ok(()),
        }
    }
}

/// Whether values fit a form with this schema: see [`InputRequest::check`], which does this for the answer to a question.
///
/// # Errors
/// [`InvalidAnswer`].
pub fn check_form(schema: &Value, content: &Map<String, Value>) -> Result<(), InvalidAnswer> {
    let field_of = |name: &str| FormField::new(&schema["properties"][name]);
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !content.contains_key(name) {
            return Err(InvalidAnswer {
                field: Some(name.to_owned()),
                problem: format!("`{name}` is missing; it must be {}", field_of(name).expected()),
            });
        }
    }
    for (name, value) in content {
        if schema["properties"].get(name).is_some() && !field_of(name).takes(value) {
            return Err(InvalidAnswer {
                field: Some(name.clone()),
                problem: format!(
                    "`{name}`: {} does not fit; it must be {}",
                    shorten(value),
                    field_of(name).expected()
                ),
            });
        }
    }
    // What no field says alone.
    match violation_of(schema, &Value::from(content.clone()), false) {
        Some(problem) => Err(InvalidAnswer { field: None, problem }),
        None => Ok(()),
    }
}

/// A value as an error shows it.
fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(schema: &Value, answer: InputResponse) -> Option<String> {
        let request = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": schema}});
        let question = InputRequest::new(Some("q".to_owned()), None, request);
        question.check(&answer).err().map(|error| error.to_string())
    }

    #[test]
    fn each_format_takes_its_example_and_refuses_others() {
        for (name, words, example) in FORMATS {
            let schema = json!({"type": "string", "format": name});
            let field = FormField::new(&schema);
            assert!(
                field.takes(&example.into()) && !field.takes(&"next week".into()),
                "{name}"
            );
            assert_eq!(field.expected(), format!("{words}, such as {example}"));
        }
        // MCP has no such format.
        assert!(FormField::new(&json!({"type": "string", "format": "hostname"})).takes(&"?".into()));
    }

    #[test]
    fn what_fits_is_said_in_words() {
        for (schema, expected) in [
            (json!({"type": "boolean"}), "true or false"),
            (json!({"type": "integer", "minimum": 1}), "a whole number of at least 1"),
            (json!({"type": "number", "maximum": 0.5}), "a number of at most 0.5"),
            (
                json!({"type": "string", "minLength": 3, "maxLength": 5}),
                "a text of 3 to 5 characters",
            ),
            (json!({"type": "string", "pattern": "^a"}), "a text that matches `^a`"),
            (json!({"enum": ["dev", 3]}), "one of dev, 3"),
            (
                json!({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}),
                "one of a, b",
            ),
            (json!({"const": "yes"}), "yes"),
            (
                json!({"type": "array", "items": {"enum": ["a", "b"]}}),
                "a list of any of a, b",
            ),
            (
                json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"const": "a"}, {"const": "b"}]}}),
                "a list of at least 1: a, b",
            ),
        ] {
            assert_eq!(FormField::new(&schema).expected(), expected, "{schema}");
        }
    }

    #[test]
    fn a_problem_names_its_field_and_what_would_be_right() {
        let schema = json!({"type": "object", "required": ["copies"], "properties": {
            "when": {"type": "string", "format": "date"},
            "copies": {"type": "integer", "maximum": 3},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        }});
        let accepted = |content: Value| problem(&schema, InputResponse::accept(content));
        assert_eq!(
            accepted(json!({"when": "2026-11-23", "copies": 3, "tags": ["a"]})),
            None
        );
        assert_eq!(
            accepted(json!({"when": "monday", "copies": 1})).unwrap(),
            "`when`: \"monday\" does not fit; it must be a date, such as 2026-11-23"
        );
        assert_eq!(
            accepted(json!({"copies": "two"})).unwrap(),
            "`copies`: \"two\" does not fit; it must be a whole number of at most 3"
        );
        assert_eq!(
            accepted(json!({"copies": 1, "tags": "a"})).unwrap(),
            "`tags`: \"a\" does not fit; it must be a list of any of a, b"
        );
        assert_eq!(
            accepted(json!({})).unwrap(),
            "`copies` is missing; it must be a whole number of at most 3"
        );
        assert_eq!(
            accepted(json!([1])).unwrap(),
            "its content is [1], and must be an object with a value for each field"
        );
        for no in [InputResponse::decline(), InputResponse::cancel()] {
            assert_eq!(problem(&schema, no), None);
        }
        let odd = problem(&schema, InputResponse::result(json!({"copies": 1}))).unwrap();
        assert!(odd.contains("`accept`, `decline` or `cancel`"), "{odd}");
    }

    #[test]
    fn what_no_field_says_alone_is_checked_too() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
        let odd = problem(&schema, InputResponse::accept(json!({"b": 1}))).unwrap();
        assert!(odd.contains("'b'") || odd.contains("\"b\""), "{odd}");
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_left_to_the_server() {
        for schema in [
            json!({"type": 5}),
            json!({"$ref": "https://schemas.invalid/x.json"}),
            json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
        ] {
            let answer = InputResponse::accept(json!({"a": 1}));
            assert_eq!(problem(&schema, answer), None, "{schema}");
        }
    }

    #[test]
    fn a_page_takes_no_values() {
        let request = json!({"method": "elicitation/create", "params": {"mode": "url", "url": "https://a.example/"}});
        let page = InputRequest::new(None, None, request);
        assert_eq!(page.check(&InputResponse::accept_url()), Ok(()));
        assert_eq!(page.check(&InputResponse::accept(json!({}))), Ok(()));
        assert!(page.check(&InputResponse::accept(json!({"a": 1}))).is_err());
    }
}
