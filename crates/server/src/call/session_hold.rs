//! Plain calls of legacy sessions over HTTP. A lost connection is no cancellation: the client may resume the stream. So
//! the call continues until it ends; if this process dies, the next one keeps the call for a while, and for good once its client has come back. The call is cancelled if the client cancels the request
//! after all, or if its session ends first, because its answer could no longer be delivered.

use super::Calls;
use crate::session::in_flight::InFlightRequest;
use longhaul_core::SessionKey;
use longhaul_runtime::{CallHandle, KEPT_FOR_CLIENT};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

/// How often the time is extended for which a call is kept whose client has come back.
const EXTEND_EVERY: Duration = Duration::from_millis(KEPT_FOR_CLIENT / 3);

/// A request's claim on the call it waits for. Dropping it leaves the call to its session.
pub(super) struct SessionHold {
    calls: Arc<Calls>,
    session: SessionKey,
    call: CallHandle,
    /// The request, once its client has left.
    left: Option<Arc<InFlightRequest>>,
    /// There is nothing to cancel any more.
    released: bool,
    /// The call is not given up until this is dropped.
    extends: Option<DropGuard>,
}

impl SessionHold {
    pub(super) fn new(calls: &Arc<Calls>, session: SessionKey, call: CallHandle) -> Self {
        Self {
            calls: Arc::clone(calls),
            session,
            call,
            left: None,
            released: false,
            extends: None,
        }
    }

    /// The hold of a client that has come back. An earlier process may have left the call to it, for a time.
    pub(super) fn resumed(calls: &Arc<Calls>, session: SessionKey, call: CallHandle) -> Self {
        let over = CancellationToken::new();
        let extend = extend(Arc::clone(calls), call.clone());
        let until = over.clone();
        let extend = async move {
            until.run_until_cancelled_owned(extend).await;
        };
        calls.engine.ports().spawner.spawn(Box::pin(extend));
        let mut hold = Self::new(calls, session, call);
        hold.extends = Some(over.drop_guard());
        hold
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
            let (request, extends) = (self.left.take(), self.extends.take());
            let left = async move {
                cancel_with_session(calls, session, call, request).await;
                drop(extends);
            };
            self.calls.engine.ports().spawner.spawn(Box::pin(left));
        }
    }
}

/// Extends the time for which a call is kept, if it has such a time, until the call is over.
async fn extend(calls: Arc<Calls>, call: CallHandle) {
    let clock = Arc::clone(&calls.engine.ports().clock);
    loop {
        let extended = match calls.engine.store().get_unscoped(call.id()).await {
            Ok(Some(record)) if record.task.retry_until.is_some() => {
                call.await_retry(clock.now().plus(KEPT_FOR_CLIENT)).await
            }
            Ok(record) => Ok(record.is_some_and(|record| !record.task.is_done())),
            Err(error) => Err(error),
        };
        match extended {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => warn!(%error, "the time for which a call is kept could not be extended; it is tried again"),
        }
        clock.sleep(EXTEND_EVERY).await;
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
