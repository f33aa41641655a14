//! What actions take, and what they answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

/// Refusals that are listed.
const LISTED: usize = 20;

/// An action was done.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Done")]
pub struct ActionReport {
    /// Whether the action was done: always true.
    pub done: bool,
    /// The id of the new task of a call, a retry or a reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// An upstream was paused, or its pause was ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UpstreamPause {
    /// Whether the action was done: always true.
    pub done: bool,
    /// The names of the tools that the upstream has now.
    pub tools: Vec<String>,
}

/// A server stops.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Drain")]
pub struct DrainReport {
    /// Whether the server stops: always true.
    pub stopping: bool,
    /// How long running attempts may take to end, in milliseconds; absent if the drain does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// The tasks that an action would be done to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BulkPreview {
    /// So many.
    pub tasks: usize,
    /// Whether there may be more than were looked at.
    pub or_more: bool,
    /// What may be wrong with the filter, if nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What has become of a part of the tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BulkReport {
    /// How many tasks were acted on.
    pub done: usize,
    /// How many tasks were refused.
    pub refused: usize,
    /// The first 20 of the refused tasks.
    pub refusals: Vec<BulkRefusal>,
    /// For `after`, to act on the next part; absent if this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A task that was not acted on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BulkRefusal {
    /// The task's id.
    pub task: String,
    /// Why.
    pub message: String,
}

impl BulkReport {
    /// Counts a task that was not acted on.
    pub fn refuse(&mut self, task: String, message: String) {
        self.refused += 1;
        if self.refusals.len() < LISTED {
            self.refusals.push(BulkRefusal { task, message });
        }
    }

    /// Adds the report of a later part.
    pub fn add(&mut self, later: Self) {
        self.done += later.done;
        self.refused += later.refused;
        self.refusals.extend(later.refusals);
        self.refusals.truncate(LISTED);
        self.next = later.next;
    }
}

/// A call of a tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Call")]
pub struct CallBody {
    /// The arguments, as the tool's input schema says.
    #[schemars(with = "Map<String, Value>")]
    pub arguments: Box<RawValue>,
}

/// A reset of a durable task.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Reset")]
pub struct ResetBody {
    /// The first entry of the journal that is dropped.
    #[schemars(range(min = 1))]
    pub before: u32,
}

/// The answer to a question.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct AnswerBody {
    /// The name of the question.
    pub key: String,
    /// The answer as in MCP, such as `{"action": "accept", "content": {…}}`.
    #[schemars(with = "Map<String, Value>")]
    pub answer: Box<RawValue>,
}
