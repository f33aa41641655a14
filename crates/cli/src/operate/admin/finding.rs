//! What `doctor` has found.

use crate::output;
use longhaul_core::plain_line;
use serde_json::{Value, json};

/// Something that is wrong, or that would be of help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) what: String,
    pub(super) advice: String,
}

impl Finding {
    pub(super) fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            advice: advice.into(),
        }
    }

    pub(super) fn print(&self) {
        output::text(&format!("{}\n  {}", plain_line(&self.what), plain_line(&self.advice)));
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"finding": self.what, "advice": self.advice})
    }
}
