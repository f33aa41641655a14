//! An answer that does not fit its question.

use longhaul_wire::FormMistakes;
use serde_json::{Map, Value};

/// How much of a wrong value an error shows, in characters.
const SHOWN_VALUE: usize = 60;

/// An answer that does not fit what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
#[non_exhaustive]
pub struct InvalidAnswer {
    /// The first field of the form that does not fit; `None` if it is none of them.
    pub field: Option<String>,
    /// What is wrong, and what would be right, for people: with each field.
    pub problem: String,
}

impl InvalidAnswer {
    /// With the values: they are shown to whoever has given them.
    pub(crate) fn new(mistakes: &FormMistakes, content: &Map<String, Value>) -> Self {
        let problems = mistakes.0.iter().map(|mistake| match content.get(&mistake.field) {
            Some(value) => format!("`{}`: {} {}", mistake.field, shorten(value), mistake.problem),
            None => mistake.to_string(),
        });
        Self {
            field: mistakes.0.first().map(|mistake| mistake.field.clone()),
            problem: problems.collect::<Vec<_>>().join("; "),
        }
    }
}

/// A value as an error shows it.
pub(crate) fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
