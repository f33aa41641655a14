//! What is stored of an upstream's tool with its tasks.

use crate::JobTools;
use longhaul_core::Json;
use serde::{Deserialize, Serialize};

/// The kind of executor, as kept with each tool's definition.
pub const KIND: &str = "mcp_upstream";

/// What is stored of a tool with its tasks, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) version: u32,
    pub(crate) upstream: String,
    pub(crate) tool: String,
    pub(crate) idempotent: bool,
    /// The tools that belong together, if it is such a set. `tool` is the one that submits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobTools>,
}

impl Definition {
    pub(crate) fn to_json(&self) -> Json {
        Json::trusted(serde_json::to_string(self).unwrap_or_default())
    }
}

/// What a tool is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client has called it.
    Tool,
    /// It submits a job, which only its answer names.
    Submit,
    /// It asks about a job, or cancels it.
    Job,
}
