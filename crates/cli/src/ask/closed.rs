//! Why a form is taken from the terminal before the user has answered.

use parking_lot::Mutex;

static REASON: Mutex<Option<&str>> = Mutex::new(None);

/// From now on this is the reason for which forms are taken from the terminal.
pub(crate) fn closes_forms(reason: &'static str) {
    *REASON.lock() = Some(reason);
}

/// The reason. While the command waits for what asks, only that can end a form.
pub(super) fn reason() -> &'static str {
    REASON
        .lock()
        .unwrap_or("the question was answered elsewhere, or the server does not wait for the answer any more")
}
