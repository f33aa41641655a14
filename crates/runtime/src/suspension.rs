//! Waiting without holding anything: first the slot is given back, then the code itself is let go.

use longhaul_core::{Clock, InputKey, Millis, UnixMillis};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// How long code that waits is kept in memory, unless the engine's options say otherwise.
pub const SUSPEND_AFTER: Duration = Duration::from_secs(30);
/// How many are kept at most; beyond that the ones that have waited longest are let go at once.
const MOST: usize = 1_000;
/// The shortest time that code is kept, in milliseconds: what has just come, and is about to be read, is not looked for in a hot loop.
const SHORTEST: Millis = 1;
/// The longest time without a look: the system's clock may jump.
const LONGEST_SLEEP: u64 = 60_000;

/// Something that may take long to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An answer, until a moment.
    Input(InputKey, UnixMillis),
    /// A moment of the engine's time.
    Timer(UnixMillis),
    /// A moment of the world's clock.
    Date(UnixMillis),
    /// The end of the child with the entry of this place.
    Child(u32),
}

impl Wait {
    /// When, in the engine's time, time alone ends it; for a date, unless the world's clock is set meanwhile.
    pub(crate) fn until(&self, clock: &dyn Clock) -> Option<UnixMillis> {
        match self {
            Self::Input(_, until) | Self::Timer(until) => Some(*until),
            Self::Date(until) => Some(clock.now().plus(until.since(clock.wall()))),
            Self::Child(_) => None,
        }
    }
}

/// What the branches of an attempt's code are doing, as far as its context knows.
pub(crate) struct Activity(Mutex<Branches>);

struct Branches {
    lines: HashMap<Arc<str>, Line>,
    /// Lines that may go on by themselves.
    busy: usize,
    waits: BTreeMap<u64, Wait>,
    next: u64,
}

#[derive(Default)]
struct Line {
    waits: u32,
    works: u32,
    /// Branches it has begun and waits for.
    forks: u32,
}

impl Line {
    /// Code about which nothing is known is taken to do something.
    fn is_busy(&self) -> bool {
        self.forks == 0 && (self.works > 0 || self.waits == 0)
    }
}

/// What a change made of the attempt as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActivityChange {
    /// The last busy branch waits now.
    AllWait,
    /// A branch goes on, after all waited.
    Resumed,
    /// Neither.
    None,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let trunk = (Arc::from(""), Line::default());
        Self(Mutex::new(Branches {
            lines: HashMap::from([trunk]),
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
        let change = all.change(path, |line| line.waits += 1);
        (id, change)
    }

    /// A branch waits for this no longer.
    pub(crate) fn waited(&self, path: &Arc<str>, id: u64) -> ActivityChange {
        let mut all = self.lock();
        all.waits.remove(&id);
        all.change(path, |line| line.waits -= 1)
    }

    /// A branch begins to work on something beside what it may wait for.
    pub(crate) fn work(&self, path: &Arc<str>) -> ActivityChange {
        self.lock().change(path, |line| line.works += 1)
    }

    /// It works on it no longer.
    pub(crate) fn worked(&self, path: &Arc<str>) -> ActivityChange {
        self.lock().change(path, |line| line.works -= 1)
    }

    /// A branch begins one that runs beside others, and waits for it.
    pub(crate) fn fork(&self, path: &Arc<str>, into: &Arc<str>) -> ActivityChange {
        let mut all = self.lock();
        let before = all.is_busy(path);
        if let Some(line) = all.lines.get_mut(path) {
            line.forks += 1;
        }
        all.lines.insert(Arc::clone(into), Line::default());
        let after = all.is_busy(path) + 1;
        all.settle(before, after)
    }

    /// Branches that were begun by one are over; it goes on with the last of them. In one go, so that what goes on is not taken to wait
    /// in between, which would cost it its slot.
    pub(crate) fn over(&self, path: &Arc<str>, branches: &[Arc<str>]) -> ActivityChange {
        let mut all = self.lock();
        let mut before = all.is_busy(path);
        for branch in branches {
            before += all.is_busy(branch);
            if all.lines.remove(branch).is_some()
                && let Some(line) = all.lines.get_mut(path)
            {
                line.forks -= 1;
            }
        }
        let after = all.is_busy(path);
        all.settle(before, after)
    }

    /// Whether all branches wait.
    pub(crate) fn all_wait(&self) -> bool {
        self.lock().busy == 0
    }

    /// Whether a branch waits for others that it has begun.
    pub(crate) fn has_forked(&self, path: &str) -> bool {
        self.lock().lines.get(path).is_some_and(|line| line.forks > 0)
    }

    /// What is waited for, if all branches wait.
    pub(crate) fn waits(&self) -> Option<BTreeMap<u64, Wait>> {
        let all = self.lock();
        (all.busy == 0).then(|| all.waits.clone())
    }

    /// Whether all branches wait, and for no less and no more than this.
    pub(crate) fn all_wait_for(&self, waits: &BTreeMap<u64, Wait>) -> bool {
        let all = self.lock();
        all.busy == 0 && all.waits.keys().eq(waits.keys())
    }

    fn lock(&self) -> MutexGuard<'_, Branches> {
        self.0.lock()
    }
}

impl Branches {
    fn change(&mut self, path: &Arc<str>, change: impl FnOnce(&mut Line)) -> ActivityChange {
        let before = self.is_busy(path);
        // What a branch still held when it was over, nobody counts any more.
        let Some(line) = self.lines.get_mut(path) else {
            return ActivityChange::None;
        };
        change(line);
        let after = self.is_busy(path);
        self.settle(before, after)
    }

    /// 1 if a line may go on by itself.
    fn is_busy(&self, path: &str) -> usize {
        usize::from(self.lines.get(path).is_some_and(Line::is_busy))
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

/// The code that waits in this process, in the order in which it is to be let go.
pub(crate) struct WaitingAttempts {
    /// How long it is kept.
    kept: Millis,
    waiting: Mutex<Waiting>,
    moved: Notify,
}

#[derive(Default)]
struct Waiting {
    by_end: BTreeMap<(UnixMillis, u64), Arc<Notify>>,
    next: u64,
}

/// A place among those who wait; dropping it leaves.
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
            kept: u64::try_from(kept.as_millis()).unwrap_or(u64::MAX).max(SHORTEST),
            waiting: Mutex::default(),
            moved: Notify::new(),
        })
    }

    /// Begins to wait. `suspend` is notified when the code has waited long enough, or too many wait; at once if it `must_suspend`.
    pub(crate) fn enter(self: &Arc<Self>, now: UnixMillis, must_suspend: bool, suspend: &Arc<Notify>) -> WaitingEntry {
        let mut waiting = self.lock();
        let end = now.plus(if must_suspend { SHORTEST } else { self.kept });
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

    /// Lets go whoever has waited long enough, until the engine stops.
    pub(crate) async fn run(&self, clock: &dyn Clock) {
        loop {
            let now = clock.now();
            let wait = match self.let_go_of_the_oldest(now) {
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

    /// How long the next one may stay.
    fn let_go_of_the_oldest(&self, now: UnixMillis) -> Option<u64> {
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

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn an_attempt_is_parked_when_its_last_branch_waits() {
        let activity = Activity::new();
        let branches = [path("0.0"), path("0.1")];
        for branch in &branches {
            assert_eq!(activity.fork(&path(""), branch), ActivityChange::None);
        }
        let (first, change) = activity.wait(&branches[0], Wait::Timer(UnixMillis(1)));
        assert_eq!(change, ActivityChange::None, "the other branch may go on");
        let (_, change) = activity.wait(&branches[1], Wait::Child(1));
        assert_eq!(change, ActivityChange::AllWait);
        assert_eq!(activity.waits().map(|waits| waits.len()), Some(2));
        assert_eq!(activity.waited(&branches[0], first), ActivityChange::Resumed);
        assert_eq!(
            activity.over(&path(""), &branches[..1]),
            ActivityChange::AllWait,
            "only the other one is left, and waits"
        );
        assert_eq!(
            activity.over(&path(""), &branches[1..]),
            ActivityChange::Resumed,
            "the trunk goes on"
        );
        assert_eq!(activity.over(&path(""), &branches), ActivityChange::None);
    }

    #[test]
    fn the_trunk_goes_on_after_its_branches_without_having_waited() {
        let activity = Activity::new();
        let branches = [path("0.0"), path("0.1")];
        for branch in &branches {
            activity.fork(&path(""), branch);
        }
        activity.wait(&branches[1], Wait::Child(1));
        assert_eq!(activity.over(&path(""), &branches), ActivityChange::None);
        assert!(activity.waits().is_none());
    }

    #[test]
    fn a_branch_that_also_works_is_not_parked() {
        let activity = Activity::new();
        activity.work(&path(""));
        assert_eq!(
            activity.wait(&path(""), Wait::Timer(UnixMillis(1))).1,
            ActivityChange::None
        );
        assert_eq!(activity.worked(&path("")), ActivityChange::AllWait);
    }

    #[test]
    fn beyond_the_most_the_oldest_is_let_go_at_once() {
        let waiting_attempts = WaitingAttempts::new(SUSPEND_AFTER);
        let signs: Vec<Arc<Notify>> = (0..=MOST).map(|_| Arc::default()).collect();
        let tickets: Vec<WaitingEntry> = (signs.iter().zip(1..))
            .map(|(sign, at)| waiting_attempts.enter(UnixMillis(at), false, sign))
            .collect();
        let told = |nth: usize| {
            let mut notified = std::pin::pin!(signs[nth].notified());
            notified.as_mut().enable()
        };
        assert!(told(0));
        assert!(!told(1));
        drop(tickets);
        assert!(waiting_attempts.lock().by_end.is_empty());
    }
}
