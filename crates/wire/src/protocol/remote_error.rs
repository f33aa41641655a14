//! The JSON-RPC error that a peer answers with.

use crate::json::{self, object::object};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

object! { struct Members { code = "code", message = "message", data = "data", } }

/// A peer's error object.
#[derive(Debug, Clone)]
pub struct RemoteError<'a> {
    /// The error code.
    pub code: i64,
    /// The message.
    pub message: Cow<'a, str>,
    /// The `data` member.
    pub data: Option<&'a RawValue>,
}

impl<'a> RemoteError<'a> {
    /// Reads an `error` member. A missing or malformed code reads as −32603, so that every error can be reported.
    pub fn read(raw: &'a RawValue) -> Self {
        let mut members = Members::default();
        // On a syntax error the members before it are kept.
        let _ = members.fill(raw.get());
        Self {
            code: members.code.and_then(|raw| raw.get().parse().ok()).unwrap_or(-32603),
            message: members
                .message
                .and_then(json::string)
                .unwrap_or(Cow::Borrowed("no reason given")),
            data: members.data,
        }
    }
}

impl fmt::Display for RemoteError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}
