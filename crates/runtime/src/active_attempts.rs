//! The attempts that this node runs, and how each is asked to stop.

use longhaul_core::{StopReason, TaskId};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, sync::Arc};
use tokio::sync::watch;

/// Attempts by task. A task has at most one active attempt, so its id is key enough.
#[derive(Default)]
pub(crate) struct ActiveAttempts {
    entries: Mutex<Entries>,
    /// How many of them can be replayed; each counts until its end is written.
    replaying: watch::Sender<usize>,
}

#[derive(Default)]
struct Entries {
    stops: HashMap<TaskId, watch::Sender<Option<StopReason>>>,
    missed: u64,
}

/// How many requests to stop had found no attempt at some moment.
///
/// Between the commit that claims a task and [`ActiveAttempts::enter`], a cancel can be written that finds no attempt. So this is noted before
/// the claim, and `enter` returns whether that may have happened; only then is the task read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missed(u64);

impl ActiveAttempts {
    /// To be noted before a claim is written.
    pub(crate) fn missed(&self) -> Missed {
        Missed(self.lock().missed)
    }

    /// Adds an attempt, which may have been asked to stop already, and returns whether a request may have been missed since
    /// `before`.
    pub(crate) fn enter(
        &self,
        task: &TaskId,
        stop: Option<StopReason>,
        before: Missed,
    ) -> (watch::Receiver<Option<StopReason>>, bool) {
        let (sender, receiver) = watch::channel(stop);
        let mut entries = self.lock();
        entries.stops.insert(task.clone(), sender);
        (receiver, entries.missed != before.0)
    }

    /// Asks the attempt of `task`, which is this node's, to stop.
    pub(crate) fn stop(&self, task: &TaskId, reason: StopReason) {
        let mut entries = self.lock();
        match entries.stops.get(task) {
            Some(sender) => {
                sender.send_if_modified(|stop| stop.replace(reason) != Some(reason));
            }
            None => entries.missed += 1,
        }
    }

    /// Removes an attempt that has ended.
    pub(crate) fn leave(&self, task: &TaskId) {
        self.lock().stops.remove(task);
    }

    /// Counts an attempt that can be replayed, until the returned value is dropped.
    pub(crate) fn replays(self: &Arc<Self>) -> Replaying {
        self.replaying.send_modify(|count| *count += 1);
        Replaying(Arc::clone(self))
    }

    /// Completes when no attempt is left that can be replayed.
    pub(crate) async fn none_replays(&self) {
        // The sender lives as long as `self`.
        let _ = self.replaying.subscribe().wait_for(|count| *count == 0).await;
    }

    /// How many were asked to stop and have not yet.
    pub(crate) fn stopping(&self) -> usize {
        self.lock()
            .stops
            .values()
            .filter(|stop| stop.borrow().is_some())
            .count()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().stops.len()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

/// An attempt that can be replayed, and whose end is not written.
pub(crate) struct Replaying(Arc<ActiveAttempts>);

impl Drop for Replaying {
    fn drop(&mut self) {
        self.0.replaying.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_came_before_its_attempt_is_noticed() {
        let active = ActiveAttempts::default();
        let task: TaskId = "t1".parse().unwrap();
        let before = active.missed();
        active.stop(&task, StopReason::Cancel);
        assert!(active.enter(&task, None, before).1, "one was missed");
        let (stop, missed) = active.enter(&task, None, active.missed());
        assert!(!missed);
        active.stop(&task, StopReason::Deadline);
        assert_eq!(*stop.borrow(), Some(StopReason::Deadline));
    }
}
