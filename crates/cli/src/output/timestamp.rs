//! Times as every command prints them in JSON.

use longhaul_core::{UnixMillis, push_timestamp};

/// RFC 3339 in UTC, with milliseconds.
pub(crate) fn timestamp(at: UnixMillis) -> String {
    let mut text = String::new();
    push_timestamp(&mut text, at);
    text
}
