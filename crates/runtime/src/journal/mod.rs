//! The journal of an attempt: what the tool's code, run again from its start, has already come to.
//!
//! Whatever must come out the same each time is a *place*: it is [begun](Journal::begin), which forms its key and says what is known of
//! it, and written, which makes it known for good. The order in which one branch of the code begins its places
//! is what the journal is held to; see [`Divergence`].

mod error;
mod failure;
mod operation;
mod status;
mod trail;

pub use error::{Divergence, JournalError};
pub use longhaul_core::MAX_ENTRY_BYTES;
pub use status::EntryStatus;
pub use trail::{StepTry, Trail};

use failure::Failed;
pub(crate) use failure::{bounded, failure_value, read_failure, words};
pub(crate) use operation::{EntryDraft, Operation};
pub(crate) use status::EntryDetails;

use longhaul_core::{Entry, EntryKey, EntryKind, Json, UnixMillis};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::Notify;

/// How many entries a task may have.
pub const MAX_ENTRIES: u32 = 10_000;

/// What is known of a task's journal, and how far the code of this attempt has come along it.
pub(crate) struct Journal {
    state: Mutex<State>,
    /// Told when the code diverges.
    diverged: Notify,
}

struct State {
    known: HashMap<EntryKey, Known>,
    branches: HashMap<Arc<str>, Branch>,
    /// Entries that the code has not come to yet, in all branches.
    ahead: usize,
    /// The latest place that was written.
    last: u32,
    /// Whether this attempt has come further than those before it.
    further: bool,
    children: u32,
    failures: Vec<Failed>,
    divergence: Option<Divergence>,
    /// Whether there was no room for something that the code came to.
    overfull: bool,
}

/// An entry, and whether the code has come to it.
struct Known {
    seq: u32,
    value: Json,
}

/// A line of code that does one thing after the other.
#[derive(Default)]
struct Branch {
    /// How many places of each kind and name were begun.
    begun: HashMap<(EntryKind, Arc<str>), u32>,
    /// How often it has forked.
    forks: u32,
    /// By which versions of the code it goes, of those it was asked about.
    versions: HashMap<Arc<str>, bool>,
    /// Places that are begun and not settled.
    open: u32,
    /// Entries that were begun with nothing else open, and that the code has not come to yet. While there are any, it can only come to
    /// what is in the journal.
    ahead: BTreeMap<u32, EntryKey>,
    /// Other entries that it has not come to.
    ahead_beside: BTreeMap<u32, EntryKey>,
    /// The forks that the journal knows entries of, each with its first one.
    forked: BTreeMap<u32, EntryKey>,
    /// The same of entries that were begun with something else open.
    forked_beside: BTreeSet<u32>,
    /// Whether something else was open when it was forked off, in the branch that it comes from: then it stands in no order to that one.
    beside: bool,
    /// Whether it has lost a race: what it had asked and begun is given up.
    abandoned: bool,
}

impl Journal {
    /// What earlier attempts came to, in the order of its places, of a task that was `created` then.
    pub(crate) fn of(entries: Vec<Entry>, created: UnixMillis) -> Arc<Self> {
        let mut state = State {
            known: HashMap::with_capacity(entries.len()),
            branches: HashMap::new(),
            ahead: 0,
            last: 0,
            further: false,
            children: 0,
            failures: Vec::new(),
            divergence: None,
            overfull: false,
        };
        let mut before = created;
        for entry in entries {
            state.last = state.last.max(entry.seq);
            let within = entry.at.since(before);
            before = entry.at;
            match entry.key.kind {
                // Nothing that the code does.
                EntryKind::Failure => {
                    state.failures.extend(Failed::crash(entry, within));
                    continue;
                }
                EntryKind::Child => state.children += 1,
                _ => {}
            }
            state.know_forks(&entry);
            let branch = state.branches.entry(Arc::clone(&entry.key.path)).or_default();
            let ahead = if entry.beside {
                &mut branch.ahead_beside
            } else {
                &mut branch.ahead
            };
            ahead.insert(entry.seq, entry.key.clone());
            state.ahead += 1;
            let known = Known {
                seq: entry.seq,
                value: entry.value,
            };
            state.known.insert(entry.key, known);
        }
        Arc::new(Self {
            state: Mutex::new(state),
            diverged: Notify::new(),
        })
    }

    /// Begins the next place of this kind and name in a branch.
    ///
    /// # Errors
    /// [`JournalError::Diverged`] if the journal says that something else came here.
    pub(crate) fn begin(
        self: &Arc<Self>,
        path: &Arc<str>,
        kind: EntryKind,
        name: &Arc<str>,
    ) -> Result<Operation, JournalError> {
        let mut state = self.lock();
        if let Some(divergence) = &state.divergence {
            return Err(divergence.clone().into());
        }
        let state = &mut *state;
        let branch = state.branches.entry(Arc::clone(path)).or_default();
        let nth = branch.begun.entry((kind, Arc::clone(name))).or_default();
        *nth += 1;
        let key = EntryKey {
            path: Arc::clone(path),
            kind,
            name: Arc::clone(name),
            nth: *nth,
        };
        let found = match state.known.get(&key) {
            Some(known) => {
                let was_ahead = branch
                    .ahead
                    .remove(&known.seq)
                    .or_else(|| branch.ahead_beside.remove(&known.seq));
                state.ahead -= usize::from(was_ahead.is_some());
                Some((known.seq, known.value.clone()))
            }
            None => None,
        };
        if found.is_none()
            && let Some(expected) = branch.expected()
        {
            let divergence = Divergence::Otherwise {
                asked: key,
                expected: expected.clone(),
            };
            state.divergence = Some(divergence.clone());
            self.diverged.notify_one();
            return Err(divergence.into());
        }
        let beside = branch.beside || branch.open > 0;
        branch.open += 1;
        Ok(Operation {
            journal: Arc::clone(self),
            key,
            beside,
            found,
            is_written: false,
        })
    }

    /// The paths of `count` branches of the next fork of a branch.
    pub(crate) fn fork(&self, path: &str, count: usize) -> Vec<Arc<str>> {
        let mut state = self.lock();
        let branch = state.branches.entry(path.into()).or_default();
        let fork = branch.forks;
        branch.forks += 1;
        let beside = branch.beside || branch.open > 0;
        let separator = if path.is_empty() { "" } else { "/" };
        let paths = (0..count).map(|nth| Arc::from(format!("{path}{separator}{fork}.{nth}")));
        let paths: Vec<Arc<str>> = paths.collect();
        if beside {
            for path in &paths {
                state.branches.entry(Arc::clone(path)).or_default().beside = true;
            }
        }
        paths
    }

    /// Whether the code of a branch goes by a version, if that is decided: it does not if the branch was past this point without it.
    pub(crate) fn version(&self, path: &Arc<str>, name: &str) -> Option<bool> {
        let mut state = self.lock();
        let state = &mut *state;
        let branch = state.branches.entry(Arc::clone(path)).or_default();
        if let Some(decided) = branch.versions.get(name) {
            return Some(*decided);
        }
        let key = EntryKey {
            path: Arc::clone(path),
            kind: EntryKind::Version,
            name: name.into(),
            nth: 1,
        };
        if !branch.is_behind() || state.known.contains_key(&key) {
            return None;
        }
        branch.versions.insert(key.name, false);
        Some(false)
    }

    /// Notes by which version a branch goes.
    pub(crate) fn decide_version(&self, path: &str, name: &str, is_new: bool) {
        if let Some(branch) = self.lock().branches.get_mut(path) {
            branch.versions.insert(name.into(), is_new);
        }
    }

    /// Takes all that is ahead in `path`, and in the branches it has forked into, as not to be come to any more, and returns what was known
    /// of it.
    pub(crate) fn abandon(&self, path: &str) -> Vec<(EntryKey, u32, Json)> {
        let mut state = self.lock();
        let state = &mut *state;
        for (_, branch) in state.branches.iter_mut().filter(|(other, _)| is_under(path, other)) {
            state.ahead -= branch.ahead.len() + branch.ahead_beside.len();
            branch.ahead.clear();
            branch.ahead_beside.clear();
            branch.forked.clear();
            branch.forked_beside.clear();
            branch.abandoned = true;
        }
        let known = state.known.iter().filter(|(key, _)| is_under(path, &key.path));
        let mut known: Vec<_> = known
            .map(|(key, known)| (key.clone(), known.seq, known.value.clone()))
            .collect();
        known.sort_by_key(|(_, seq, _)| *seq);
        known
    }

    /// Whether all that a branch had asked and begun is given up already.
    pub(crate) fn is_abandoned(&self, path: &str) -> bool {
        self.lock().branches.get(path).is_some_and(|branch| branch.abandoned)
    }

    /// Whether the code has come to something else than before.
    ///
    /// # Errors
    /// [`Divergence`] if it has.
    pub(crate) fn has_diverged(&self) -> Result<(), Divergence> {
        self.lock().divergence.clone().map_or(Ok(()), Err)
    }

    /// Completes when the code has come to something else than before.
    pub(crate) async fn diverged(&self) -> Divergence {
        loop {
            if let Err(divergence) = self.has_diverged() {
                return divergence;
            }
            self.diverged.notified().await;
        }
    }

    /// The code has come to its end.
    ///
    /// # Errors
    /// [`Divergence`] if it did not follow its journal on the way, or has left entries behind that it never came to, though there was room
    /// for all that it wanted: a race for whose winner there is no entry may be won by another branch the next time.
    pub(crate) fn finish(&self) -> Result<(), Divergence> {
        self.has_diverged()?;
        let state = self.lock();
        if state.overfull {
            return Ok(());
        }
        let branches = state.branches.values();
        let left = branches.flat_map(|branch| branch.ahead.iter().chain(&branch.ahead_beside));
        match left.min_by_key(|(seq, _)| **seq) {
            Some((_, key)) => Err(Divergence::NeverAsked { expected: key.clone() }),
            None => Ok(()),
        }
    }

    /// Whether there is anything in the journal that the code has yet to come to.
    pub(crate) fn is_replayed(&self) -> bool {
        self.lock().ahead > 0
    }

    /// The same of one branch, and those it has forked into: what it says meanwhile was said before.
    pub(crate) fn is_behind(&self, path: &str) -> bool {
        let state = self.lock();
        let mut under = state.branches.iter().filter(|(other, _)| is_under(path, other));
        state.ahead > 0 && under.any(|(_, branch)| branch.is_behind())
    }

    /// The place after the last one that was written.
    pub(crate) fn next(&self) -> u32 {
        self.lock().last + 1
    }

    /// Whether a new entry may have the place `seq`. What was told once that there is none is told so in every attempt: what is written
    /// stays, and no place becomes free again.
    ///
    /// # Errors
    /// [`JournalError::TooManyEntries`].
    pub(crate) fn has_room(&self, seq: u32, key: &EntryKey) -> Result<(), JournalError> {
        if seq <= MAX_ENTRIES {
            return Ok(());
        }
        self.lock().overfull = true;
        Err(JournalError::TooManyEntries { asked: key.clone() })
    }

    /// Notes what was written.
    pub(crate) fn wrote(&self, seq: u32, key: &EntryKey, value: &Json) {
        let mut state = self.lock();
        if seq > state.last {
            state.last = seq;
            state.further = true;
            state.children += u32::from(key.kind == EntryKind::Child);
        }
        let value = value.clone();
        state.known.insert(key.clone(), Known { seq, value });
    }

    /// Notes that [`Event::Advanced`](longhaul_core::Event::Advanced) was written.
    pub(crate) fn advance(&self) {
        self.lock().further = true;
    }

    /// Whether this attempt has come further than those before it, as the task's own count of its attempts has it.
    pub(crate) fn has_advanced(&self) -> bool {
        self.lock().further
    }

    /// How many children were ever started.
    pub(crate) fn children(&self) -> u32 {
        self.lock().children
    }

    /// The entry that was written last, for people.
    pub(crate) fn latest(&self) -> Option<EntryKey> {
        let state = self.lock();
        let latest = state.known.iter().max_by_key(|(_, known)| known.seq);
        latest.map(|(key, _)| key.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Notes for each branch on the way to an entry's which fork of it the way goes through.
    fn know_forks(&mut self, entry: &Entry) {
        for (path, fork) in forks_on_the_way(&entry.key.path) {
            let branch = match self.branches.get_mut(path) {
                Some(branch) => branch,
                None => self.branches.entry(path.into()).or_default(),
            };
            if entry.beside {
                branch.forked_beside.insert(fork);
            } else {
                branch.forked.entry(fork).or_insert_with(|| entry.key.clone());
            }
        }
    }
}

impl Branch {
    /// What the code came to next, if that is certain: what it has begun alone, or in a fork that it has not come to again.
    fn expected(&self) -> Option<&EntryKey> {
        let in_a_fork = self.forked.range(self.forks..).map(|(_, first)| first);
        self.ahead.values().chain(in_a_fork).next()
    }

    /// Whether earlier attempts were further than the code is now: in the branch, or in a fork that it has not come to again.
    fn is_behind(&self) -> bool {
        let forked = self.forked.keys().chain(&self.forked_beside);
        !self.ahead.is_empty() || !self.ahead_beside.is_empty() || forked.max() >= Some(&self.forks)
    }
}

/// The branches above the one at `path`, each with the number of its fork that leads there.
fn forks_on_the_way(path: &str) -> impl Iterator<Item = (&str, u32)> {
    let steps = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    starts.zip(steps).filter_map(|(start, end)| {
        let (fork, _) = path[start..end].split_once('.')?;
        Some((&path[..start.saturating_sub(1)], fork.parse().ok()?))
    })
}

/// Whether a branch is the one at `path`, or one of those that has forked into.
fn is_under(path: &str, branch: &str) -> bool {
    match branch.strip_prefix(path) {
        Some(rest) => path.is_empty() || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}
