//! The error a peer answers a request of ours with.

use crate::{json, object::object};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

object! { struct Members { code = "code", message = "message", data = "data", } }

/// A peer's error object.
#[derive(Debug, Clone)]
pub struct RemoteError<'a> {
    /// Its code.
    pub code: i64,
    /// The peer's words.
    pub message: Cow<'a, str>,
    /// What else it says.
    pub data: Option<&'a RawValue>,
}

impl<'a> RemoteError<'a> {
    /// Reads an `error` member. One without a whole number for its code, or without words, is still an error: it reads as −32603
    /// with what there is.
    pub fn read(raw: &'a RawValue) -> Self {
        let mut members = Members::default();
        // What was read before a flaw stays, and is all there is to tell.
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
