//! The attempts that this node runs, and how each is asked to stop.

use foldhash::HashMap;
use longhaul_core::{Fence, StopReason, TaskId, store::HeldAttempt};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::watch;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Attempts by task. A task has at most one active attempt, so its id is the key.
#[derive(Default)]
pub(crate) struct ActiveAttempts {
    entries: Mutex<Entries>,
    /// Those that can be replayed; each counts until its end is written.
    replayable: TaskTracker,
}

#[derive(Default)]
struct Entries {
    attempts: HashMap<TaskId, ActiveAttempt>,
    /// Those whose work is over and whose end is being written.
    ending: HashMap<TaskId, Fence>,
    stop_requests_missed: u64,
    claims: Claims,
}

/// The claims of this node whose attempts are not yet among the active ones.
#[derive(Default)]
struct Claims {
    begun: u64,
    /// By number, and of each how many parts of it are under way.
    under_way: VecDeque<(u64, usize)>,
    /// Whether the answer of one was ever lost, and whether that was one of an adoption.
    lost: Option<AttemptOrigin>,
    /// Attempts that this node holds by what the store says, and that do not run here: their epoch, and the number of the first claim that began after
    /// they were seen. All earlier claims must be over before one counts as unattended.
    unattended: HashMap<TaskId, (u32, u64)>,
}

struct ActiveAttempt {
    fence: Fence,
    /// Dropped to tell the attempt that another node has taken it over.
    stop: watch::Sender<Option<StopReason>>,
}

impl ActiveAttempt {
    fn stop_for(&self, reason: StopReason) {
        self.stop.send_if_modified(|stop| stop.replace(reason) != Some(reason));
    }
}

/// How an attempt comes to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOrigin {
    /// Claimed by this node: nothing has happened yet.
    Claimed,
    /// Adopted: begun, or about to be, by an earlier process.
    Adopted,
    /// Reclaimed: begun by a process of another host, with which it was lost.
    Reclaimed,
}

/// Taken before a claim is written: how many requests to stop had found no attempt by then, and that a claim is under way.
///
/// Between the commit that claims a task and [`ActiveAttempts::insert`], a cancel can be written that finds no attempt. So this is noted before
/// the claim, and `insert` returns whether that may have happened; only then is the task read again. The slow re-read would find it, too, but a
/// caller who leaves at once would let the work run until then; and to read each claimed task again would cost every claim a read.
#[derive(Clone)]
pub(crate) struct ClaimGuard {
    stop_requests_missed: u64,
    /// `None` for a claim whose answer cannot be lost.
    _claim: Option<ClaimUnderWay>,
}

/// A claim whose attempts are not yet all active.
struct ClaimUnderWay {
    number: u64,
    active: Arc<ActiveAttempts>,
}

/// A part of the same claim.
impl Clone for ClaimUnderWay {
    fn clone(&self) -> Self {
        let mut entries = self.active.lock();
        let under_way = &mut entries.claims.under_way;
        if let Ok(place) = under_way.binary_search_by_key(&self.number, |(number, _)| *number) {
            under_way[place].1 += 1;
        }
        drop(entries);
        Self {
            number: self.number,
            active: Arc::clone(&self.active),
        }
    }
}

impl Drop for ClaimUnderWay {
    fn drop(&mut self) {
        let under_way = &mut self.active.lock().claims.under_way;
        let Ok(place) = under_way.binary_search_by_key(&self.number, |(number, _)| *number) else {
            return;
        };
        under_way[place].1 -= 1;
        if under_way[place].1 == 0 {
            under_way.remove(place);
        }
    }
}

impl ActiveAttempts {
    /// Before a claim that is made in the memory of this process.
    pub(crate) fn guard_claim_in_memory(&self) -> ClaimGuard {
        ClaimGuard {
            stop_requests_missed: self.lock().stop_requests_missed,
            _claim: None,
        }
    }

    /// Before a claim that is written to the store.
    pub(crate) fn guard_claim(self: &Arc<Self>) -> ClaimGuard {
        let mut entries = self.lock();
        entries.claims.begun += 1;
        let number = entries.claims.begun;
        entries.claims.under_way.push_back((number, 1));
        let claim = ClaimUnderWay {
            number,
            active: Arc::clone(self),
        };
        ClaimGuard {
            stop_requests_missed: entries.stop_requests_missed,
            _claim: Some(claim),
        }
    }

    /// The answer of a claim was lost: the store may say that this node holds an attempt that nobody runs. `origin` is that of the attempt.
    pub(crate) fn claim_was_lost(&self, origin: AttemptOrigin) {
        let lost = &mut self.lock().claims.lost;
        if *lost != Some(AttemptOrigin::Adopted) {
            *lost = Some(origin);
        }
    }

    /// Those of `held` that nobody runs, since the answer of their claim was lost, and their origins. `held` is the
    /// answer to a renewal that was sent after the previous call of this.
    ///
    /// One that is held and not active may also have been claimed by a claim that is still under way, or have ended since. So it counts only when the
    /// store says so a second time, after all these claims are over.
    pub(crate) fn take_unattended(&self, held: &[HeldAttempt]) -> Vec<(TaskId, AttemptOrigin)> {
        let mut entries = self.lock();
        let Entries {
            attempts,
            ending,
            claims,
            ..
        } = &mut *entries;
        let Some(origin) = claims.lost else { return Vec::new() };
        let oldest = claims.under_way.front().map_or(u64::MAX, |(number, _)| *number);
        let before = std::mem::take(&mut claims.unattended);
        let mut found = Vec::new();
        let is_known = |task| attempts.contains_key(task) || ending.contains_key(task);
        for attempt in held.iter().filter(|attempt| !is_known(&attempt.task)) {
            let seen = before.get(&attempt.task).filter(|(epoch, _)| *epoch == attempt.epoch);
            match seen {
                Some((_, next)) if oldest >= *next => found.push((attempt.task.clone(), origin)),
                seen => {
                    let seen = seen.copied().unwrap_or((attempt.epoch, claims.begun + 1));
                    claims.unattended.insert(attempt.task.clone(), seen);
                }
            }
        }
        found
    }

    /// Adds an attempt, which may have been asked to stop already, and returns whether a request may have been missed since
    /// `before`.
    pub(crate) fn insert(
        &self,
        task: &TaskId,
        fence: Fence,
        stop: Option<StopReason>,
        before: ClaimGuard,
    ) -> (watch::Receiver<Option<StopReason>>, bool) {
        let (stop, receiver) = watch::channel(stop);
        let mut entries = self.lock();
        entries.attempts.insert(task.clone(), ActiveAttempt { fence, stop });
        let missed = entries.stop_requests_missed != before.stop_requests_missed;
        drop(entries);
        (receiver, missed)
    }

    /// Asks the attempt of `task`, which is this node's, to stop.
    pub(crate) fn stop(&self, task: &TaskId, reason: StopReason) {
        let mut entries = self.lock();
        match entries.attempts.get(task) {
            Some(attempt) => attempt.stop_for(reason),
            None => entries.stop_requests_missed += 1,
        }
    }

    /// Removes an attempt that has ended, or was taken over by another node. The task may have a newer one here.
    pub(crate) fn remove(&self, task: &TaskId, fence: Fence) {
        let mut entries = self.lock();
        if entries.attempts.get(task).is_some_and(|attempt| attempt.fence == fence) {
            entries.attempts.remove(task);
        }
    }

    /// Removes an attempt whose work is over and whose end will now be written. It is known until [`end_written`](Self::end_written) is called.
    pub(crate) fn begin_end(&self, task: &TaskId, fence: Fence) {
        let mut entries = self.lock();
        if entries.attempts.get(task).is_some_and(|attempt| attempt.fence == fence) {
            entries.attempts.remove(task);
            entries.ending.insert(task.clone(), fence);
        }
    }

    /// The end of an attempt was written, or refused because it is another node's by now.
    pub(crate) fn end_written(&self, task: &TaskId, fence: Fence) {
        let mut entries = self.lock();
        if entries.ending.get(task) == Some(&fence) {
            entries.ending.remove(task);
        }
    }

    /// Counts an attempt that can be replayed, until the returned value is dropped.
    pub(crate) fn count_replayable(&self) -> TaskTrackerToken {
        self.replayable.token()
    }

    /// Completes when no attempt is left that can be replayed.
    pub(crate) async fn wait_for_replayable(&self) {
        self.replayable.close();
        self.replayable.wait().await;
    }

    /// How many were asked to stop and have not yet.
    pub(crate) fn stopping(&self) -> usize {
        let entries = self.lock();
        let stopping = entries
            .attempts
            .values()
            .filter(|attempt| attempt.stop.borrow().is_some());
        stopping.count()
    }

    /// Removes all attempts: none of them can write anything any more.
    pub(crate) fn lose_all(&self) {
        let lost = std::mem::take(&mut self.lock().attempts);
        drop(lost);
    }

    /// All of them, in order of their tasks.
    pub(crate) fn fences(&self) -> Vec<(TaskId, Fence)> {
        let entries = self.lock();
        let attempts = entries.attempts.iter();
        let mut fences: Vec<_> = attempts.map(|(task, attempt)| (task.clone(), attempt.fence)).collect();
        drop(entries);
        fences.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        fences
    }

    /// Asks the attempt of `task` to stop, if it is that of `epoch`.
    pub(crate) fn stop_attempt(&self, task: &TaskId, epoch: u32, reason: StopReason) {
        if let Some(attempt) = self
            .lock()
            .attempts
            .get(task)
            .filter(|attempt| attempt.fence.epoch == epoch)
        {
            attempt.stop_for(reason);
        }
    }

    /// The fence of a task's attempt.
    pub(crate) fn fence(&self, task: &TaskId) -> Option<Fence> {
        self.lock().attempts.get(task).map(|attempt| attempt.fence)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().attempts.len()
    }

    /// Whether there are none, and the ends of all are written.
    pub(crate) fn is_idle(&self) -> bool {
        let entries = self.lock();
        entries.attempts.is_empty() && entries.ending.is_empty() && entries.claims.under_way.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(epoch: u32) -> Fence {
        Fence {
            node: longhaul_core::NodeId(1),
            epoch,
        }
    }

    #[test]
    fn a_stop_that_came_before_its_attempt_is_noticed() {
        let active = Arc::new(ActiveAttempts::default());
        let task: TaskId = "t1".parse().unwrap();
        let before = active.guard_claim();
        active.stop(&task, StopReason::Cancel);
        assert!(active.insert(&task, fence(1), None, before).1, "one was missed");
        let (stop, missed) = active.insert(&task, fence(1), None, active.guard_claim());
        assert!(!missed);
        active.stop(&task, StopReason::Deadline);
        assert_eq!(*stop.borrow(), Some(StopReason::Deadline));
    }

    #[test]
    fn an_attempt_that_leaves_does_not_take_a_newer_one_with_it() {
        let active = Arc::new(ActiveAttempts::default());
        let task: TaskId = "t1".parse().unwrap();
        let (old, _) = active.insert(&task, fence(1), None, active.guard_claim());
        let (new, _) = active.insert(&task, fence(2), None, active.guard_claim());
        assert!(old.has_changed().is_err(), "the old one is lost");
        active.remove(&task, fence(1));
        assert!(new.has_changed().is_ok());
        active.remove(&task, fence(2));
        assert_eq!(active.len(), 0);
    }

    /// The store says that the node holds an attempt that is not active. It is one whose claim was lost only if that is still so when every claim is over
    /// that may have been its own.
    #[test]
    fn an_attempt_whose_claim_was_lost_is_found_once() {
        let active = Arc::new(ActiveAttempts::default());
        let task: TaskId = "t1".parse().unwrap();
        let held = [HeldAttempt {
            task: task.clone(),
            epoch: 1,
            stop: None,
        }];
        for _ in 0..3 {
            assert_eq!(active.take_unattended(&held), [], "no claim was lost");
        }
        active.claim_was_lost(AttemptOrigin::Claimed);
        let under_way = active.guard_claim();
        for _ in 0..3 {
            // It may be of the claim that is under way.
            assert_eq!(active.take_unattended(&held), []);
        }
        let part = under_way.clone();
        drop(under_way);
        for _ in 0..3 {
            assert_eq!(active.take_unattended(&held), [], "a part of it is under way");
        }
        drop(part);
        let later = active.guard_claim();
        assert_eq!(active.take_unattended(&held), [(task.clone(), AttemptOrigin::Claimed)]);
        assert_eq!(active.take_unattended(&held), [], "it is looked at anew");
        assert_eq!(active.take_unattended(&[]), [], "it has ended");
        // It is another attempt, or was read before.
        assert_eq!(active.take_unattended(&held), []);
        let (_stop, _) = active.insert(&task, fence(1), None, later);
        assert_eq!(active.take_unattended(&held), [], "it runs");
    }
}
