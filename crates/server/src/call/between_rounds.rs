//! Plain calls of modern clients between two of their requests: known only to their client, and kept here until it
//! comes back. One whose client does not come back in time is abandoned, and so is one whose client leaves while it waits (T-34),
//! but not one with an idempotency key, under which the client can always ask for it.

use crate::interaction::rounds::LIFETIME;
use longhaul_core::{Clock, TaskId, UnixMillis};
use longhaul_runtime::{Begun, Ports};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The calls that have asked their client something.
#[derive(Clone, Default)]
pub(crate) struct CallsBetweenRounds(Arc<Mutex<HashMap<TaskId, Entry>>>);

struct Entry {
    /// Requests that wait for the call now: mostly none or one, but a client may send a retry twice.
    waiting: usize,
    /// The latest round that was asked.
    round: u32,
    /// Until when a retry may come.
    until: UnixMillis,
    gone: Arc<Notify>,
}

/// A request's claim on the call it waits for. Dropping it abandons the call, unless another request has brought the call to a later round.
pub(crate) struct Hold {
    parked: CallsBetweenRounds,
    call: Begun,
    /// The latest round that this request knows; `None` before the first.
    round: Option<u32>,
    /// There is nothing to abandon any more.
    released: bool,
}

impl CallsBetweenRounds {
    /// The hold of the request that began the call.
    pub(crate) fn first(&self, call: Begun) -> Hold {
        self.hold(call, None)
    }

    /// The hold of a request that comes back from `round`; `None` if the call is no longer there.
    pub(crate) fn again(&self, call: Begun, round: u32) -> Option<Hold> {
        self.lock().get_mut(call.id())?.waiting += 1;
        Some(self.hold(call, Some(round)))
    }

    fn hold(&self, call: Begun, round: Option<u32>) -> Hold {
        Hold {
            parked: self.clone(),
            call,
            round,
            released: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Entry>> {
        self.0.lock()
    }

    fn remove(&self, task: &TaskId) {
        if let Some(entry) = self.lock().remove(task) {
            entry.gone.notify_one();
        }
    }

    /// Abandons the call once its client has not come back in time.
    async fn expire(self, call: Begun, clock: Arc<dyn Clock>, gone: Arc<Notify>) {
        let task = call.id();
        loop {
            let Some(until) = self.lock().get(task).map(|entry| entry.until) else {
                return;
            };
            let now = clock.now();
            if until > now {
                let left = Duration::from_millis(until.0.abs_diff(now.0));
                tokio::select! {
                    () = clock.sleep(left) => continue,
                    () = gone.notified() => return,
                }
            }
            let mut calls = self.lock();
            match calls.get_mut(task) {
                // A request waits for it now; look again later.
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
    /// The call asks its client, who may come back until `until`. Returns the number of the round; `None` if another request has
    /// meanwhile taken the call to its end.
    pub(crate) fn ask(&mut self, until: UnixMillis, ports: &Ports) -> Option<u32> {
        let mut calls = self.parked.lock();
        if self.round.is_some() && !calls.contains_key(self.call.id()) {
            return None;
        }
        let mut fresh = None;
        let entry = calls.entry(self.call.id().clone()).or_insert_with(|| Entry {
            waiting: 0,
            round: 0,
            until,
            gone: Arc::clone(fresh.insert(Arc::default())),
        });
        entry.waiting += usize::from(self.round.is_none());
        entry.round += 1;
        entry.until = entry.until.max(until);
        let round = entry.round;
        drop(calls);
        self.round = Some(round);
        if let Some(gone) = fresh {
            let parked = self.parked.clone();
            let expire = parked.expire(self.call.clone(), Arc::clone(&ports.clock), gone);
            ports.spawner.spawn(Box::pin(expire));
        }
        Some(round)
    }

    /// The client has the questions; the call is held until it comes back.
    pub(crate) fn park(&mut self) {
        if !std::mem::replace(&mut self.released, true)
            && self.round.is_some()
            && let Some(entry) = self.parked.lock().get_mut(self.call.id())
        {
            entry.waiting -= 1;
        }
    }

    /// The client has the outcome, or a task: nothing is to be abandoned.
    pub(crate) fn release(&mut self) {
        self.released = true;
        if self.round.is_some() {
            self.parked.remove(self.call.id());
        }
    }

    /// The client has left.
    fn leave(&mut self) {
        let Some(round) = self.round else {
            return self.call.leave();
        };
        let mut calls = self.parked.lock();
        let Some(entry) = calls.get_mut(self.call.id()) else {
            return;
        };
        entry.waiting -= 1;
        // Another request may have been given a later round, and its client may yet come back.
        if entry.waiting == 0 && entry.round == round {
            entry.gone.notify_one();
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
