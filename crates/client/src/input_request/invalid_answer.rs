//! An answer that does not fit its question.

/// An answer that does not fit what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
#[non_exhaustive]
pub struct InvalidAnswer {
    /// The field of the form that does not fit; `None` if it is none of them alone.
    pub field: Option<String>,
    /// What is wrong, and what would be right, for people: with the field.
    pub problem: String,
}
