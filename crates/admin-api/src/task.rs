//! A task as lists show it.

use crate::Word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A task in a list.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Task")]
pub struct TaskView {
    /// The task's id.
    pub id: String,
    /// Its tool.
    pub tool: String,
    /// What it does, or how it has ended.
    #[schemars(extend("enum" = ["queued", "running", "suspended", "blocked", "succeeded", "failed", "cancelled"]))]
    pub state: Word,
    /// Whether a question is open.
    pub asks: bool,
    /// What the first open question asks, in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Whose it is.
    pub principal: String,
    /// Its labels, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Which generation of clients created it.
    #[schemars(extend("enum" = ["legacy", "modern"]))]
    pub origin: Word,
    /// When it was created.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// Its last visible change.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: Option<String>,
    /// From its creation to its end, or to now, in milliseconds.
    pub age_ms: u64,
    /// For how long it has been over, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms_ago: Option<u64>,
    /// The latest line about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The last line that its command has written, if it has failed: mostly why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// The task that a retry has made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_as: Option<String>,
    /// The task that a reset has made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_as: Option<String>,
    /// How far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressView>,
    /// Whether clients may know its id. A plain call is not announced.
    pub announced: bool,
    /// Attempts that count for the retry policy.
    pub attempts_used: u32,
    /// The latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<ActiveAttemptView>,
    /// The task that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Why its work is to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["cancel", "deadline"]))]
    pub stopping: Option<Word>,
    /// Why it is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockView>,
}

impl TaskView {
    /// How much of a live task is done, if it says so, from 0 to 1.
    pub fn fraction(&self) -> Option<f64> {
        let progress = self.progress.as_ref().filter(|_| self.ended_at.is_none())?;
        let total = progress.total.filter(|total| *total > 0.0)?;
        Some((progress.current? / total).clamp(0.0, 1.0))
    }
}

/// How far a task has come, and of how much if that is known.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Progress")]
pub struct ProgressView {
    /// So much is done.
    pub current: Option<f64>,
    /// Of so much.
    pub total: Option<f64>,
}

/// The latest attempt of a task, as the store has it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "ActiveAttempt")]
pub struct ActiveAttemptView {
    /// Which attempt.
    pub epoch: u32,
    /// The server that has it.
    pub node: i64,
    /// The machine and data directory; null where there is no database of several servers.
    pub host: Option<String>,
    /// How far it is.
    #[schemars(extend("enum" = ["starting", "live", "stopping", "ended"]))]
    pub state: Word,
}

/// Why a task is blocked.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Block")]
pub struct BlockView {
    /// The kind of obstacle.
    pub reason: String,
    /// What is in the way.
    pub message: String,
    /// When it was blocked.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// When it is tried again.
    #[schemars(extend("format" = "date-time"))]
    pub until: String,
    /// How often it was tried.
    pub tries: u64,
}

/// A page of tasks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TaskPage {
    /// In the order that was asked for.
    pub tasks: Vec<TaskView>,
    /// Where the next page begins, unless this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why there are none, if the filter names a tool that the server does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
