//! Words that operators read and write.

use longhaul_core::{Now, State, UnixMillis, Verdict, push_timestamp};

/// Tasks of clients of 2025-11-25 or earlier.
pub(crate) const LEGACY: &str = "legacy";
/// Those of clients of 2026-07-28 or later.
pub(crate) const MODERN: &str = "modern";

/// The word for a state.
pub(crate) fn state_word(state: State) -> &'static str {
    match state {
        State::Queued => "queued",
        State::Running => "running",
        State::Suspended => "suspended",
        State::Blocked => "blocked",
        State::Done(Verdict::Succeeded) => "succeeded",
        State::Done(Verdict::ToolError | Verdict::RpcError) => "failed",
        State::Done(Verdict::Cancelled) => "cancelled",
    }
}

/// A time as RFC 3339.
pub(crate) fn timestamp(now: Now, at: UnixMillis) -> String {
    let mut text = String::new();
    push_timestamp(&mut text, now.in_the_world(at));
    text
}
