//! Whether an answer fits its form.

use super::{FieldKind, Form, FormChoice, FormField, parse};
use longhaul_json_schema::text_len;
use serde_json::{Map, Number, Value};
use std::{cmp::Ordering, fmt};

/// The mistakes that are named.
const MOST_NAMED: usize = 5;

/// What is wrong with the values of an answer: some mistakes, in the order of the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormMistakes(pub Vec<FormMistake>);

impl std::error::Error for FormMistakes {}

impl fmt::Display for FormMistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, mistake) in self.0.iter().enumerate() {
            let separator = if nth == 0 { "" } else { "; " };
            write!(f, "{separator}{mistake}")?;
        }
        Ok(())
    }
}

/// What is wrong with the value of one field. The value is not shown: it may be secret, and whoever has given it knows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct FormMistake {
    /// The name of the field.
    pub field: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Form {
    /// Whether these values fit.
    ///
    /// # Errors
    /// [`FormMistakes`] names each field, and what would be right.
    pub fn check(&self, content: &Map<String, Value>) -> Result<(), FormMistakes> {
        let of_fields = self.fields.iter().filter_map(|field| {
            let problem = field.problem(content.get(&field.name))?;
            let field = field.name.clone();
            Some(FormMistake { field, problem })
        });
        let others = content
            .keys()
            .filter(|name| self.is_closed && self.field(name).is_none());
        let of_others = others.map(|name| FormMistake {
            field: name.clone(),
            problem: "is no field of the form".to_owned(),
        });
        let mistakes: Vec<_> = of_fields.chain(of_others).take(MOST_NAMED).collect();
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(FormMistakes(mistakes)),
        }
    }
}

impl FormField {
    /// What is wrong with the value, and what would be right; `None` if it fits. No value fits if none is needed.
    pub fn problem(&self, value: Option<&Value>) -> Option<String> {
        match value {
            None if self.is_required => Some(format!("is missing; it must be {}", self.expected())),
            Some(value) if !self.takes(value) => Some(format!("does not fit; it must be {}", self.expected())),
            _ => None,
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match (&self.kind, value) {
            (FieldKind::Boolean, value) => value.is_boolean(),
            (FieldKind::Integer, Value::Number(number)) => is_whole(number) && self.is_within(number),
            (FieldKind::Number, Value::Number(number)) => self.is_within(number),
            (FieldKind::Choice(choices) | FieldKind::NamedChoice(choices), value) => is_one_of(choices, value),
            (FieldKind::Choices(choices), Value::Array(values)) => {
                self.is_within(&values.len().into()) && values.iter().all(|value| is_one_of(choices, value))
            }
            (FieldKind::Text { format, pattern }, Value::String(text)) => {
                let length = text.chars().count();
                let is_free = format.is_none() && pattern.is_none();
                self.is_within(&length.into()) && (is_free || matches(&self.kind, value))
            }
            _ => false,
        }
    }

    fn is_within(&self, number: &Number) -> bool {
        let holds = |bound: &Option<Number>, unwanted| bound.as_ref().is_none_or(|b| compare(number, b) != unwanted);
        holds(&self.min, Ordering::Less) && holds(&self.max, Ordering::Greater)
    }
}

/// Whether the text has the format and matches the pattern. One for which that takes long does not.
fn matches(kind: &FieldKind, text: &Value) -> bool {
    parse::text_schema(kind).is_ok_and(|schema| schema.check_now(text, text_len(text), |_| ()) == Some(Ok(())))
}

fn is_one_of(choices: &[FormChoice], value: &Value) -> bool {
    choices.iter().any(|choice| *value == *choice.value)
}

/// JSON Schema counts `3.0` as whole.
fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn compare(one: &Number, other: &Number) -> Ordering {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one.cmp(&other),
        // JSON has no NaN.
        _ => (one.as_f64().partial_cmp(&other.as_f64())).unwrap_or(Ordering::Equal),
    }
}
