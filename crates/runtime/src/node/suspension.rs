//! Suspension: an attempt whose code only waits first frees its slot, and later ends, so that its code can be dropped.

use crate::ports::LONGEST_SLEEP;
use longhaul_core::{Clock, InputKey, Millis, TaskId, UnixMillis, whole_millis};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// How long code that waits usually stays in memory.
pub const SUSPEND_AFTER: Duration = Duration::from_secs(30);
/// How many waiting attempts stay in memory; beyond that the oldest are suspended at once.
const MOST: usize = 1_000;
/// The shortest time that code stays in memory, in milliseconds, so that an answer that is about to be read does not cause a busy loop.
const SHORTEST: Millis = 1;

/// What a branch waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An answer, until it times out.
    Input(InputKey, UnixMillis),
    /// A time of the engine's clock.
    Timer(UnixMillis),
    /// A time of the system's clock.
    Date(UnixMillis),
    /// The end of a child, whose entry has this position.
    Child(u32, TaskId),
}

impl Wait {
    /// When time alone ends the wait, by the engine's clock; for a date, unless the system's clock is set meanwhile.
    pub(crate) fn until(&self, clock: &dyn Clock) -> Option<UnixMillis> {
        match self {
            Self::Input(_, until) | Self::Timer(until) => Some(*until),
            Self::Date(until) => Some(clock.now().plus(until.since(clock.wall()))),
            Self::Child(..) => None,
        }
    }
}

/// Which branches of an attempt's code wait.
pub(crate) struct Activity(Mutex<Branches>);

struct Branches {
    by_path: HashMap<Arc<str>, BranchActivity>,
    /// The number of branches that may continue by themselves.
    busy: usize,
    waits: BTreeMap<u64, Wait>,
    next: u64,
}

#[derive(Default)]
struct BranchActivity {
    waits: u32,
    works: u32,
    /// Branches that it has started and waits for.
    forks: u32,
}

impl BranchActivity {
    /// A branch that neither waits nor works is taken to be busy.
    fn is_busy(&self) -> bool {
        self.forks == 0 && (self.works > 0 || self.waits == 0)
    }
}

/// How a change affects the attempt as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActivityChange {
    /// The last busy branch waits now.
    AllWait,
    /// A branch continues after all waited.
    Resumed,
    /// Neither.
    None,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let trunk = (Arc::from(""), BranchActivity::default());
        Self(Mutex::new(Branches {
            by_path: HashMap::from([trunk]),
            busy: 1,
            waits: BTreeMap::new(),
            next: 0,
        }))
    }

    /// A branch begins to wait.
    pub(crate) fn wait(&self, path: &Arc<str>, wait: Wait) -> (u64, ActivityChange) {
        let mut all = self.lock();
        let id = all.next;
        all.next += 1;
        all.waits.insert(id, wait);
        let change = all.change(path, |branch| branch.waits += 1);
        (id, change)
    }

    /// A branch waits for this no longer.
    pub(crate) fn waited(&self, path: &Arc<str>, id: u64) -> ActivityChange {
        let mut all = self.lock();
        all.waits.remove(&id);
        all.change(path, |branch| branch.waits -= 1)
    }

    /// A branch begins to work on something beside what it may wait for.
    pub(crate) fn work(&self, path: &Arc<str>) -> ActivityChange {
        self.lock().change(path, |branch| branch.works += 1)
    }

    /// It works on it no longer.
    pub(crate) fn worked(&self, path: &Arc<str>) -> ActivityChange {
        self.lock().change(path, |branch| branch.works -= 1)
    }

    /// A branch starts another one, and waits for it.
    pub(crate) fn fork(&self, path: &Arc<str>, into: &Arc<str>) -> ActivityChange {
        let mut all = self.lock();
        let before = all.is_busy(path);
        if let Some(branch) = all.by_path.get_mut(path) {
            branch.forks += 1;
        }
        all.by_path.insert(Arc::clone(into), BranchActivity::default());
        let after = all.is_busy(path) + 1;
        all.settle(before, after)
    }

    /// Branches end, and the one that started them continues with the last of them. In one step, so that the attempt does not seem to wait in
    /// between, which would free its slot.
    pub(crate) fn over(&self, path: &Arc<str>, branches: &[Arc<str>]) -> ActivityChange {
        let mut all = self.lock();
        let mut before = all.is_busy(path);
        for branch in branches {
            before += all.is_busy(branch);
            if all.by_path.remove(branch).is_some()
                && let Some(branch) = all.by_path.get_mut(path)
            {
                branch.forks -= 1;
            }
        }
        let after = all.is_busy(path);
        all.settle(before, after)
    }

    /// Whether all branches wait.
    pub(crate) fn all_wait(&self) -> bool {
        self.lock().busy == 0
    }

    /// Whether a branch waits for others that it has started.
    pub(crate) fn has_forked(&self, path: &str) -> bool {
        self.lock().by_path.get(path).is_some_and(|branch| branch.forks > 0)
    }

    /// What is waited for, if all branches wait.
    pub(crate) fn waits(&self) -> Option<BTreeMap<u64, Wait>> {
        let all = self.lock();
        (all.busy == 0).then(|| all.waits.clone())
    }

    /// Whether all branches wait for exactly this.
    pub(crate) fn all_wait_for(&self, waits: &BTreeMap<u64, Wait>) -> bool {
        let all = self.lock();
        all.busy == 0 && all.waits.keys().eq(waits.keys())
    }

    fn lock(&self) -> MutexGuard<'_, Branches> {
        self.0.lock()
    }
}

impl Branches {
    fn change(&mut self, path: &Arc<str>, change: impl FnOnce(&mut BranchActivity)) -> ActivityChange {
        let before = self.is_busy(path);
        // A branch that has ended does not count any more.
        let Some(branch) = self.by_path.get_mut(path) else {
            return ActivityChange::None;
        };
        change(branch);
        let after = self.is_busy(path);
        self.settle(before, after)
    }

    /// 1 if a branch may continue by itself.
    fn is_busy(&self, path: &str) -> usize {
        usize::from(self.by_path.get(path).is_some_and(BranchActivity::is_busy))
    }

    fn settle(&mut self, before: usize, after: usize) -> ActivityChange {
        let was_busy = self.busy > 0;
        self.busy = self.busy + after - before;
        match (was_busy, self.busy > 0) {
            (true, false) => ActivityChange::AllWait,
            (false, true) => ActivityChange::Resumed,
            _ => ActivityChange::None,
        }
    }
}

/// The attempts of this process that wait, in the order in which they will be suspended.
pub(crate) struct WaitingAttempts {
    /// How long they stay in memory, in milliseconds.
    kept: AtomicU64,
    waiting: Mutex<SuspensionQueue>,
    moved: Notify,
}

#[derive(Default)]
struct SuspensionQueue {
    by_end: BTreeMap<(UnixMillis, u64), Arc<Notify>>,
    next: u64,
}

/// One waiting attempt; dropping it removes the attempt.
pub(crate) struct WaitingEntry {
    waiting_attempts: Arc<WaitingAttempts>,
    key: (UnixMillis, u64),
}

impl Drop for WaitingEntry {
    fn drop(&mut self) {
        self.waiting_attempts.lock().by_end.remove(&self.key);
    }
}

impl WaitingAttempts {
    pub(crate) fn new(kept: Duration) -> Arc<Self> {
        Arc::new(Self {
            kept: AtomicU64::new(whole_millis(kept).max(SHORTEST)),
            waiting: Mutex::default(),
            moved: Notify::new(),
        })
    }

    /// Adds an attempt. `suspend` is notified when it has waited long enough or too many wait; at once if it `must_suspend`.
    pub(crate) fn enter(self: &Arc<Self>, now: UnixMillis, must_suspend: bool, suspend: &Arc<Notify>) -> WaitingEntry {
        let mut waiting = self.lock();
        let kept = self.kept.load(Ordering::Relaxed);
        let end = now.plus(if must_suspend { SHORTEST } else { kept });
        let key = (end, waiting.next);
        waiting.next += 1;
        waiting.by_end.insert(key, Arc::clone(suspend));
        let surplus = (waiting.by_end.len() > MOST)
            .then(|| waiting.by_end.pop_first())
            .flatten();
        let is_first = waiting.by_end.keys().next() == Some(&key);
        drop(waiting);
        if let Some((_, surplus)) = surplus {
            surplus.notify_one();
        }
        if is_first {
            self.moved.notify_one();
        }
        WaitingEntry {
            waiting_attempts: Arc::clone(self),
            key,
        }
    }

    /// Suspends all that wait, and from now on each as soon as it waits.
    pub(crate) fn suspend_at_once(&self) {
        let mut waiting = self.lock();
        self.kept.store(SHORTEST, Ordering::Relaxed);
        std::mem::take(&mut waiting.by_end)
            .values()
            .for_each(|suspend| suspend.notify_one());
    }

    /// Suspends attempts that have waited long enough, until the engine stops.
    pub(crate) async fn run(&self, clock: &dyn Clock) {
        loop {
            let now = clock.now();
            let wait = match self.suspend_due(now) {
                Some(wait) => wait.min(LONGEST_SLEEP),
                None => {
                    self.moved.notified().await;
                    continue;
                }
            };
            tokio::select! {
                biased;
                () = clock.sleep(Duration::from_millis(wait)) => {}
                () = self.moved.notified() => {}
            }
        }
    }

    /// Suspends those that have waited long enough; returns how long the next one may stay, in milliseconds.
    fn suspend_due(&self, now: UnixMillis) -> Option<u64> {
        let mut waiting = self.lock();
        while let Some(entry) = waiting.by_end.first_entry() {
            let end = entry.key().0;
            if end > now {
                return Some(end.since(now));
            }
            entry.remove().notify_one();
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, SuspensionQueue> {
        self.waiting.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> Arc<str> {
        name.into()
    }

    fn child() -> Wait {
        Wait::Child(1, "c1".parse().unwrap())
    }

    #[test]
    fn an_attempt_waits_when_its_last_branch_waits() {
        let activity = Activity::new();
        let branches = [path("0.0"), path("0.1")];
        for branch in &branches {
            assert_eq!(activity.fork(&path(""), branch), ActivityChange::None);
        }
        let (first, change) = activity.wait(&branches[0], Wait::Timer(UnixMillis(1)));
        assert_eq!(change, ActivityChange::None, "the other branch may go on");
        let (_, change) = activity.wait(&branches[1], child());
        assert_eq!(change, ActivityChange::AllWait);
        assert_eq!(activity.waits().map(|waits| waits.len()), Some(2));
        assert_eq!(activity.waited(&branches[0], first), ActivityChange::Resumed);
        // Only the other one is left, and waits.
        assert_eq!(activity.over(&path(""), &branches[..1]), ActivityChange::AllWait);
        // The trunk goes on.
        assert_eq!(activity.over(&path(""), &branches[1..]), ActivityChange::Resumed);
        assert_eq!(activity.over(&path(""), &branches), ActivityChange::None);
    }

    #[test]
    fn the_trunk_continues_after_its_branches_without_waiting() {
        let activity = Activity::new();
        let branches = [path("0.0"), path("0.1")];
        for branch in &branches {
            activity.fork(&path(""), branch);
        }
        activity.wait(&branches[1], child());
        assert_eq!(activity.over(&path(""), &branches), ActivityChange::None);
        assert!(activity.waits().is_none());
    }

    #[test]
    fn a_branch_that_also_works_does_not_wait() {
        let activity = Activity::new();
        activity.work(&path(""));
        assert_eq!(
            activity.wait(&path(""), Wait::Timer(UnixMillis(1))).1,
            ActivityChange::None
        );
        assert_eq!(activity.worked(&path("")), ActivityChange::AllWait);
    }

    #[test]
    fn beyond_the_limit_the_oldest_attempt_is_suspended_at_once() {
        let waiting_attempts = WaitingAttempts::new(SUSPEND_AFTER);
        let notifies: Vec<Arc<Notify>> = (0..=MOST).map(|_| Arc::default()).collect();
        let entries: Vec<WaitingEntry> = (notifies.iter().zip(1..))
            .map(|(notify, at)| waiting_attempts.enter(UnixMillis(at), false, notify))
            .collect();
        let is_suspended = |nth: usize| {
            let mut notified = std::pin::pin!(notifies[nth].notified());
            notified.as_mut().enable()
        };
        assert!(is_suspended(0));
        assert!(!is_suspended(1));
        drop(entries);
        assert!(waiting_attempts.lock().by_end.is_empty());
    }
}
