//! An answer that does not fit its question.

/// An answer that does not fit what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", describe_field(.field.as_deref()))]
#[non_exhaustive]
pub struct InvalidAnswer {
    /// The field of the form that does not fit; `None` if it is none of them alone.
    pub field: Option<String>,
    /// What is wrong, and what would be right, for people.
    pub problem: String,
}

fn describe_field(field: Option<&str>) -> String {
    field.map_or_else(String::new, |field| format!("`{field}`"))
}
