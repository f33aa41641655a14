//! Time, for a program that waits for other programs.

use std::time::{Duration, Instant};

/// Between two looks at something that gives no sign.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Now, for measuring spans.
#[expect(clippy::disallowed_methods, reason = "this is the port")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets the world go on for so long.
#[expect(clippy::disallowed_methods, reason = "this is the port")]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Looks until there is something to see, or patience ends.
pub(crate) fn wait_for<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let since = now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if since.elapsed() >= patience {
            return None;
        }
        pause(LOOK_EVERY);
    }
}
