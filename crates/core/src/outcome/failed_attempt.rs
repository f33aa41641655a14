//! Failed attempts, as errors describe them.

use crate::{UnixMillis, push_timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// When the failure was found; if its process died, when the next one started.
    pub at: UnixMillis,
    /// What ended it; `None` if an earlier version wrote it, which did not record it.
    pub by: Option<EndedBy>,
    /// A sentence for people.
    pub why: String,
}

/// What ended a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    /// Its process died.
    Crash,
    /// Its code panicked.
    Panic,
    /// Its code returned an error that is worth another attempt.
    Error,
    /// The store failed, so its result could not be written.
    Store,
    /// Its code diverged from its journal.
    #[serde(rename = "non_determinism")]
    NonDeterminism,
}

impl EndedBy {
    /// The word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Panic => "panic",
            Self::Error => "error",
            Self::Store => "store",
            Self::NonDeterminism => "non_determinism",
        }
    }
}

impl FailedAttempt {
    /// As it stands in the data of an error.
    pub(crate) fn to_json(&self) -> Value {
        let mut at = String::new();
        push_timestamp(&mut at, self.at);
        match self.by {
            Some(by) => json!({"at": at, "by": by.as_str(), "why": self.why}),
            None => json!({"at": at, "why": self.why}),
        }
    }
}

/// `at 2026-11-20T09:00:00.000Z, it panicked after step "build"`.
impl fmt::Display for FailedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = String::new();
        push_timestamp(&mut at, self.at);
        write!(f, "at {at}, {}", self.why)
    }
}
