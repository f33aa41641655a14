//! Schedules.

use crate::Word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Some schedules.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SchedulePage {
    /// In order of their names.
    pub schedules: Vec<ScheduleView>,
    /// What `after` is for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A schedule as it stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Schedule")]
pub struct ScheduleView {
    /// The name.
    pub name: String,
    /// What decides its times: five fields of cron with their zone, or a length of time.
    pub plan: String,
    /// Whether this server has it in its configuration. One that it does not have is started by other servers of the store, if at all.
    pub offered: bool,
    /// The tool that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The principal whose tasks they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Whether its times pass without a start.
    pub paused: bool,
    /// When it starts something next, as RFC 3339. Empty while it is paused.
    pub next: Vec<String>,
    /// The task that it started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_task: Option<String>,
    /// When it started that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_start: Option<String>,
    /// The state of that task; absent if it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["queued", "running", "suspended", "blocked", "succeeded", "failed", "cancelled"]))]
    pub last_state: Option<Word>,
    /// When that task ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
    /// Tasks that it has started.
    pub started: u64,
    /// Times without a start because the task before was live, or the schedule was paused.
    pub skipped: u64,
    /// Times that passed while no server could start it.
    pub missed: u64,
}
