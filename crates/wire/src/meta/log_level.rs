//! Log levels in messages.

use crate::json;
use longhaul_core::LogLevel;
use serde_json::value::RawValue;

/// Reads a log level.
pub(crate) fn read(raw: &RawValue) -> Option<LogLevel> {
    LogLevel::parse(&json::string(raw)?)
}

/// What a log level must be, for error messages.
pub(crate) fn expected() -> String {
    format!("one of {}", LogLevel::ALL.map(LogLevel::as_str).join(", "))
}
