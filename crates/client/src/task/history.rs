//! The history of a task: the entries of its journal, or its attempts.

use crate::{RequestError, TaskHandle};
use longhaul_wire::TaskPart;
use serde::{Deserialize, Serialize};

/// An entry of a task's history: an operation of a durable tool, without its result, or an attempt of a tool without a journal, such as a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Its index, from 1; the number of an attempt.
    pub place: u64,
    /// A description: `step "build"`, `attempt 2`.
    pub what: String,
    /// When it began, in RFC 3339.
    pub at: String,
    /// `done`, `failed`, `running`, `waiting`, `cancelled`, `deadline`, `unanswered`, `given up` or `unreadable`; later servers may have more.
    ///
    /// Only attempts are `running`, `cancelled`, or ended by their `deadline`. Only journal entries are `unanswered` (a question) or `unreadable`
    /// (written by another version of Longhaul). `given up` is an operation that was withdrawn or cancelled, or an attempt that never started.
    pub state: String,
    /// When its wait ends at the latest, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What ended a failed attempt of a durable tool: `crash`, `panic`, `error`, `store` or `non_determinism`; later servers may have more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The task it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default, rename = "tookMs", skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The text of an input request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The last line that the command of a failed attempt wrote.
    #[serde(default, rename = "lastLine", skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// How the command of an attempt ended: `{"code": 3}` or `{"signal": "TERM"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<serde_json::Value>,
    /// The failed attempts of a step, or the failures of a poll since its last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedStepAttempts>,
}

/// The failed attempts of a step or a poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedStepAttempts {
    /// How many failed.
    pub tries: u64,
    /// The latest ones, oldest first.
    pub last: Vec<FailedStepAttempt>,
}

/// A failed attempt of a step, or a failed poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedStepAttempt {
    /// When, in RFC 3339.
    pub at: String,
    /// Why.
    pub why: String,
}

#[derive(Deserialize)]
struct Page {
    entries: Vec<HistoryEntry>,
    next: u64,
    total: u64,
}

impl TaskHandle {
    /// The entries of the task's journal so far, in order; without a journal, its attempts. Only Longhaul servers have histories.
    ///
    /// # Errors
    /// The same as [`log`](Self::log).
    pub async fn history(&self) -> Result<Vec<HistoryEntry>, RequestError> {
        let mut entries = Vec::new();
        let mut after = 0;
        loop {
            let read = self.read(TaskPart::History, Some(after)).await?;
            let invalid = |error: serde_json::Error| RequestError::Invalid(format!("its history: {error}"));
            let page: Page = serde_json::from_slice(&read).map_err(invalid)?;
            entries.extend(page.entries);
            if page.next >= page.total || page.next <= after {
                return Ok(entries);
            }
            after = page.next;
        }
    }
}
