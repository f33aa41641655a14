//! Plain calls of modern clients between two of their requests, kept here until the client retries. A call is abandoned when its client
//! does not retry in time, or disconnects while it waits (T-34). A call with an idempotency key is not abandoned, because the client can
//! repeat it at any time.

use crate::interaction::rounds::LIFETIME;
use longhaul_core::{Clock, TaskId, UnixMillis};
use longhaul_runtime::{CallHandle, Ports};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The calls with input requests to their client.
#[derive(Clone, Default)]
pub(crate) struct CallsBetweenRounds(Arc<Mutex<HashMap<TaskId, Entry>>>);

struct Entry {
    /// Requests that wait for the call now: mostly none or one, but a client may send a retry twice.
    waiting: usize,
    /// The latest round that was asked.
    round: u32,
    /// Until when a retry may come.
    until: UnixMillis,
    removed: Arc<Notify>,
}

/// A request's claim on the call it waits for. Dropping it abandons the call, unless another request has brought the call to a later round.
pub(crate) struct Hold {
    between_rounds: CallsBetweenRounds,
    call: CallHandle,
    /// The latest round that this request knows; `None` before the first.
    round: Option<u32>,
    /// There is nothing to abandon any more.
    released: bool,
}

impl CallsBetweenRounds {
    /// The hold of the request that began the call.
    pub(crate) fn first(&self, call: CallHandle) -> Hold {
        self.hold(call, None)
    }

    /// The hold of a retry from `round`; `None` if the call is no longer there.
    pub(crate) fn again(&self, call: CallHandle, round: u32) -> Option<Hold> {
        self.0.lock().get_mut(call.id())?.waiting += 1;
        Some(self.hold(call, Some(round)))
    }

    fn hold(&self, call: CallHandle, round: Option<u32>) -> Hold {
        Hold {
            between_rounds: self.clone(),
            call,
            round,
            released: false,
        }
    }

    fn remove(&self, task: &TaskId) {
        if let Some(entry) = self.0.lock().remove(task) {
            entry.removed.notify_one();
        }
    }

    /// Abandons the call once the time for a retry is over.
    async fn expire(self, call: CallHandle, clock: Arc<dyn Clock>, removed: Arc<Notify>) {
        let task = call.id();
        loop {
            let Some(until) = self.0.lock().get(task).map(|entry| entry.until) else {
                return;
            };
            let now = clock.now();
            if until > now {
                let left = Duration::from_millis(until.0.abs_diff(now.0));
                tokio::select! {
                    () = clock.sleep(left) => continue,
                    () = removed.notified() => return,
                }
            }
            let mut calls = self.0.lock();
            match calls.get_mut(task) {
                // A request waits for it now; check again later.
                Some(entry) if entry.waiting > 0 => entry.until = now.plus(LIFETIME),
                Some(_) => {
                    calls.remove(task);
                    drop(calls);
                    return call.leave();
                }
                None => return,
            }
        }
    }
}

impl Hold {
    /// Starts a round whose retry may come until `until`. Returns its number; `None` if another request has
    /// meanwhile completed the call.
    pub(crate) fn ask(&mut self, until: UnixMillis, ports: &Ports) -> Option<u32> {
        let mut calls = self.between_rounds.0.lock();
        if self.round.is_some() && !calls.contains_key(self.call.id()) {
            return None;
        }
        let mut fresh = None;
        let entry = calls.entry(self.call.id().clone()).or_insert_with(|| Entry {
            waiting: 0,
            round: 0,
            until,
            removed: Arc::clone(fresh.insert(Arc::default())),
        });
        entry.waiting += usize::from(self.round.is_none());
        entry.round += 1;
        entry.until = entry.until.max(until);
        let round = entry.round;
        drop(calls);
        self.round = Some(round);
        if let Some(removed) = fresh {
            let between_rounds = self.between_rounds.clone();
            let expire = between_rounds.expire(self.call.clone(), Arc::clone(&ports.clock), removed);
            ports.spawner.spawn(Box::pin(expire));
        }
        Some(round)
    }

    /// The client has the questions; the call is kept until the retry.
    pub(crate) fn park(&mut self) {
        if !std::mem::replace(&mut self.released, true)
            && self.round.is_some()
            && let Some(entry) = self.between_rounds.0.lock().get_mut(self.call.id())
        {
            entry.waiting -= 1;
        }
    }

    /// The client has the outcome, or a task: nothing is to be abandoned.
    pub(crate) fn release(&mut self) {
        self.released = true;
        if self.round.is_some() {
            self.between_rounds.remove(self.call.id());
        }
    }

    /// The client has disconnected.
    fn leave(&mut self) {
        let Some(round) = self.round else {
            return self.call.leave();
        };
        let mut calls = self.between_rounds.0.lock();
        let Some(entry) = calls.get_mut(self.call.id()) else {
            return;
        };
        entry.waiting -= 1;
        // Another request may have a later round, whose client may still retry.
        if entry.waiting == 0 && entry.round == round {
            entry.removed.notify_one();
            calls.remove(self.call.id());
            drop(calls);
            self.call.leave();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !std::mem::replace(&mut self.released, true) {
            self.leave();
        }
    }
}
