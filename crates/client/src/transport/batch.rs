//! Batches of a server (MCP 2025-03-26): arrays of messages.

use serde_json::value::RawValue;

/// The messages of an array that a server has sent, in order. What cannot be read as one counts as a message.
pub(super) fn messages(received: Vec<u8>) -> Vec<Vec<u8>> {
    match serde_json::from_slice::<Vec<&RawValue>>(&received) {
        Ok(messages) if !messages.is_empty() => messages
            .into_iter()
            .map(|message| message.get().as_bytes().to_vec())
            .collect(),
        _ => vec![received],
    }
}

/// Whether it can only be meant as a batch, and not as a line for people such as `[info] ready`.
pub(super) fn is_meant_as_batch(received: &[u8]) -> bool {
    let inside = received.trim_ascii().strip_prefix(b"[");
    inside.is_some_and(|inside| inside.trim_ascii_start().starts_with(b"{"))
}
