//! A question of a task as an HTML form, and the answer that was filled in.

use askama::Template;
use longhaul_admin_api::QuestionView;
use longhaul_wire::{FieldKind, Form, FormChoice, FormField, FormMistakes, InvalidForm, TextFormat};
use serde_json::{Map, Number, Value, json};

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
    /// Why no answer can be given but that it is declined.
    pub(super) invalid: Option<String>,
    /// Whether the answer is written as JSON: what is no form.
    pub(super) is_raw: bool,
    /// The JSON that was written before.
    pub(super) raw: String,
    /// Why the answer that was sent before was refused, as far as no field says so; `None` if none was sent.
    pub(super) refusal: Option<String>,
}

/// What an answer is made of.
pub(super) enum AnswerInput {
    /// The values of these fields; none for a page.
    Fields(Form),
    /// JSON: that to what is no elicitation.
    Json,
    /// Nothing, since the form is none.
    Nothing(InvalidForm),
}

impl AnswerInput {
    pub(super) fn of(question: &QuestionView) -> Self {
        let is_form = question.params["mode"] != "url";
        match Form::of_params(&question.params.to_string()).filter(|_| is_form) {
            _ if question.method != "elicitation/create" => Self::Json,
            Some(Ok(form)) => Self::Fields(form),
            Some(Err(invalid)) => Self::Nothing(invalid),
            None => Self::Fields(Form::default()),
        }
    }
}

/// An answer that was sent and refused.
pub(super) struct RefusedAnswer {
    pub(super) form: Vec<(String, String)>,
    pub(super) why: AnswerProblem,
}

/// Why an answer was refused.
pub(super) enum AnswerProblem {
    Fields(FormMistakes),
    Whole(String),
}

impl RefusedAnswer {
    fn is_of(&self, key: &str) -> bool {
        self.form.iter().any(|(name, value)| name == "key" && value == key)
    }

    fn given(&self, name: &str) -> Vec<String> {
        let given = self.form.iter().filter(|(given, _)| given == name);
        given.map(|(_, value)| value.clone()).collect()
    }

    fn problem(&self, field: &str) -> Option<&str> {
        match &self.why {
            AnswerProblem::Fields(mistakes) => {
                let mistake = mistakes.0.iter().find(|mistake| mistake.field == field);
                mistake.map(|mistake| &*mistake.problem)
            }
            AnswerProblem::Whole(_) => None,
        }
    }

    fn refusal(&self) -> String {
        match &self.why {
            AnswerProblem::Fields(_) => "see below".to_owned(),
            AnswerProblem::Whole(why) => why.clone(),
        }
    }
}

/// What a field of a form asks for.
enum Kind<'a> {
    Text(&'static str),
    Number { step: &'static str },
    Choice(&'a [FormChoice]),
    Choices(&'a [FormChoice]),
    Flag,
}

#[derive(Template)]
#[template(
    ext = "html",
    source = r#"{% match kind %}
{% when Kind::Flag %}<label class="check"><input type="checkbox" name="field.{{ name }}" value="true"{{ described|safe }}{% if is_given("true") %} checked{% endif %}> {{ title }}</label>
{% when Kind::Choices with (choices) %}<fieldset{{ described|safe }}><legend>{{ title }}</legend>{% for choice in choices %}<label class="check"><input type="checkbox" name="field.{{ name }}" value="{{ choice.value }}"{% if is_given(choice.value) %} checked{% endif %}> {{ choice.label() }}</label>{% endfor %}</fieldset>
{% when Kind::Choice with (choices) %}<label>{{ title }} <select name="field.{{ name }}"{{ described|safe }}{% if required %} required{% endif %}><option value=""></option>{% for choice in choices %}<option value="{{ choice.value }}"{% if is_given(choice.value) %} selected{% endif %}>{{ choice.label() }}</option>{% endfor %}</select></label>
{% when Kind::Number with { step } %}<label>{{ title }} <input type="number" step="{{ step }}" name="field.{{ name }}" value="{{ first() }}"{{ described|safe }}{{ bounds|safe }}{% if required %} required{% endif %}></label>
{% when Kind::Text with (kind) %}<label>{{ title }} <input type="{{ kind }}" name="field.{{ name }}" value="{{ first() }}"{{ described|safe }}{{ bounds|safe }}{% if required %} required{% endif %}></label>
{% endmatch %}{% if !described.is_empty() %}<span class="hint" id="{{ id }}">{% if let Some(problem) = problem %}<strong class="error">{{ problem }}</strong>{% if !about.is_empty() %} · {% endif %}{% endif %}{{ about }}</span>{% endif %}"#
)]
struct Field<'a> {
    name: &'a str,
    /// That of what is said about it.
    id: String,
    title: &'a str,
    /// Whether it must be given, how large it may be, and what it is.
    about: String,
    /// What is wrong with the values that were given before.
    problem: Option<&'a str>,
    values: Vec<String>,
    required: bool,
    bounds: String,
    /// Attributes that say that there is something about it.
    described: String,
    kind: Kind<'a>,
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
        let message = params["message"].as_str().unwrap_or(&question.method);
        let url = params["url"]
            .as_str()
            .filter(|url| params["mode"] == "url" && is_web(url));
        Self {
            message: message.to_owned(),
            url: url.map(str::to_owned),
            ..Self::new(&question.key, &AnswerInput::of(question), refused)
        }
    }

    pub(super) fn new(key: &str, input: &AnswerInput, refused: Option<&RefusedAnswer>) -> Self {
        let refused = refused.filter(|refused| refused.is_of(key));
        let is_plain = |letter: char| letter.is_ascii_alphanumeric();
        let id = key.replace(|letter| !is_plain(letter), "-");
        Self {
            key: key.to_owned(),
            message: String::new(),
            url: None,
            fields: match input {
                AnswerInput::Fields(form) => fields(form, &id, refused),
                AnswerInput::Json | AnswerInput::Nothing(_) => Vec::new(),
            },
            invalid: match input {
                AnswerInput::Nothing(invalid) => Some(invalid.to_string()),
                AnswerInput::Fields(_) | AnswerInput::Json => None,
            },
            is_raw: matches!(input, AnswerInput::Json),
            raw: refused.map_or_else(String::new, |refused| refused.given("raw").concat()),
            refusal: refused.map(RefusedAnswer::refusal),
            id,
        }
    }
}

/// Only pages of the web become links.
fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn fields(form: &Form, id_of_question: &str, refused: Option<&RefusedAnswer>) -> Vec<String> {
    let field = |(index, field): (usize, &FormField)| {
        let kind = kind(field);
        // What can only be ticked is always given.
        let must_be_given = field.is_required && !matches!(kind, Kind::Flag);
        let limits: Vec<String> = (must_be_given.then(|| "required".to_owned()).into_iter())
            .chain(field.limits())
            .collect();
        let about = [&*limits.join(", "), field.description.as_deref().unwrap_or_default()];
        let about: Vec<_> = about.into_iter().filter(|said| !said.is_empty()).collect();
        let about = about.join(" · ");
        let problem = refused.and_then(|refused| refused.problem(&field.name));
        let id = format!("about-{id_of_question}-{index}");
        let mut described = String::new();
        if problem.is_some() || !about.is_empty() {
            described = format!(" aria-describedby=\"{id}\"");
        }
        if problem.is_some() {
            described.push_str(" aria-invalid=\"true\"");
        }
        let field = Field {
            title: field.label(),
            values: match refused {
                Some(refused) => refused.given(&format!("field.{}", field.name)),
                None => field.default.as_ref().map(suggested).unwrap_or_default(),
            },
            bounds: bounds(field),
            name: &field.name,
            id,
            about,
            problem,
            required: field.is_required,
            described,
            kind,
        };
        field.render().unwrap_or_default()
    };
    form.fields.iter().enumerate().map(field).collect()
}

/// The values of a default.
fn suggested(default: &Value) -> Vec<String> {
    match default {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(suggested).collect(),
        other => vec![other.to_string()],
    }
}

fn kind(field: &FormField) -> Kind<'_> {
    match &field.kind {
        FieldKind::Boolean => Kind::Flag,
        FieldKind::Integer => Kind::Number { step: "1" },
        FieldKind::Number => Kind::Number { step: "any" },
        FieldKind::Choice(choices) | FieldKind::NamedChoice(choices) => Kind::Choice(choices),
        FieldKind::Choices(choices) => Kind::Choices(choices),
        FieldKind::Text { format, .. } => Kind::Text(match format {
            Some(TextFormat::Email) => "email",
            Some(TextFormat::Uri) => "url",
            Some(TextFormat::Date) => "date",
            Some(TextFormat::DateTime) | None => "text",
        }),
    }
}

/// Attributes for what the field limits, all numbers.
fn bounds(field: &FormField) -> String {
    let [least, most] = match field.kind {
        FieldKind::Integer | FieldKind::Number => ["min", "max"],
        FieldKind::Text { .. } => ["minlength", "maxlength"],
        _ => return String::new(),
    };
    let bound = |(attribute, limit): (&str, &Option<Number>)| {
        let limit = limit.as_ref()?;
        Some(format!(" {attribute}=\"{limit}\""))
    };
    [(least, &field.min), (most, &field.max)]
        .into_iter()
        .filter_map(bound)
        .collect()
}

/// The answer to `question` that a form says, which need not fit, or why it can be none.
pub(super) fn answer(question: &QuestionView, form: &[(String, String)]) -> Result<Value, String> {
    let value_of = |name: &str| {
        form.iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let action = value_of("action").unwrap_or("accept");
    match AnswerInput::of(question) {
        AnswerInput::Json if action != "accept" => {
            Err("only a form or a page can be declined: cancel the task instead".to_owned())
        }
        AnswerInput::Json => {
            let raw = value_of("raw").unwrap_or_default();
            serde_json::from_str(raw).map_err(|error| format!("the answer is not JSON: {error}"))
        }
        AnswerInput::Fields(fields) if action == "accept" && question.params["mode"] != "url" => {
            Ok(json!({"action": action, "content": content(&fields, form)}))
        }
        AnswerInput::Fields(_) | AnswerInput::Nothing(_) => Ok(json!({"action": action})),
    }
}

/// The values that were filled in, each of its field's type if it can be.
pub(super) fn content(fields: &Form, form: &[(String, String)]) -> Map<String, Value> {
    let value = |field: &FormField| {
        let key = format!("field.{}", field.name);
        let mut given = form
            .iter()
            .filter(|(field, value)| *field == key && !value.is_empty())
            .map(|(_, value)| value.as_str());
        match &field.kind {
            FieldKind::Boolean => Some(Value::Bool(given.next().is_some())),
            FieldKind::Choices(_) => {
                let chosen: Vec<_> = given.collect();
                // What need not be given may be fewer than the least that can be.
                (field.is_required || !chosen.is_empty()).then(|| chosen.into())
            }
            FieldKind::Integer | FieldKind::Number => {
                let number = |text: &str| text.parse::<Number>().map_or_else(|_| text.into(), Value::Number);
                given.next().map(number)
            }
            FieldKind::Text { .. } | FieldKind::Choice(_) | FieldKind::NamedChoice(_) => given.next().map(Value::from),
        }
    };
    let values = fields
        .fields
        .iter()
        .filter_map(|field| Some((field.name.clone(), value(field)?)));
    values.collect()
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

    fn filled(fields: &[(&str, &str)]) -> Value {
        answer(&question(), &form(fields)).unwrap()
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
        assert_eq!(filled(&fields), json!({"action": "accept", "content": content}));
        // The check says what is wrong with it.
        let content = json!({"count": "many", "sure": false});
        assert_eq!(
            filled(&[("field.count", "many")]),
            json!({"action": "accept", "content": content})
        );
        assert_eq!(filled(&[("action", "decline")]), json!({"action": "decline"}));
    }

    /// An earlier release may have stored one.
    #[test]
    fn a_form_that_is_none_is_shown_and_can_be_declined() {
        let mut asked = question();
        asked.params["requestedSchema"]["properties"]["env"] = json!({"$ref": "#"});
        let shown = Question::of(&asked, None);
        assert!(shown.fields.is_empty() && shown.message.contains("Deploy"));
        assert!(shown.invalid.unwrap().contains("`env`"));
        let declined = answer(&asked, &form(&[("action", "decline")])).unwrap();
        assert_eq!(declined, json!({"action": "decline"}));
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
        let AnswerInput::Fields(asked) = AnswerInput::of(&question()) else {
            panic!("it is a form")
        };
        let mistakes = asked.check(&content(&asked, &form(&fields))).unwrap_err();
        let refused = RefusedAnswer {
            form: form(&fields),
            why: AnswerProblem::Fields(mistakes),
        };
        let shown = Question::of(&question(), Some(&refused));
        assert_eq!(shown.refusal.as_deref(), Some("see below"));
        let html = shown.fields.concat();
        for part in [
            r#"<option value="prod" selected>"#,
            r#"value="x&#34;" aria-describedby="about-in-1-1" aria-invalid="true""#,
            r#"<span class="hint" id="about-in-1-1"><strong class="error">does not fit; it must be a whole number of at least 1</strong> · required, at least 1 · how"#,
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
