//! Forms: the `requestedSchema` of an elicitation, a flat and closed part of JSON Schema.
//!
//! It is read and written here only. A form of anybody is [parsed](Form::parse) once, where it comes in; the rest of Longhaul holds
//! the fields. What MCP does not allow in a form is refused there, so that nothing else meets references, nesting, or keywords that
//! nobody checks.

mod check;
mod parse;
mod schema;
mod text_format;

use serde_json::{Map, Number, Value};
use std::borrow::Cow;

pub use check::{FormMistake, FormMistakes};
pub use parse::InvalidForm;
pub use text_format::TextFormat;

/// What a user is asked to fill in.
///
/// ```
/// use longhaul_wire::Form;
/// use serde_json::json;
///
/// let schema = r#"{"type":"object","properties":{"copies":{"type":"integer","minimum":1,"maximum":3}},"required":["copies"]}"#;
/// let form = Form::parse(schema).unwrap();
/// let mistakes = form.check(json!({"copies": 4}).as_object().unwrap()).unwrap_err();
/// assert_eq!(mistakes.to_string(), "`copies` does not fit; it must be a whole number from 1 to 3");
/// assert_eq!(serde_json::to_string(&form).unwrap(), schema);
/// let refused = Form::parse(r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##).unwrap_err();
/// assert!(refused.to_string().starts_with("the form is invalid: `a`: "));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Form {
    /// In the order in which they are shown.
    pub fields: Vec<FormField>,
    /// Whether an answer with other fields does not fit (`"additionalProperties": false`).
    pub is_closed: bool,
}

/// A field of a [`Form`].
#[derive(Debug, Clone, PartialEq)]
pub struct FormField {
    /// Its name in the answer.
    pub name: String,
    /// What it takes.
    pub kind: FieldKind,
    /// Whether it must be given.
    pub is_required: bool,
    /// The name that the user sees.
    pub title: Option<String>,
    /// The text that says what to fill in.
    pub description: Option<String>,
    /// What is suggested: a value of the field's kind, which need not be within its limits.
    pub default: Option<Value>,
    /// The lower bound: of a number, of a text's length in characters, or of how many choices are made. Other fields have none.
    pub min: Option<Number>,
    /// The upper bound.
    pub max: Option<Number>,
}

/// What a [`FormField`] takes.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// A text.
    Text {
        /// What kind of text.
        format: Option<TextFormat>,
        /// A regular expression that it must match.
        pattern: Option<String>,
    },
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Yes or no.
    Boolean,
    /// One of these.
    Choice(Vec<FormChoice>),
    /// One of these, with the titles as revisions before 2025-11-25 write them (`enumNames`).
    NamedChoice(Vec<FormChoice>),
    /// Any of these.
    Choices(Vec<FormChoice>),
}

/// A text that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormChoice {
    /// The text in the answer.
    pub value: String,
    /// What is shown for it, if that is another text.
    pub title: Option<String>,
}

impl Form {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&FormField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The values that are suggested: an answer that leaves all of them as they are.
    pub fn defaults(&self) -> Map<String, Value> {
        let defaults = self.fields.iter();
        defaults
            .filter_map(|field| Some((field.name.clone(), field.default.clone()?)))
            .collect()
    }

    /// Whether an answer needs values.
    pub fn requires_values(&self) -> bool {
        self.fields.iter().any(|field| field.is_required)
    }
}

impl FormField {
    /// A field that may be left out, and has no title, default or limits.
    pub fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        Self {
            name: name.into(),
            kind,
            is_required: false,
            title: None,
            description: None,
            default: None,
            min: None,
            max: None,
        }
    }

    /// The name that the user sees.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// What may be given for it, as far as its bounds say: `1 to 100`, `at most 40 characters`, `how many: at least 1`.
    pub fn limits(&self) -> Option<String> {
        let range = self.range()?;
        Some(match self.kind {
            FieldKind::Text { .. } => format!("{range} {}", characters(&range)),
            FieldKind::Choices(_) => format!("how many: {range}"),
            _ => range,
        })
    }

    /// What fits, in words, such as `a whole number from 1 to 3`.
    pub fn expected(&self) -> String {
        match &self.kind {
            FieldKind::Boolean => "true or false".to_owned(),
            FieldKind::Integer => self.in_range("a whole number"),
            FieldKind::Number => self.in_range("a number"),
            FieldKind::Choice(choices) | FieldKind::NamedChoice(choices) => match &choices[..] {
                [only] => shorten(&only.value).into_owned(),
                choices => format!("one of {}", listed(choices)),
            },
            FieldKind::Choices(choices) => match self.range() {
                Some(count) => format!("a list of {count}: {}", listed(choices)),
                None => format!("a list of any of {}", listed(choices)),
            },
            FieldKind::Text { format, pattern } => {
                let mut words = format.map_or_else(
                    || "a text".to_owned(),
                    |format| format!("{}, such as {}", format.in_words(), format.example()),
                );
                if let Some(range) = self.range() {
                    words = format!("{words} of {range} {}", characters(&range));
                }
                match pattern {
                    Some(pattern) => format!("{words} that matches `{}`", shorten(pattern)),
                    None => words,
                }
            }
        }
    }

    fn in_range(&self, words: &str) -> String {
        match (self.range(), &self.min, &self.max) {
            (None, ..) => words.to_owned(),
            (Some(range), Some(_), Some(_)) => format!("{words} from {range}"),
            (Some(range), ..) => format!("{words} of {range}"),
        }
    }

    fn range(&self) -> Option<String> {
        self.kind.bounds()?;
        match (&self.min, &self.max) {
            (Some(min), Some(max)) => Some(format!("{min} to {max}")),
            (Some(min), None) => Some(format!("at least {min}")),
            (None, Some(max)) => Some(format!("at most {max}")),
            (None, None) => None,
        }
    }
}

impl FieldKind {
    /// A text of any kind.
    pub const TEXT: Self = Self::Text {
        format: None,
        pattern: None,
    };

    /// What can be chosen, if it is a choice.
    pub fn choices(&self) -> Option<&[FormChoice]> {
        match self {
            Self::Choice(choices) | Self::NamedChoice(choices) | Self::Choices(choices) => Some(choices),
            _ => None,
        }
    }

    /// The keywords of the lower and the upper bound.
    pub fn bounds(&self) -> Option<[&'static str; 2]> {
        match self {
            Self::Text { .. } => Some(["minLength", "maxLength"]),
            Self::Integer | Self::Number => Some(["minimum", "maximum"]),
            Self::Choices(_) => Some(["minItems", "maxItems"]),
            Self::Boolean | Self::Choice(_) | Self::NamedChoice(_) => None,
        }
    }
}

impl FormChoice {
    /// What is shown for it.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.value)
    }
}

/// The choices that words list.
const SHOWN_CHOICES: usize = 20;
/// The longest choice or pattern that words show, in bytes.
const SHOWN_TEXT: usize = 200;

fn shorten(text: &str) -> Cow<'_, str> {
    longhaul_core::shorten(text, SHOWN_TEXT)
}

fn listed(choices: &[FormChoice]) -> String {
    let shown = choices.iter().take(SHOWN_CHOICES).map(|choice| shorten(&choice.value));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match choices.len().saturating_sub(SHOWN_CHOICES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn characters(range: &str) -> &'static str {
    match range.ends_with(" 1") {
        true => "character",
        false => "characters",
    }
}
