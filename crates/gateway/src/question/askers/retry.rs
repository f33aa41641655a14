//! Calls whose client was asked and may never come back. A client of 2026-07-28 without a task is asked in the response to its request, and answers with
//! another request, if it does. Until then, for up to fifteen minutes, the call holds its connection, and a child may run for it alone.

use super::Askers;
use parking_lot::Mutex;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Whether the client of a call has been asked and must come back with the answer.
#[derive(Default)]
pub(super) struct AwaitedRetry {
    state: Mutex<AwaitedState>,
    /// The call has ended because another one needs its connection.
    pub(super) given_up: CancellationToken,
}

#[derive(Default)]
struct AwaitedState {
    questions: usize,
    /// Since when, by the monotonic clock.
    since: Duration,
}

/// A question is open until this is dropped.
pub(super) struct OpenRound<'a>(&'a AwaitedRetry);

impl Drop for OpenRound<'_> {
    fn drop(&mut self) {
        self.0.state.lock().questions -= 1;
    }
}

impl AwaitedRetry {
    /// A question is put that is answered with another request.
    pub(super) fn begin(&self, now: Duration) -> OpenRound<'_> {
        let mut state = self.state.lock();
        if state.questions == 0 {
            state.since = now;
        }
        state.questions += 1;
        OpenRound(self)
    }
}

impl Askers {
    /// Since when the only call on the connection waits for its client to come back with an answer, if it does.
    pub(crate) fn awaits_retry_since(&self) -> Option<Duration> {
        let state = self.state.lock();
        let mut all = state.by_number.values();
        let (only, None) = (all.next()?, all.next()) else {
            return None;
        };
        let waits = only.retry.state.lock();
        (waits.questions > 0).then_some(waits.since)
    }

    /// Ends the calls on the connection.
    pub(crate) fn give_up(&self) {
        for asker in self.state.lock().by_number.values() {
            asker.retry.given_up.cancel();
        }
    }

    /// Whether one of them ends for that reason.
    pub(crate) fn has_given_up(&self) -> bool {
        self.state.lock().by_number.values().any(|asker| asker.is_given_up())
    }
}
