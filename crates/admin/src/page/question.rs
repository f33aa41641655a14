//! A question of a task as an HTML form, and the answer that was filled in.

use crate::form_check::{Violation, Violations};
use askama::Template;
use longhaul_admin_api::QuestionView;
use longhaul_wire::field_limits;
use serde_json::{Map, Value, json};

/// A question on the page.
pub(super) struct Question {
    pub(super) key: String,
    /// Its key as a part of ids of elements.
    pub(super) id: String,
    pub(super) message: String,
    /// The page that the question is about.
    pub(super) url: Option<String>,
    /// The fields, as HTML.
    pub(super) fields: Vec<String>,
    /// Whether the answer is written as JSON: what is no form.
    pub(super) is_raw: bool,
    /// The JSON that was written before.
    pub(super) raw: String,
    /// Why the answer that was sent before was refused, as far as no field says so; `None` if none was sent.
    pub(super) refusal: Option<String>,
}

/// An answer that was sent and refused.
pub(super) struct RefusedAnswer {
    pub(super) form: Vec<(String, String)>,
    pub(super) violations: Violations,
}

impl RefusedAnswer {
    fn is_of(&self, key: &str) -> bool {
        self.form.iter().any(|(name, value)| name == "key" && value == key)
    }

    fn given(&self, name: &str) -> Vec<String> {
        let given = self.form.iter().filter(|(given, _)| given == name);
        given.map(|(_, value)| value.clone()).collect()
    }

    fn problem(&self, field: Option<&str>) -> Option<String> {
        let of_field = self.violations.0.iter().filter(|wrong| wrong.field.as_deref() == field);
        let said: Vec<_> = of_field.map(|wrong| &*wrong.what).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
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
{% when Kind::Flag %}<label class="check"><input type="checkbox" name="field.{{ name }}" value="true"{{ described|safe }}{% if is_given("true") %} checked{% endif %}> {{ title }}</label>
{% when Kind::Choices with (choices) %}<fieldset{{ described|safe }}><legend>{{ title }}</legend>{% for (value, label) in choices %}<label class="check"><input type="checkbox" name="field.{{ name }}" value="{{ value }}"{% if is_given(value) %} checked{% endif %}> {{ label }}</label>{% endfor %}</fieldset>
{% when Kind::Choice with (choices) %}<label>{{ title }} <select name="field.{{ name }}"{{ described|safe }}{% if required %} required{% endif %}><option value=""></option>{% for (value, label) in choices %}<option value="{{ value }}"{% if is_given(value) %} selected{% endif %}>{{ label }}</option>{% endfor %}</select></label>
{% when Kind::Number with { step } %}<label>{{ title }} <input type="number" step="{{ step }}" name="field.{{ name }}" value="{{ first() }}"{{ described|safe }}{{ bounds|safe }}{% if required %} required{% endif %}></label>
{% when Kind::Text with (kind) %}<label>{{ title }} <input type="{{ kind }}" name="field.{{ name }}" value="{{ first() }}"{{ described|safe }}{{ bounds|safe }}{% if required %} required{% endif %}></label>
{% endmatch %}{% if !described.is_empty() %}<span class="hint" id="{{ id }}">{% if let Some(problem) = problem %}<strong class="error">{{ problem }}</strong>{% if !about.is_empty() %} · {% endif %}{% endif %}{{ about }}</span>{% endif %}"#
)]
struct Field<'a> {
    name: &'a str,
    /// That of what is said about it.
    id: String,
    title: String,
    /// Whether it must be given, how large it may be, and what it is.
    about: String,
    /// What is wrong with the values that were given before.
    problem: Option<String>,
    values: Vec<String>,
    required: bool,
    bounds: String,
    /// Attributes that say that there is something about it.
    described: String,
    kind: Kind,
}

impl Field<'_> {
    fn first(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }

    fn is_given(&self, value: &str) -> bool {
        self.values.iter().any(|given| given == value)
    }
}

impl Question {
    /// With what was filled in before, if that was refused.
    pub(super) fn of(question: &QuestionView, refused: Option<&RefusedAnswer>) -> Self {
        let params = &question.params;
        let is_url = params["mode"] == "url";
        let schema = &params["requestedSchema"];
        let is_form = question.method == "elicitation/create";
        let refused = refused.filter(|refused| refused.is_of(&question.key));
        let is_plain = |letter: char| letter.is_ascii_alphanumeric();
        let id = question.key.replace(|letter| !is_plain(letter), "-");
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
            fields: if is_form && !is_url {
                fields(schema, &id, refused)
            } else {
                Vec::new()
            },
            is_raw: !is_form,
            raw: refused.map_or_else(String::new, |refused| refused.given("raw").concat()),
            refusal: refused.map(|refused| refused.problem(None).unwrap_or_else(|| "see below".to_owned())),
            id,
        }
    }
}

/// Only pages of the web become links.
fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn fields(schema: &Value, id_of_question: &str, refused: Option<&RefusedAnswer>) -> Vec<String> {
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let field = |(index, (name, field)): (usize, (&String, &Value))| {
        let required = is_required(schema, name);
        let kind = kind(field);
        // What can only be ticked is always given.
        let must_be_given = required && !matches!(kind, Kind::Flag);
        let limits: Vec<String> = (must_be_given.then(|| "required".to_owned()).into_iter())
            .chain(field_limits(field))
            .collect();
        let about = [&*limits.join(", "), field["description"].as_str().unwrap_or_default()];
        let about: Vec<_> = about.into_iter().filter(|said| !said.is_empty()).collect();
        let about = about.join(" · ");
        let problem = refused.and_then(|refused| refused.problem(Some(name)));
        let id = format!("about-{id_of_question}-{index}");
        let mut described = String::new();
        if problem.is_some() || !about.is_empty() {
            described = format!(" aria-describedby=\"{id}\"");
        }
        if problem.is_some() {
            described.push_str(" aria-invalid=\"true\"");
        }
        let field = Field {
            title: field["title"].as_str().unwrap_or(name).to_owned(),
            values: match refused {
                Some(refused) => refused.given(&format!("field.{name}")),
                None => defaults(&field["default"]),
            },
            bounds: bounds(field),
            name,
            id,
            about,
            problem,
            required,
            described,
            kind,
        };
        field.render().unwrap_or_default()
    };
    properties.iter().enumerate().map(field).collect()
}

/// Whether each property of the schema has a field that can hold its values.
pub(super) fn has_field_for_each(schema: &Value) -> bool {
    let has_field = |field: &Value| match field["type"].as_str() {
        Some("array") => choices(&field["items"]).is_some(),
        Some("string" | "integer" | "number" | "boolean") => true,
        _ => choices(field).is_some_and(|choices| !choices.is_empty()),
    };
    let properties = schema["properties"].as_object();
    properties.is_some_and(|properties| properties.values().all(has_field))
        && ["$ref", "allOf", "anyOf", "oneOf", "if"]
            .iter()
            .all(|keyword| schema.get(*keyword).is_none())
}

fn is_required(schema: &Value, name: &str) -> bool {
    let names = schema["required"].as_array();
    names.is_some_and(|names| names.iter().any(|required| required == name))
}

/// The values that are suggested.
fn defaults(default: &Value) -> Vec<String> {
    match default {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(defaults).collect(),
        other => vec![other.to_string()],
    }
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

/// The answer to `question` that a form says, or why it cannot be one.
pub(super) fn answer(question: &QuestionView, form: &[(String, String)]) -> Result<Value, Violations> {
    let value_of = |name: &str| {
        form.iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let whole = |what: String| Violations(vec![Violation { field: None, what }]);
    let action = value_of("action").unwrap_or("accept");
    if question.method != "elicitation/create" {
        if action != "accept" {
            return Err(whole(
                "only a form or a page can be declined: cancel the task instead".to_owned(),
            ));
        }
        let raw = value_of("raw").unwrap_or_default();
        return serde_json::from_str(raw).map_err(|error| whole(format!("the answer is not JSON: {error}")));
    }
    if action != "accept" || question.params["mode"] == "url" {
        return Ok(json!({"action": action}));
    }
    let schema = &question.params["requestedSchema"];
    let (mut content, mut wrong) = (Map::new(), Vec::new());
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let key = format!("field.{name}");
        let mut given = form
            .iter()
            .filter(|(field, value)| *field == key && !value.is_empty())
            .map(|(_, value)| value.as_str());
        let required = is_required(schema, name);
        let value = match kind(field) {
            Kind::Flag => Ok(Some(Value::Bool(given.next().is_some()))),
            Kind::Choices(_) => {
                let chosen: Vec<_> = given.collect();
                // What need not be given may be fewer than the least that can be.
                Ok((required || !chosen.is_empty()).then(|| chosen.into()))
            }
            Kind::Number { .. } => given.next().map(|text| number(field, text)).transpose(),
            Kind::Text(_) | Kind::Choice(_) => Ok(given.next().map(Value::from)),
        };
        let what = match value {
            Ok(None) if required => "it is missing".to_owned(),
            Ok(value) => {
                content.extend(value.map(|value| (name.clone(), value)));
                continue;
            }
            Err(what) => what,
        };
        let field = Some(name.clone());
        wrong.push(Violation { field, what });
    }
    if wrong.is_empty() {
        Ok(json!({"action": "accept", "content": content}))
    } else {
        Err(Violations(wrong))
    }
}

fn number(schema: &Value, text: &str) -> Result<Value, String> {
    let number: serde_json::Number = text.parse().map_err(|_| format!("{text} is not a number"))?;
    if schema["type"] == "integer" && !number.is_i64() && !number.is_u64() {
        return Err(format!("{text} is not a whole number"));
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

    fn form(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = fields
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    fn filled(fields: &[(&str, &str)]) -> Result<Value, Violations> {
        answer(&question(), &form(fields))
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
        assert_eq!(
            error(&[("field.count", "many")]),
            "the answer does not fit the form: `env`: it is missing; `count`: many is not a number"
        );
        assert_eq!(
            error(&[("field.env", "dev"), ("field.count", "1.5")]),
            "the answer does not fit the form: `count`: 1.5 is not a whole number"
        );
    }

    #[test]
    fn a_refused_answer_is_in_its_form_with_what_is_wrong() {
        let fields = [
            ("key", "in-1"),
            ("field.env", "prod"),
            ("field.count", "x\""),
            ("field.tags", "b"),
            ("field.sure", "true"),
        ];
        let violations = filled(&fields).unwrap_err();
        let refused = RefusedAnswer {
            form: form(&fields),
            violations,
        };
        let shown = Question::of(&question(), Some(&refused));
        assert_eq!(shown.refusal.as_deref(), Some("see below"));
        let html = shown.fields.concat();
        for part in [
            r#"<option value="prod" selected>"#,
            r#"value="x&#34;" aria-describedby="about-in-1-1" aria-invalid="true""#,
            r#"<span class="hint" id="about-in-1-1"><strong class="error">x&#34; is not a number</strong> · required, at least 1 · how"#,
            r#"value="b" checked"#,
            r#"value="true" checked"#,
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert!(!html.contains(r#"value="a" checked"#), "{html}");
        let other = QuestionView {
            key: "in-2".to_owned(),
            ..question()
        };
        assert_eq!(Question::of(&other, Some(&refused)).refusal, None);
    }

    #[test]
    fn a_schema_becomes_fields_without_markup_of_its_own() {
        let html = Question::of(&question(), None).fields.concat();
        assert!(
            html.contains(r#"<select name="field.env" aria-describedby="about-in-1-0" required>"#),
            "{html}"
        );
        assert!(
            html.contains(r#"min="1""#) && html.contains(r#"maxlength="5""#),
            "{html}"
        );
        assert!(html.contains("how &#34;many&#34;"), "{html}");
    }
}
