//! What is logged: levels, and failures that repeat.

mod failure_streak;
mod level;

pub use failure_streak::{FailureCount, FailureLine, FailureStreak};
pub use level::LogLevel;
