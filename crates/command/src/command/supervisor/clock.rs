//! A supervisor's clocks. It is a process of its own, so nothing injects them.

use longhaul_core::UnixMillis;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For spans within this process.
#[expect(
    clippy::disallowed_methods,
    reason = "the supervisor is a process apart; this is its clock"
)]
pub(super) fn monotonic() -> Instant {
    Instant::now()
}

/// For the deadline, which is a date.
#[expect(
    clippy::disallowed_methods,
    reason = "the supervisor is a process apart; this is its clock"
)]
pub(super) fn wall() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Waits before something is tried again that may succeed later.
#[expect(clippy::disallowed_methods, reason = "nothing signals that a disk has room again")]
pub(super) fn pause(span: Duration) {
    std::thread::sleep(span);
}
