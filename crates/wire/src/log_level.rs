//! Log levels as they stand in messages.

use crate::json;
use longhaul_core::LogLevel;
use serde_json::value::RawValue;

/// The level that `raw` names.
pub(crate) fn read(raw: &RawValue) -> Option<LogLevel> {
    LogLevel::parse(&json::string(raw)?)
}

/// What would be right, for whoever named something else.
pub(crate) fn right() -> String {
    format!("one of {}", LogLevel::ALL.map(LogLevel::as_str).join(", "))
}
