//! The journal of a durable task: the recorded results of its operations, by which its code is replayed.
//!
//! An operation [begins](Journal::begin) by forming its key and looking it up, and is recorded when it has a result. Code that begins other
//! operations than its journal has, in a branch where their order is fixed, has diverged; see [`Divergence`].

mod error;
mod failed_step_attempts;
mod failure;
mod operation;
mod status;

pub use error::{Divergence, JournalError};
pub use failed_step_attempts::{FailedStepAttempt, FailedStepAttempts};
pub use longhaul_core::MAX_ENTRY_BYTES;
pub use status::EntryStatus;

use failure::RecordedFailure;
pub(crate) use failure::{beginning_of, failure_value, message_of, read_failure};
pub(crate) use operation::{EntryDraft, Operation};
pub(crate) use status::EntryDetails;

use longhaul_core::{Entry, EntryKey, EntryKind, Json, UnixMillis};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::Notify;

/// How many entries a task may have.
pub const MAX_ENTRIES: u32 = 10_000;

/// A task's journal, and how far the code of this attempt has been replayed.
pub(crate) struct Journal {
    state: Mutex<JournalState>,
    /// Notified when the code diverges.
    diverged: Notify,
}

struct JournalState {
    known: HashMap<EntryKey, KnownEntry>,
    branches: HashMap<Arc<str>, Branch>,
    /// The number of entries that replay has not reached yet, in all branches.
    unreached: usize,
    /// The position of the last entry.
    last: u32,
    /// Whether this attempt has made forward progress.
    advanced: bool,
    children: u32,
    failures: Vec<RecordedFailure>,
    divergence: Option<Divergence>,
    /// Whether an operation was refused because the journal is full.
    was_full: bool,
}

/// A recorded entry.
struct KnownEntry {
    seq: u32,
    value: Json,
}

/// A branch of the code, which does one thing after the other.
#[derive(Default)]
struct Branch {
    /// How many operations of each kind and name have begun.
    begun: HashMap<(EntryKind, Arc<str>), u32>,
    /// How often it has forked.
    forks: u32,
    /// The versions that were asked for, and whether the branch runs them.
    versions: HashMap<Arc<str>, bool>,
    /// How many operations are open.
    open: u32,
    /// Unreached entries whose operations began while no other one was open. While there are any, the code may begin only what the journal has.
    unreached: BTreeMap<u32, EntryKey>,
    /// The other unreached entries.
    unreached_concurrent: BTreeMap<u32, EntryKey>,
    /// The forks that have entries, each with its first one.
    forked: BTreeMap<u32, EntryKey>,
    /// The forks that have entries of operations that began while another one was open.
    forked_concurrent: BTreeSet<u32>,
    /// Whether an operation was open when this branch was forked off: then the two have no fixed order.
    concurrent: bool,
    /// Whether it has lost a race.
    abandoned: bool,
}

impl Journal {
    /// The journal of a task that was `created` then, with the entries of earlier attempts in order.
    pub(crate) fn of(entries: Vec<Entry>, created: UnixMillis) -> Arc<Self> {
        let mut state = JournalState {
            known: HashMap::with_capacity(entries.len()),
            branches: HashMap::new(),
            unreached: 0,
            last: 0,
            advanced: false,
            children: 0,
            failures: Vec::new(),
            divergence: None,
            was_full: false,
        };
        let mut before = created;
        for entry in entries {
            state.last = state.last.max(entry.seq);
            let within = entry.at.since(before);
            before = entry.at;
            match entry.key.kind {
                // No operation of the code.
                EntryKind::Failure => {
                    state.failures.extend(RecordedFailure::of_crash(entry, within));
                    continue;
                }
                EntryKind::Child => state.children += 1,
                _ => {}
            }
            state.know_forks(&entry);
            let branch = state.branches.entry(Arc::clone(&entry.key.path)).or_default();
            let unreached = if entry.beside {
                &mut branch.unreached_concurrent
            } else {
                &mut branch.unreached
            };
            unreached.insert(entry.seq, entry.key.clone());
            state.unreached += 1;
            let known = KnownEntry {
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

    /// Begins the next operation of this kind and name in a branch.
    ///
    /// # Errors
    /// [`JournalError::Diverged`] if the journal has another operation next.
    pub(crate) fn begin(
        self: &Arc<Self>,
        path: &Arc<str>,
        kind: EntryKind,
        name: &Arc<str>,
    ) -> Result<Operation, JournalError> {
        let mut state = self.state.lock();
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
                let was_unreached = branch
                    .unreached
                    .remove(&known.seq)
                    .or_else(|| branch.unreached_concurrent.remove(&known.seq));
                state.unreached -= usize::from(was_unreached.is_some());
                Some((known.seq, known.value.clone()))
            }
            None => None,
        };
        if found.is_none()
            && let Some(expected) = branch.expected()
        {
            let divergence = Divergence::Mismatch {
                asked: key,
                expected: expected.clone(),
            };
            state.divergence = Some(divergence.clone());
            self.diverged.notify_one();
            return Err(divergence.into());
        }
        let beside = branch.concurrent || branch.open > 0;
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
        let mut state = self.state.lock();
        let branch = state.branches.entry(path.into()).or_default();
        let fork = branch.forks;
        branch.forks += 1;
        let beside = branch.concurrent || branch.open > 0;
        let separator = if path.is_empty() { "" } else { "/" };
        let paths = (0..count).map(|nth| Arc::from(format!("{path}{separator}{fork}.{nth}")));
        let paths: Vec<Arc<str>> = paths.collect();
        if beside {
            for path in &paths {
                state.branches.entry(Arc::clone(path)).or_default().concurrent = true;
            }
        }
        paths
    }

    /// Whether a branch runs a version of the code, if that is decided: it does not if it had passed this point without it.
    pub(crate) fn version(&self, path: &Arc<str>, name: &str) -> Option<bool> {
        let mut state = self.state.lock();
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
        if !branch.is_replaying() || state.known.contains_key(&key) {
            return None;
        }
        branch.versions.insert(key.name, false);
        Some(false)
    }

    /// Notes whether a branch runs a version.
    pub(crate) fn decide_version(&self, path: &str, name: &str, is_new: bool) {
        if let Some(branch) = self.state.lock().branches.get_mut(path) {
            branch.versions.insert(name.into(), is_new);
        }
    }

    /// Stops expecting the unreached entries of a branch and of those forked from it, and returns all of their entries.
    pub(crate) fn abandon(&self, path: &str) -> Vec<(EntryKey, u32, Json)> {
        let mut state = self.state.lock();
        let state = &mut *state;
        for (_, branch) in state
            .branches
            .iter_mut()
            .filter(|(other, _)| is_same_or_below(path, other))
        {
            state.unreached -= branch.unreached.len() + branch.unreached_concurrent.len();
            branch.unreached.clear();
            branch.unreached_concurrent.clear();
            branch.forked.clear();
            branch.forked_concurrent.clear();
            branch.abandoned = true;
        }
        let known = state.known.iter().filter(|(key, _)| is_same_or_below(path, &key.path));
        let mut known: Vec<_> = known
            .map(|(key, known)| (key.clone(), known.seq, known.value.clone()))
            .collect();
        known.sort_by_key(|(_, seq, _)| *seq);
        known
    }

    /// Whether a branch was [abandoned](Self::abandon).
    pub(crate) fn is_abandoned(&self, path: &str) -> bool {
        self.state
            .lock()
            .branches
            .get(path)
            .is_some_and(|branch| branch.abandoned)
    }

    /// Whether the code has diverged.
    ///
    /// # Errors
    /// [`Divergence`], if it has.
    pub(crate) fn has_diverged(&self) -> Result<(), Divergence> {
        self.state.lock().divergence.clone().map_or(Ok(()), Err)
    }

    /// Completes when the code diverges.
    pub(crate) async fn diverged(&self) -> Divergence {
        loop {
            if let Err(divergence) = self.has_diverged() {
                return divergence;
            }
            self.diverged.notified().await;
        }
    }

    /// Checks, at the end of the code, that replay has reached every entry.
    ///
    /// # Errors
    /// [`Divergence`] if the code has diverged, or has not reached an entry. The latter is allowed if the journal was full: a race whose winner
    /// could not be recorded may be won by another branch in a replay.
    pub(crate) fn finish(&self) -> Result<(), Divergence> {
        self.has_diverged()?;
        let state = self.state.lock();
        if state.was_full {
            return Ok(());
        }
        let branches = state.branches.values();
        let left = branches.flat_map(|branch| branch.unreached.iter().chain(&branch.unreached_concurrent));
        match left.min_by_key(|(seq, _)| **seq) {
            Some((_, key)) => Err(Divergence::NotReached { expected: key.clone() }),
            None => Ok(()),
        }
    }

    /// Whether any branch is being replayed.
    pub(crate) fn is_replaying(&self) -> bool {
        self.state.lock().unreached > 0
    }

    /// Whether a branch, or one forked from it, is being replayed.
    pub(crate) fn is_branch_replaying(&self, path: &str) -> bool {
        let state = self.state.lock();
        let mut under = state.branches.iter().filter(|(other, _)| is_same_or_below(path, other));
        state.unreached > 0 && under.any(|(_, branch)| branch.is_replaying())
    }

    /// The position of the next entry.
    pub(crate) fn next(&self) -> u32 {
        self.state.lock().last + 1
    }

    /// Whether the journal has room for a new entry at position `seq`. Entries are never removed, so an operation that was refused once is
    /// refused in every replay.
    ///
    /// # Errors
    /// [`JournalError::TooManyEntries`].
    pub(crate) fn has_room(&self, seq: u32, key: &EntryKey) -> Result<(), JournalError> {
        if seq <= MAX_ENTRIES {
            return Ok(());
        }
        self.state.lock().was_full = true;
        Err(JournalError::TooManyEntries { asked: key.clone() })
    }

    /// Notes an entry that was written.
    pub(crate) fn wrote(&self, seq: u32, key: &EntryKey, value: &Json) {
        let mut state = self.state.lock();
        if seq > state.last {
            state.last = seq;
            state.advanced = true;
            state.children += u32::from(key.kind == EntryKind::Child);
        }
        let value = value.clone();
        state.known.insert(key.clone(), KnownEntry { seq, value });
    }

    /// Notes that [`Event::Advanced`](longhaul_core::Event::Advanced) was written.
    pub(crate) fn advance(&self) {
        self.state.lock().advanced = true;
    }

    /// Whether this attempt has made forward progress, as the task's count of attempts has it.
    pub(crate) fn has_advanced(&self) -> bool {
        self.state.lock().advanced
    }

    /// How many children the task has ever started.
    pub(crate) fn children(&self) -> u32 {
        self.state.lock().children
    }

    /// The key of the last entry, for error messages.
    pub(crate) fn latest(&self) -> Option<EntryKey> {
        let state = self.state.lock();
        let latest = state.known.iter().max_by_key(|(_, known)| known.seq);
        latest.map(|(key, _)| key.clone())
    }
}

impl JournalState {
    /// Notes the forks that lead to an entry's branch.
    fn know_forks(&mut self, entry: &Entry) {
        for (path, fork) in forks_on_the_way(&entry.key.path) {
            let branch = match self.branches.get_mut(path) {
                Some(branch) => branch,
                None => self.branches.entry(path.into()).or_default(),
            };
            if entry.beside {
                branch.forked_concurrent.insert(fork);
            } else {
                branch.forked.entry(fork).or_insert_with(|| entry.key.clone());
            }
        }
    }
}

impl Branch {
    /// The entry that must be reached next, if the order is fixed: one of this branch, or of a fork that replay has not reached.
    fn expected(&self) -> Option<&EntryKey> {
        let in_a_fork = self.forked.range(self.forks..).map(|(_, first)| first);
        self.unreached.values().chain(in_a_fork).next()
    }

    /// Whether there are unreached entries in this branch, or in a fork that replay has not reached.
    fn is_replaying(&self) -> bool {
        let forked = self.forked.keys().chain(&self.forked_concurrent);
        !self.unreached.is_empty() || !self.unreached_concurrent.is_empty() || forked.max() >= Some(&self.forks)
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

/// Whether `branch` is the one at `path`, or was forked from it.
fn is_same_or_below(path: &str, branch: &str) -> bool {
    match branch.strip_prefix(path) {
        Some(rest) => path.is_empty() || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}
