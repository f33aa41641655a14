//! A tool and what becomes of its calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tool and what becomes of its calls.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Tool")]
pub struct ToolView {
    /// The name.
    pub name: String,
    /// Whether it is offered. One that is not may have tasks of earlier.
    pub offered: bool,
    /// Whether an operator has paused it: then nothing of it begins.
    pub paused: bool,
    /// The upstream of a gateway that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The upstream that is paused, and the tool with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_upstream: Option<String>,
    /// The kind of its provider, such as `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How many of its tasks may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Live tasks that wait for a slot.
    pub queued: u64,
    /// Live tasks that run, or wait in memory.
    pub running: u64,
    /// Live tasks that are suspended: they wait without code in memory.
    pub suspended: u64,
    /// Live tasks that are blocked: they cannot go on.
    pub blocked: u64,
    /// Live tasks with an open question.
    pub asking: u64,
    /// For how long the first queued task has been ready, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_age_ms: Option<u64>,
    /// Since the start of this process: tasks and calls that have succeeded.
    pub succeeded: u64,
    /// Those that have failed.
    pub failed: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// From creation to the end, in the mean, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// Tasks and calls that have ended, for each minute, in the mean of the last five minutes.
    pub per_minute: f64,
    /// Attempts that have failed since the last task that has succeeded.
    pub failed_in_row: u32,
    /// The latest failure since the start of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<FailureView>,
}

/// A task or call that has failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Failure")]
pub struct FailureView {
    /// The task's id.
    pub task: String,
    /// How long ago it ended, in milliseconds.
    pub ms_ago: u64,
    /// Its last status line, and of a command the last line that it has written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
