//! An upstream of a gateway.

use crate::{FailureView, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An upstream, and what becomes of the calls of its tools.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Upstream")]
pub struct UpstreamView {
    /// The name.
    pub name: String,
    /// Whether it answers.
    #[schemars(extend("enum" = ["starting", "up", "silent", "down"]))]
    pub state: Word,
    /// Why it is down or silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it is paused, with all tools that it has or gets.
    pub paused: bool,
    /// How many of its tools are offered.
    pub tools: usize,
    /// How many of these are paused.
    pub paused_tools: usize,
    /// Its tools that are not offered because others have their names: the name, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, String>,
    /// Of all tools that it has or had: tasks that wait for a slot.
    pub queued: u64,
    /// Those that run.
    pub running: u64,
    /// How many of the running ones are not sent yet, because as many as may do run.
    pub waiting: usize,
    /// How many of its calls may run at once; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Live tasks with an open question.
    pub asking: u64,
    /// Since the start of the process: tasks and calls that have succeeded.
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
    /// The latest failure since the start of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<FailureView>,
}

impl UpstreamView {
    /// Whether any of its calls is not over.
    pub fn has_live_calls(&self) -> bool {
        self.queued + self.running > 0
    }

    /// Whether none of its tools begins anything.
    pub fn is_paused(&self) -> bool {
        self.paused || (self.tools > 0 && self.paused_tools == self.tools)
    }
}
