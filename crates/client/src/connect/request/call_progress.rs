//! How far a call is that is being made.

use crate::connect::era::Era;
use parking_lot::Mutex;
use std::sync::Arc;

/// How far a call is, for whoever makes it and for the request that makes it. That is cancelled by message before its stream is closed: a legacy server over HTTP does not
/// take a closed stream for a cancellation (MCP 2025-11-25, Transports, "Sending Messages to the Server"), and the one that comes later may find no request.
#[derive(Debug, Clone)]
pub(crate) struct CallProgress(Arc<Mutex<ProgressState>>);

#[derive(Debug)]
struct ProgressState {
    stage: CallStage,
    cancellation: CancellationStage,
    /// Under its idempotency key it goes on when it is not waited for any more, until it is cancelled.
    is_keyed: bool,
    /// The server may have it from before: from an earlier process, or from an earlier request of this one.
    was_sent: bool,
}

#[derive(Debug)]
enum CallStage {
    /// The server has no request, or one that is not cancelled by message.
    Unnamed,
    /// The server answers this request.
    Requested(Arc<Era>, u64),
    /// The user is asked something: the server has no request.
    Asking,
}

#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum CancellationStage {
    None,
    /// The server is being told.
    Told,
    /// The server has accepted that.
    Accepted,
    /// The server has said that the call is cancelled.
    Ended,
}

impl CallProgress {
    pub(crate) fn new(is_keyed: bool, was_sent: bool) -> Self {
        Self(Arc::new(Mutex::new(ProgressState {
            stage: CallStage::Unnamed,
            cancellation: CancellationStage::None,
            is_keyed,
            was_sent,
        })))
    }

    pub(crate) fn begin(&self, era: &Arc<Era>, request: u64) {
        self.0.lock().stage = CallStage::Requested(Arc::clone(era), request);
    }

    /// The request is not waited for any more. Whether the server is to be told.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.0.lock();
        // A modern server does not take it for the end of the call.
        let is_left = state.is_keyed
            && state.cancellation == CancellationStage::None
            && matches!(&state.stage, CallStage::Requested(era, _) if era.legacy().is_some());
        if let CallStage::Requested(..) = state.stage {
            state.stage = CallStage::Unnamed;
        }
        state.cancellation < CancellationStage::Accepted && !is_left
    }

    /// The user is asked something.
    pub(super) fn begin_asking(&self) {
        self.0.lock().stage = CallStage::Asking;
    }

    pub(super) fn end_asking(&self) {
        self.0.lock().stage = CallStage::Unnamed;
    }

    /// Whether the user is asked something.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.0.lock().stage, CallStage::Asking)
    }

    /// The server may have the call.
    pub(crate) fn note_sent(&self) {
        self.0.lock().was_sent = true;
    }

    /// Whether the server may have the call from before.
    pub(crate) fn was_sent(&self) -> bool {
        self.0.lock().was_sent
    }

    /// Whether the server is told that it is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.lock().cancellation >= CancellationStage::Told
    }

    /// Whether the server has taken the cancellation.
    pub(crate) fn is_cancellation_accepted(&self) -> bool {
        self.0.lock().cancellation >= CancellationStage::Accepted
    }

    /// Whether the server has said that it has cancelled the call.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.lock().cancellation == CancellationStage::Ended
    }

    /// The server is being told that the call is cancelled.
    pub(crate) fn note_cancelled(&self) {
        self.0.lock().reach(CancellationStage::Told);
    }

    /// The server has accepted the cancellation.
    pub(crate) fn note_accepted(&self) {
        self.0.lock().reach(CancellationStage::Accepted);
    }

    /// The server has cancelled the call.
    pub(crate) fn note_ended(&self) {
        self.0.lock().reach(CancellationStage::Ended);
    }

    /// The request that the server is to be told of.
    pub(crate) fn cancel(&self) -> Option<(Arc<Era>, u64)> {
        let mut state = self.0.lock();
        let request = match &state.stage {
            CallStage::Requested(era, request) => (Arc::clone(era), *request),
            CallStage::Unnamed | CallStage::Asking => return None,
        };
        state.reach(CancellationStage::Told);
        Some(request)
    }
}

impl ProgressState {
    fn reach(&mut self, stage: CancellationStage) {
        if self.cancellation < stage {
            self.cancellation = stage;
        }
    }
}
