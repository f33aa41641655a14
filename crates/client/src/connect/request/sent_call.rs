//! The request that makes a call, so that it can be cancelled.

use crate::connect::era::Era;
use parking_lot::Mutex;
use std::sync::Arc;

/// The request of a call, while the server answers it. It is cancelled by message before its stream is closed: a legacy server over HTTP does not take a closed stream for
/// a cancellation (MCP 2025-11-25, Transports, "Sending Messages to the Server"), and the one that comes later may find no request.
#[derive(Debug, Clone)]
pub(crate) struct SentCall(Arc<Mutex<SentState>>);

#[derive(Debug, Default)]
struct SentState {
    /// `None` if there is none, or it is not cancelled by message.
    request: Option<(Arc<Era>, u64)>,
    /// The server is being told.
    is_cancelled: bool,
    /// The server has accepted the cancellation.
    is_accepted: bool,
    /// The server has said that it is cancelled.
    has_ended: bool,
    /// Under its idempotency key it goes on when it is not waited for any more, until it is cancelled.
    is_keyed: bool,
}

impl SentCall {
    pub(crate) fn new(is_keyed: bool) -> Self {
        let state = SentState {
            is_keyed,
            ..SentState::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn begin(&self, era: &Arc<Era>, request: u64) {
        self.0.lock().request = Some((Arc::clone(era), request));
    }

    /// The request is not waited for any more. Whether the server is to be told.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.0.lock();
        let era = state.request.take().map(|(era, _)| era);
        // A modern server does not take it for the end of the call.
        let is_left = state.is_keyed && !state.is_cancelled && era.is_some_and(|era| era.legacy().is_some());
        !state.is_accepted && !is_left
    }

    /// Whether the server is told that it is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.lock().is_cancelled
    }

    /// Whether the server has taken the cancellation.
    pub(crate) fn is_cancellation_accepted(&self) -> bool {
        self.0.lock().is_accepted
    }

    /// Whether the server has accepted the cancellation.
    pub(crate) fn note_accepted(&self, is_accepted: bool) {
        self.0.lock().is_accepted = is_accepted;
    }

    /// The server has cancelled the call.
    pub(crate) fn note_ended(&self) {
        let mut state = self.0.lock();
        (state.is_accepted, state.has_ended) = (true, true);
    }

    /// Whether the server has said that it has cancelled the call.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.lock().has_ended
    }

    /// The server is being told that the call is cancelled.
    pub(crate) fn note_cancelled(&self) {
        self.0.lock().is_cancelled = true;
    }

    /// The request that the server is to be told of.
    pub(crate) fn cancel(&self) -> Option<(Arc<Era>, u64)> {
        let mut state = self.0.lock();
        state.is_cancelled |= state.request.is_some();
        state.request.clone()
    }
}
