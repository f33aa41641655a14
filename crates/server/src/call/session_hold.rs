//! Plain calls of legacy sessions over HTTP. A lost connection is no cancellation (T-08): the client may resume the stream. So
//! the call continues until it ends; if this process dies, the next one keeps the call for a while. The call is cancelled if the client cancels the request
//! after all, or if its session ends first, because its answer could no longer be delivered.

use super::Calls;
use crate::session::in_flight::InFlightRequest;
use longhaul_core::SessionKey;
use longhaul_runtime::CallHandle;
use std::sync::Arc;

/// A request's claim on the call it waits for. Dropping it leaves the call to its session.
pub(super) struct SessionHold {
    calls: Arc<Calls>,
    session: SessionKey,
    call: CallHandle,
    /// The request, once its client has left.
    left: Option<Arc<InFlightRequest>>,
    /// There is nothing to cancel any more.
    released: bool,
}

impl SessionHold {
    pub(super) fn new(calls: &Arc<Calls>, session: SessionKey, call: CallHandle) -> Self {
        Self {
            calls: Arc::clone(calls),
            session,
            call,
            left: None,
            released: false,
        }
    }

    /// The client has left, and may still cancel the request.
    pub(super) fn left(&mut self, request: Arc<InFlightRequest>) {
        self.left = Some(request);
    }

    /// The client has the outcome, or a task: nothing is to be cancelled.
    pub(super) fn release(&mut self) {
        self.released = true;
    }

    /// The client has an answer after which it does not return.
    pub(super) fn abandon(&mut self) {
        if !std::mem::replace(&mut self.released, true) {
            self.call.leave();
        }
    }
}

impl Drop for SessionHold {
    fn drop(&mut self) {
        if !self.released {
            let (calls, session, call) = (Arc::clone(&self.calls), self.session.clone(), self.call.clone());
            let left = cancel_with_session(calls, session, call, self.left.take());
            self.calls.engine.ports().spawner.spawn(Box::pin(left));
        }
    }
}

/// Cancels a call that its client has left when the client cancels it, or when the session ends before it.
async fn cancel_with_session(
    calls: Arc<Calls>,
    session: SessionKey,
    call: CallHandle,
    request: Option<Arc<InFlightRequest>>,
) {
    let cancelled = async {
        match &request {
            Some(request) => request.cancelled().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over(&calls, &call) => {}
        () = cancelled => call.abandon(),
        () = calls.interaction.sessions.ended(&calls.engine, &session) => call.leave(),
        () = calls.interaction.shutdown.closed() => {}
    }
}

/// Completes when the call has ended, or has become a task.
async fn over(calls: &Calls, call: &CallHandle) {
    let mut watch = calls.engine.watch(call.id());
    loop {
        match calls.engine.store().get_unscoped(call.id()).await {
            Ok(Some(record)) if record.task.is_done() || record.task.announced => return,
            Ok(None) => return,
            // What cannot be read now is read after its next change.
            Ok(Some(_)) | Err(_) => watch.changed().await,
        }
    }
}
