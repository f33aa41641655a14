//! Time, for waiting on other programs.

use std::time::{Duration, Instant};

/// The interval between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Now, for measuring durations.
#[expect(clippy::disallowed_methods, reason = "this is the port")]
pub fn now() -> Instant {
    Instant::now()
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the port")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Polls until there is a result; `None` after the timeout.
pub fn wait_for<T>(timeout: Duration, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let since = now();
    loop {
        if let Some(found) = poll() {
            return Some(found);
        }
        if since.elapsed() >= timeout {
            return None;
        }
        pause(POLL_INTERVAL);
    }
}
