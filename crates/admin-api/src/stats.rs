//! Counts of live tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The server at a glance.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Stats")]
pub struct StatsView {
    /// The server's name.
    pub name: String,
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
    /// For how long the queued task that has been ready for the longest has been ready, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_age_ms: Option<u64>,
    /// The bytes that all tasks take in the store.
    pub stored_bytes: u64,
    /// Attempts that this process runs.
    pub running_attempts: usize,
    /// Slots that attempts have.
    pub taken_slots: usize,
    /// How many slots there are, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<usize>,
    /// Whether the server is stopping.
    pub stopping: bool,
    /// Whether nothing can be changed: its database was restored, and nobody has accepted it.
    pub reads_only: bool,
}

/// A principal and its live tasks and plain calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Principal")]
pub struct PrincipalView {
    /// The name.
    pub principal: String,
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
    /// The age of the oldest live task, in milliseconds.
    pub oldest_ms: u64,
}

impl PrincipalView {
    /// How many live tasks it has.
    pub fn live(&self) -> u64 {
        self.queued + self.running + self.suspended + self.blocked
    }
}

/// All principals with live tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Principals")]
pub struct PrincipalsView {
    /// The principals, the one with the most live tasks first.
    pub principals: Vec<PrincipalView>,
    /// How many live tasks were counted.
    pub counted: usize,
    /// Whether there are older live tasks that were not counted.
    pub or_more: bool,
}
