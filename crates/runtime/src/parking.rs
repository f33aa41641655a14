//! Waiting without holding anything: first the slot is given back, then the code itself is let go.

use longhaul_core::{Clock, InputKey, UnixMillis};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How long code that waits is kept in memory.
const KEPT: u64 = 30_000;
/// How many are kept at most; beyond that the ones that have waited longest are let go at once.
const MOST: usize = 1_000;
/// The longest time without a look: the system's clock may jump.
const LONGEST_SLEEP: u64 = 60_000;

/// Something that may take long to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An answer, until a moment.
    Input(InputKey, UnixMillis),
    /// A moment.
    Timer(UnixMillis),
    /// The end of the child with the entry of this place.
    Child(u32),
}

impl Wait {
    /// When time alone ends it.
    pub(crate) fn until(&self) -> Option<UnixMillis> {
        match self {
            Self::Input(_, until) | Self::Timer(until) => Some(*until),
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
    /// Branches it has forked into and waits for.
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
pub(crate) enum Turn {
    /// The last busy branch waits now.
    Parked,
    /// A branch goes on, after all waited.
    Woken,
    /// Neither.
    Same,
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
    pub(crate) fn wait(&self, path: &Arc<str>, wait: Wait) -> (u64, Turn) {
        let mut all = self.lock();
        let id = all.next;
        all.next += 1;
        all.waits.insert(id, wait);
        let turn = all.change(path, |line| line.waits += 1);
        (id, turn)
    }

    /// A branch waits for this no longer.
    pub(crate) fn waited(&self, path: &Arc<str>, id: u64) -> Turn {
        let mut all = self.lock();
        all.waits.remove(&id);
        all.change(path, |line| line.waits -= 1)
    }

    /// A branch begins to work on something beside what it may wait for.
    pub(crate) fn work(&self, path: &Arc<str>) -> Turn {
        self.lock().change(path, |line| line.works += 1)
    }

    /// It works on it no longer.
    pub(crate) fn worked(&self, path: &Arc<str>) -> Turn {
        self.lock().change(path, |line| line.works -= 1)
    }

    /// A branch forks, and waits for what it has forked into.
    pub(crate) fn fork(&self, path: &Arc<str>, into: &[Arc<str>]) -> Turn {
        let mut all = self.lock();
        for branch in into {
            all.lines.insert(Arc::clone(branch), Line::default());
            all.busy += 1;
        }
        all.change(path, |line| line.forks += 1)
    }

    /// One of the branches that were forked is over.
    pub(crate) fn over(&self, branch: &Arc<str>) -> Turn {
        let mut all = self.lock();
        match all.lines.remove(branch) {
            Some(line) if line.is_busy() => all.settle(1, 0),
            _ => Turn::Same,
        }
    }

    /// A branch has come back from what it had forked into.
    pub(crate) fn joined(&self, path: &Arc<str>) -> Turn {
        self.lock().change(path, |line| line.forks -= 1)
    }

    /// Whether all branches wait.
    pub(crate) fn is_parked(&self) -> bool {
        self.lock().busy == 0
    }

    /// What is waited for, if all branches wait.
    pub(crate) fn parked(&self) -> Option<Vec<Wait>> {
        let all = self.lock();
        (all.busy == 0).then(|| all.waits.values().cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, Branches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Branches {
    fn change(&mut self, path: &Arc<str>, change: impl FnOnce(&mut Line)) -> Turn {
        // What a branch still held when it was over, nobody counts any more.
        let Some(line) = self.lines.get_mut(path) else {
            return Turn::Same;
        };
        let before = usize::from(line.is_busy());
        change(line);
        let after = usize::from(line.is_busy());
        self.settle(before, after)
    }

    fn settle(&mut self, before: usize, after: usize) -> Turn {
        let was_busy = self.busy > 0;
        self.busy = self.busy + after - before;
        match (was_busy, self.busy > 0) {
            (true, false) => Turn::Parked,
            (false, true) => Turn::Woken,
            _ => Turn::Same,
        }
    }
}

/// The code that waits in this process, in the order in which it began to.
#[derive(Default)]
pub(crate) struct Parking {
    parked: Mutex<Parked>,
    moved: Notify,
}

#[derive(Default)]
struct Parked {
    by_age: BTreeMap<(UnixMillis, u64), Arc<Notify>>,
    next: u64,
}

/// A place among those who wait; dropping it leaves.
pub(crate) struct Ticket {
    parking: Arc<Parking>,
    key: (UnixMillis, u64),
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.parking.lock().by_age.remove(&self.key);
    }
}

impl Parking {
    /// Begins to wait. `let_go` is told when the code has waited long enough, or too many wait.
    pub(crate) fn enter(self: &Arc<Self>, now: UnixMillis, let_go: &Arc<Notify>) -> Ticket {
        let mut parked = self.lock();
        let key = (now, parked.next);
        parked.next += 1;
        parked.by_age.insert(key, Arc::clone(let_go));
        let surplus = (parked.by_age.len() > MOST)
            .then(|| parked.by_age.pop_first())
            .flatten();
        let is_first = parked.by_age.len() == 1;
        drop(parked);
        if let Some((_, surplus)) = surplus {
            surplus.notify_one();
        }
        if is_first {
            self.moved.notify_one();
        }
        Ticket {
            parking: Arc::clone(self),
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
            clock.sleep(Duration::from_millis(wait)).await;
        }
    }

    /// How long the next one may stay.
    fn let_go_of_the_oldest(&self, now: UnixMillis) -> Option<u64> {
        let mut parked = self.lock();
        while let Some(entry) = parked.by_age.first_entry() {
            let leaves = entry.key().0.plus(KEPT);
            if leaves > now {
                return Some(leaves.since(now));
            }
            entry.remove().notify_one();
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(activity.fork(&path(""), &branches), Turn::Same);
        let (first, turn) = activity.wait(&branches[0], Wait::Timer(UnixMillis(1)));
        assert_eq!(turn, Turn::Same, "the other branch may go on");
        let (_, turn) = activity.wait(&branches[1], Wait::Child(1));
        assert_eq!(turn, Turn::Parked);
        assert_eq!(activity.parked().map(|waits| waits.len()), Some(2));
        assert_eq!(activity.waited(&branches[0], first), Turn::Woken);
        assert_eq!(
            activity.over(&branches[0]),
            Turn::Parked,
            "only the other one is left, and waits"
        );
        assert_eq!(activity.over(&branches[1]), Turn::Same);
        assert_eq!(activity.joined(&path("")), Turn::Woken);
    }

    #[test]
    fn a_branch_that_also_works_is_not_parked() {
        let activity = Activity::new();
        activity.work(&path(""));
        assert_eq!(activity.wait(&path(""), Wait::Timer(UnixMillis(1))).1, Turn::Same);
        assert_eq!(activity.worked(&path("")), Turn::Parked);
    }

    #[test]
    fn beyond_the_most_the_oldest_is_let_go_at_once() {
        let parking = Arc::new(Parking::default());
        let signs: Vec<Arc<Notify>> = (0..=MOST).map(|_| Arc::default()).collect();
        let tickets: Vec<Ticket> = (signs.iter().zip(1..))
            .map(|(sign, at)| parking.enter(UnixMillis(at), sign))
            .collect();
        let told = |nth: usize| {
            let mut notified = std::pin::pin!(signs[nth].notified());
            notified.as_mut().enable()
        };
        assert!(told(0));
        assert!(!told(1));
        drop(tickets);
        assert!(parking.lock().by_age.is_empty());
    }
}
