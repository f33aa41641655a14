//! What is answered to a request that was not done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Not done, and why.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    /// Why.
    pub error: ErrorReason,
}

/// Why a request was not done.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ErrorReason {
    /// The code, for programs.
    pub kind: String,
    /// The message, for people.
    pub message: String,
}
