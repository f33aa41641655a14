//! Plain calls of modern clients between two of their requests. A call is abandoned when its client does not retry in time, or disconnects while
//! it waits. A call with an idempotency key is not abandoned, because the client can repeat it at any time.
//!
//! The time for a retry is in the task, so a client can come back to any node, and after a restart. Only the requests that wait are known here.

use crate::interaction::rounds::LIFETIME;
use longhaul_core::{TaskId, UnixMillis, store::StoreError};
use longhaul_runtime::{CallHandle, Ports};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

/// How often the time for a retry is extended while a request waits for a call.
const EXTEND_EVERY: Duration = Duration::from_millis(LIFETIME / 3);

/// The calls that requests of this node have rejoined.
#[derive(Clone, Default)]
pub(crate) struct CallsBetweenRounds(Arc<Mutex<HashMap<TaskId, RejoinedCall>>>);

struct RejoinedCall {
    /// Requests that wait for the call now: mostly one, but a client may send a retry twice.
    waiting: usize,
    /// Until when a retry may come, as the last of them has written it.
    until: UnixMillis,
    _extends: DropGuard,
}

/// A request's claim on the call it waits for. Dropping it abandons the call, unless another request waits for the call or has asked its client
/// since.
pub(crate) struct Hold {
    between_rounds: CallsBetweenRounds,
    call: CallHandle,
    /// Until when a retry may come, as this request knows; `None` before the first round.
    until: Option<UnixMillis>,
    /// Whether it counts as [waiting](RejoinedCall::waiting).
    rejoined: bool,
    /// There is nothing to abandon any more.
    released: bool,
}

impl CallsBetweenRounds {
    /// The hold of the request that began the call.
    pub(crate) fn first(&self, call: CallHandle) -> Hold {
        self.hold(call, None)
    }

    fn hold(&self, call: CallHandle, until: Option<UnixMillis>) -> Hold {
        Hold {
            between_rounds: self.clone(),
            call,
            until,
            rejoined: until.is_some(),
            released: false,
        }
    }

    /// The hold of a retry. Until it is dropped, the call is kept for it.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn again(&self, call: CallHandle, ports: &Ports) -> Result<Hold, StoreError> {
        let until = ports.clock.now().plus(LIFETIME);
        // If the call has ended, nothing was extended, and its client gets the outcome.
        call.await_retry(until).await?;
        let mut calls = self.0.lock();
        let rejoined = calls.entry(call.id().clone()).or_insert_with(|| {
            let over = CancellationToken::new();
            let extend = self.clone().extend(call.clone(), ports.clone(), over.clone());
            ports.spawner.spawn(Box::pin(extend));
            RejoinedCall {
                waiting: 0,
                until,
                _extends: over.drop_guard(),
            }
        });
        rejoined.waiting += 1;
        rejoined.until = rejoined.until.max(until);
        drop(calls);
        Ok(self.hold(call, Some(until)))
    }

    /// Extends the time for a retry until no request waits any more.
    async fn extend(self, call: CallHandle, ports: Ports, over: CancellationToken) {
        loop {
            tokio::select! {
                () = over.cancelled() => return,
                () = ports.clock.sleep(EXTEND_EVERY) => {}
            }
            let until = ports.clock.now().plus(LIFETIME);
            match call.await_retry(until).await {
                Ok(true) => {
                    if let Some(rejoined) = self.0.lock().get_mut(call.id()) {
                        rejoined.until = rejoined.until.max(until);
                    }
                }
                Ok(false) => return,
                Err(error) => warn!(%error, "the time for a client's retry could not be extended; it is tried again"),
            }
        }
    }

    /// One request waits no longer. Returns until when a retry may come, and whether others wait.
    fn leave(&self, task: &TaskId) -> Option<(UnixMillis, bool)> {
        let mut calls = self.0.lock();
        let rejoined = calls.get_mut(task)?;
        rejoined.waiting -= 1;
        let until = rejoined.until;
        let others = rejoined.waiting > 0;
        // Cancels the task that extends the time, after the lock is released.
        let removed = if others { None } else { calls.remove(task) };
        drop(calls);
        drop(removed);
        Some((until, others))
    }
}

impl Hold {
    /// Starts a round whose retry may come until `until`. Returns whether there is a call to come back to: another request may have
    /// completed it.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn ask(&mut self, until: UnixMillis) -> Result<bool, StoreError> {
        let awaited = self.call.await_retry(until).await?;
        if awaited {
            self.until = Some(until);
        }
        Ok(awaited)
    }

    /// The client has the questions; the call is kept until the retry.
    pub(crate) fn keep_for_retry(&mut self) {
        self.release();
    }

    /// The client has the outcome, or a task: nothing is to be abandoned.
    pub(crate) fn release(&mut self) {
        if !std::mem::replace(&mut self.released, true) && self.rejoined {
            self.between_rounds.leave(self.call.id());
        }
    }

    /// The client has disconnected.
    fn leave(&mut self) {
        let Some(mut until) = self.until else {
            return self.call.leave();
        };
        if self.rejoined
            && let Some((latest, others)) = self.between_rounds.leave(self.call.id())
        {
            if others {
                return;
            }
            until = until.max(latest);
        } else if self.between_rounds.0.lock().contains_key(self.call.id()) {
            return;
        }
        self.call.leave_round(until);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !std::mem::replace(&mut self.released, true) {
            self.leave();
        }
    }
}
