//! The history of a task: the entries of its journal.

use crate::{RequestError, TaskHandle};
use longhaul_wire::TaskPart;
use serde::{Deserialize, Serialize};

/// An entry of a task's journal, without its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Its index, from 1.
    pub place: u64,
    /// A description: `step "build"`.
    pub what: String,
    /// When it began, in RFC 3339.
    pub at: String,
    /// `done`, `failed`, `waiting`, `unanswered`, `given up`; other servers may have more.
    pub state: String,
    /// When its wait ends at the latest, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What ended an attempt that failed: `crash`, `panic`, `error`, `store`; other servers may have more.
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
    /// How the command of an attempt ended: `{"code": 3}` or `{"signal": "TERM"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<serde_json::Value>,
    /// The failed tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedTries>,
}

/// The failed tries of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTries {
    /// The number of failed tries.
    pub tries: u64,
    /// The latest ones, oldest first.
    pub last: Vec<FailedTry>,
}

/// A failed try of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTry {
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
    /// The entries of the task's journal so far, in order; empty for a task without a journal. Only Longhaul servers have histories.
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
