//! Whether an upstream can be reached.

/// Whether an upstream can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamStatus {
    /// It is dialled for the first time.
    Starting,
    /// It answers.
    Up {
        /// How many tools of it are offered.
        tools: usize,
    },
    /// It does not.
    Down {
        /// Why, for people.
        reason: String,
    },
}
