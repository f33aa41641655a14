//! A question of a task as an HTML form, and the answer that was filled in.

use crate::view::QuestionView;
use askama::Template;
use serde_json::{Map, Value, json};

/// A question on the page.
pub(super) struct Question {
    pub(super) key: String,
    pub(super) message: String,
    /// The page that the question is about.
    pub(super) url: Option<String>,
    /// The fields, as HTML.
    pub(super) fields: Vec<String>,
    /// Whether the answer is written as JSON: what is no form.
    pub(super) is_raw: bool,
}

/// What a field of a form asks for.
enum Kind {
    Text(&'static str),
    Number { step: &'static str },
    Choice(Vec<(String, String)>),
    Choices(Vec<(String, String)>),
    Flag,
}

#[derive(Template)]
#[template(
    ext = "html",
    source = r#"{% match kind %}
{% when Kind::Flag %}<label class="check"><input type="checkbox" name="field.{{ name }}" value="true"{% if default == "true" %} checked{% endif %}> {{ title }}</label>
{% when Kind::Choices with (choices) %}<fieldset><legend>{{ title }}</legend>{% for (value, label) in choices %}<label class="check"><input type="checkbox" name="field.{{ name }}" value="{{ value }}"> {{ label }}</label>{% endfor %}</fieldset>
{% when Kind::Choice with (choices) %}<label>{{ title }} <select name="field.{{ name }}"{% if required %} required{% endif %}><option value=""></option>{% for (value, label) in choices %}<option value="{{ value }}"{% if *value == default %} selected{% endif %}>{{ label }}</option>{% endfor %}</select></label>
{% when Kind::Number with { step } %}<label>{{ title }} <input type="number" step="{{ step }}" name="field.{{ name }}" value="{{ default }}"{{ bounds|safe }}{% if required %} required{% endif %}></label>
{% when Kind::Text with (kind) %}<label>{{ title }} <input type="{{ kind }}" name="field.{{ name }}" value="{{ default }}"{{ bounds|safe }}{% if required %} required{% endif %}></label>
{% endmatch %}{% if let Some(hint) = hint %}<span class="hint">{{ hint }}</span>{% endif %}"#
)]
struct Field<'a> {
    name: &'a str,
    title: String,
    hint: Option<&'a str>,
    default: String,
    required: bool,
    bounds: String,
    kind: Kind,
}

impl Question {
    pub(super) fn of(question: &QuestionView) -> Self {
        let params = &question.params;
        let is_url = params["mode"] == "url";
        let schema = &params["requestedSchema"];
        let is_form = question.method == "elicitation/create";
        Self {
            key: question.key.clone(),
            message: match params["message"].as_str() {
                Some(message) => message.to_owned(),
                None => question.method.clone(),
            },
            url: params["url"]
                .as_str()
                .filter(|url| is_url && is_web(url))
                .map(str::to_owned),
            fields: if is_form && !is_url { fields(schema) } else { Vec::new() },
            is_raw: !is_form,
        }
    }
}

/// Only pages of the web become links.
fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn fields(schema: &Value) -> Vec<String> {
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let required = |name: &str| {
        let names = schema["required"].as_array();
        names.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let field = |(name, schema): (&String, &Value)| {
        let field = Field {
            name,
            title: schema["title"].as_str().unwrap_or(name).to_owned(),
            hint: schema["description"].as_str(),
            default: match &schema["default"] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
            required: required(name),
            bounds: bounds(schema),
            kind: kind(schema),
        };
        field.render().unwrap_or_default()
    };
    properties.iter().map(field).collect()
}

fn kind(schema: &Value) -> Kind {
    if let Some(choices) = choices(schema) {
        return Kind::Choice(choices);
    }
    match schema["type"].as_str() {
        Some("boolean") => Kind::Flag,
        Some("integer") => Kind::Number { step: "1" },
        Some("number") => Kind::Number { step: "any" },
        Some("array") => Kind::Choices(choices(&schema["items"]).unwrap_or_default()),
        _ => Kind::Text(match schema["format"].as_str() {
            Some("email") => "email",
            Some("uri") => "url",
            Some("date") => "date",
            _ => "text",
        }),
    }
}

/// The values that are allowed, and what they are called.
fn choices(schema: &Value) -> Option<Vec<(String, String)>> {
    let named = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    if let Some(named) = named {
        let choice = |one: &Value| {
            let value = one["const"].as_str()?.to_owned();
            let label = one["title"].as_str().unwrap_or(&value).to_owned();
            Some((value, label))
        };
        return Some(named.iter().filter_map(choice).collect());
    }
    let values = schema["enum"].as_array()?;
    let names = schema["enumNames"].as_array();
    let choice = |(place, value): (usize, &Value)| {
        let value = value.as_str()?.to_owned();
        let name = names.and_then(|names| names.get(place)?.as_str());
        Some((value.clone(), name.unwrap_or(&value).to_owned()))
    };
    Some(values.iter().enumerate().filter_map(choice).collect())
}

/// Attributes for what the schema limits, all numbers.
fn bounds(schema: &Value) -> String {
    let limits = [
        ("minimum", "min"),
        ("maximum", "max"),
        ("minLength", "minlength"),
        ("maxLength", "maxlength"),
    ];
    let bound =
        |(key, attribute): (&str, &str)| schema[key].as_number().map(|limit| format!(" {attribute}=\"{limit}\""));
    limits.into_iter().filter_map(bound).collect()
}

/// What was filled in cannot be the answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidAnswer(String);

/// The answer to `question` that a form says.
pub(super) fn answer(question: &QuestionView, form: &[(String, String)]) -> Result<Value, InvalidAnswer> {
    let value_of = |name: &str| {
        form.iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let action = value_of("action").unwrap_or("accept");
    if question.method != "elicitation/create" {
        if action != "accept" {
            return Err(InvalidAnswer(
                "only a form or a page can be declined: cancel the task instead".to_owned(),
            ));
        }
        let raw = value_of("raw").unwrap_or_default();
        return serde_json::from_str(raw).map_err(|error| InvalidAnswer(format!("the answer is not JSON: {error}")));
    }
    if action != "accept" || question.params["mode"] == "url" {
        return Ok(json!({"action": action}));
    }
    let schema = &question.params["requestedSchema"];
    let mut content = Map::new();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let key = format!("field.{name}");
        let mut given = form
            .iter()
            .filter(|(field, _)| *field == key)
            .map(|(_, value)| value.as_str());
        let value = match kind(schema) {
            Kind::Flag => Some(Value::Bool(given.next().is_some())),
            Kind::Choices(_) => Some(given.collect::<Vec<_>>().into()),
            Kind::Number { .. } => {
                let text = given.next().filter(|text| !text.is_empty());
                text.map(|text| number(name, schema, text)).transpose()?
            }
            Kind::Text(_) | Kind::Choice(_) => given.next().filter(|text| !text.is_empty()).map(Value::from),
        };
        content.extend(value.map(|value| (name.clone(), value)));
    }
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| !content.contains_key(*name)) {
        return Err(InvalidAnswer(format!("`{missing}` is missing")));
    }
    Ok(json!({"action": "accept", "content": content}))
}

fn number(name: &str, schema: &Value, text: &str) -> Result<Value, InvalidAnswer> {
    let number: serde_json::Number = text
        .parse()
        .map_err(|_| InvalidAnswer(format!("`{name}` is not a number: {text}")))?;
    if schema["type"] == "integer" && !number.is_i64() && !number.is_u64() {
        return Err(InvalidAnswer(format!("`{name}` is not a whole number: {text}")));
    }
    Ok(Value::Number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> QuestionView {
        QuestionView {
            key: "in-1".to_owned(),
            asked_at: String::new(),
            method: "elicitation/create".to_owned(),
            params: json!({"message": "Deploy <b>?", "requestedSchema": {"type": "object", "required": ["env", "count"], "properties": {
                "env": {"type": "string", "enum": ["dev", "prod"]},
                "count": {"type": "integer", "minimum": 1, "description": "how \"many\""},
                "sure": {"type": "boolean", "title": "Sure?"},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "note": {"type": "string", "maxLength": 5}
            }}}),
        }
    }

    fn filled(fields: &[(&str, &str)]) -> Result<Value, InvalidAnswer> {
        let form: Vec<(String, String)> = fields
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        answer(&question(), &form)
    }

    #[test]
    fn fields_become_values_of_their_types() {
        let fields = [
            ("action", "accept"),
            ("field.env", "prod"),
            ("field.count", "3"),
            ("field.tags", "a"),
            ("field.tags", "b"),
            ("field.note", ""),
            ("field.other", "x"),
        ];
        let content = json!({"env": "prod", "count": 3, "sure": false, "tags": ["a", "b"]});
        assert_eq!(
            filled(&fields).unwrap(),
            json!({"action": "accept", "content": content})
        );
        assert_eq!(filled(&[("action", "decline")]).unwrap(), json!({"action": "decline"}));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = |fields: &[(&str, &str)]| filled(fields).unwrap_err().to_string();
        assert_eq!(error(&[("field.count", "3")]), "`env` is missing");
        assert_eq!(
            error(&[("field.env", "dev"), ("field.count", "many")]),
            "`count` is not a number: many"
        );
        assert_eq!(
            error(&[("field.env", "dev"), ("field.count", "1.5")]),
            "`count` is not a whole number: 1.5"
        );
    }

    #[test]
    fn a_schema_becomes_fields_without_markup_of_its_own() {
        let html = Question::of(&question()).fields.concat();
        assert!(html.contains(r#"<select name="field.env" required>"#), "{html}");
        assert!(
            html.contains(r#"min="1""#) && html.contains(r#"maxlength="5""#),
            "{html}"
        );
        assert!(html.contains("how &#34;many&#34;"), "{html}");
    }
}
