//! What is logged: levels, and failures that repeat.

pub(crate) mod failure_streak;
pub(crate) mod level;
