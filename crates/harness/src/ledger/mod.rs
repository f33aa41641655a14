//! What servers have acknowledged, and what they have answered since, by all clients of a run.

pub mod caller;
mod history;

use crate::{
    clock,
    mcp::CallOutcome,
    rounds::violation::{Invariant, Violation},
};
use fastrand::Rng;
use history::{Observation, TaskHistory};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

/// Clients use only this many of the newest tasks.
const NEWEST: usize = 60;

/// A call, as the client knows it that has made it.
pub trait LedgerCall: Clone {
    /// It names the call.
    fn token(&self) -> &str;

    /// Whether this may be its result.
    fn may_end_as(&self, outcome: &CallOutcome) -> bool;
}

/// An acknowledged task.
#[derive(Debug, Clone)]
pub struct LedgerEntry<C> {
    pub call: C,
    /// Set when it was seen first.
    pub outcome: Option<CallOutcome>,
    /// Whether a request to cancel it was sent, answered or not.
    pub is_cancel_sent: bool,
}

/// The record that all clients of a run share.
pub struct Ledger<C>(Mutex<Records<C>>);

struct Records<C> {
    entries: HashMap<String, LedgerEntry<C>>,
    histories: HashMap<String, TaskHistory>,
    /// In the order of their acknowledgements; without those whose deletion was requested.
    order: Vec<String>,
    /// Tasks that have ended since the last call of `due`.
    newly_ended: Vec<String>,
    open: usize,
    /// The task of each idempotency key.
    keys: HashMap<String, String>,
    /// Tasks whose deletion was requested, and whether it was acknowledged.
    deleted: BTreeMap<String, bool>,
    violations: Vec<Violation>,
    counts: BTreeMap<&'static str, usize>,
}

impl<C> Default for Ledger<C> {
    fn default() -> Self {
        Self(Mutex::new(Records {
            entries: HashMap::new(),
            histories: HashMap::new(),
            order: Vec::new(),
            newly_ended: Vec::new(),
            open: 0,
            keys: HashMap::new(),
            deleted: BTreeMap::new(),
            violations: Vec::new(),
            counts: BTreeMap::new(),
        }))
    }
}

impl<C: LedgerCall> Ledger<C> {
    fn records(&self) -> MutexGuard<'_, Records<C>> {
        self.0.lock()
    }

    /// A task was acknowledged by a request that began then. One key has one task, however often its call is made.
    pub(crate) fn record_acknowledged(&self, task: &str, call: C, key: &str, began: Instant) {
        let mut records = self.records();
        let known = records.keys.entry(key.to_owned()).or_insert_with(|| task.to_owned());
        if known != task {
            let what = format!("the call {key} has the tasks {known} and {task}");
            records.violations.push(Invariant::NOTHING_LOST.violated(what));
        }
        if !records.entries.contains_key(task) {
            records.order.push(task.to_owned());
            records.open += 1;
            let entry = LedgerEntry {
                call,
                outcome: None,
                is_cancel_sent: false,
            };
            records.entries.insert(task.to_owned(), entry);
        }
        drop(records);
        self.observe(task, "tools/call", Observation::EXISTS, began);
    }

    /// An answer about a task, which has just come, to a request that began then.
    pub(crate) fn observe(&self, task: &str, by: &'static str, seen: Observation, began: Instant) {
        let mut records = self.records();
        *records.counts.entry("answers checked").or_default() += 1;
        let history = records.histories.entry(task.to_owned()).or_default();
        history.record(by, seen, (began, clock::now()));
    }

    /// A task has ended.
    pub(crate) fn record_end(&self, task: &str, outcome: CallOutcome) -> Observation {
        let seen = Observation::ended(&outcome);
        let mut records = self.records();
        let Some(entry) = records.entries.get_mut(task) else {
            return seen;
        };
        let is_right = match &outcome {
            CallOutcome::Cancelled => entry.is_cancel_sent,
            outcome => entry.call.may_end_as(outcome),
        };
        let what = (!is_right).then(|| {
            let shown: String = format!("{outcome:?}").chars().take(300).collect();
            format!("task {task} of call {} ended as {shown}", entry.call.token())
        });
        if entry.outcome.replace(outcome).is_none() {
            records.newly_ended.push(task.to_owned());
            records.open -= 1;
        }
        records
            .violations
            .extend(what.map(|what| Invariant::OWN_RESULT.violated(what)));
        seen
    }

    pub(crate) fn record_cancel_sent(&self, task: &str) {
        if let Some(entry) = self.records().entries.get_mut(task) {
            entry.is_cancel_sent = true;
        }
    }

    /// Before a request to delete a task: from now on it may be gone. `false` if it has not ended, or another client has requested it.
    pub(crate) fn record_delete_sent(&self, task: &str) -> bool {
        let mut records = self.records();
        let has_ended = records.entries.get(task).is_some_and(|entry| entry.outcome.is_some());
        if !has_ended || records.deleted.contains_key(task) {
            return false;
        }
        records.deleted.insert(task.to_owned(), false);
        records.order.retain(|known| known != task);
        true
    }

    pub(crate) fn record_delete_acknowledged(&self, task: &str) {
        self.records().deleted.insert(task.to_owned(), true);
    }

    /// The server has not deleted it.
    pub(crate) fn record_delete_refused(&self, task: &str) {
        let mut records = self.records();
        records.deleted.remove(task);
        records.order.push(task.to_owned());
    }

    /// Whether the task may be gone.
    pub(crate) fn may_be_deleted(&self, task: &str) -> bool {
        self.records().deleted.contains_key(task)
    }

    /// Every task whose deletion was requested, and whether it was acknowledged.
    pub fn deleted(&self) -> Vec<(String, bool)> {
        let records = self.records();
        records
            .deleted
            .iter()
            .map(|(task, done)| (task.clone(), *done))
            .collect()
    }

    /// Something was wrong.
    pub fn report(&self, violation: Violation) {
        self.records().violations.push(violation);
    }

    /// What was wrong since the last call, and the tasks whose answers have no order that explains them.
    pub fn violations(&self) -> Vec<Violation> {
        let mut records = self.records();
        let Records {
            violations, histories, ..
        } = &mut *records;
        let mut found = std::mem::take(violations);
        found.extend(histories.iter_mut().filter_map(|(task, history)| history.check(task)));
        found
    }

    /// Something has happened once more.
    pub fn count(&self, what: &'static str) {
        *self.records().counts.entry(what).or_default() += 1;
    }

    /// How often something has happened.
    pub fn counted(&self, what: &str) -> usize {
        self.records().counts.get(what).copied().unwrap_or_default()
    }

    pub fn entry(&self, task: &str) -> Option<LedgerEntry<C>> {
        self.records().entries.get(task).cloned()
    }

    /// Every task, oldest first, but those whose deletion was requested.
    pub fn tasks(&self) -> Vec<String> {
        self.records().order.clone()
    }

    /// Those that have not been seen to end.
    pub fn open_tasks(&self) -> Vec<String> {
        let records = self.records();
        let open = records
            .order
            .iter()
            .filter(|task| records.entries[*task].outcome.is_none());
        open.cloned().collect()
    }

    /// How many tasks have been acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.records().entries.len()
    }

    /// How many tasks have not been seen to end.
    pub fn open(&self) -> usize {
        self.records().open
    }

    /// One of the newest tasks.
    pub fn pick(&self, rng: &mut Rng) -> Option<String> {
        self.pick_of(rng, |_| true)
    }

    /// One of the newest tasks that are like this.
    pub fn pick_of(&self, rng: &mut Rng, is_like_it: impl Fn(&LedgerEntry<C>) -> bool) -> Option<String> {
        let records = self.records();
        let newest = records.order.iter().rev().take(NEWEST);
        let fitting: Vec<&String> = newest.filter(|task| is_like_it(&records.entries[*task])).collect();
        rng.choice(fitting).cloned()
    }

    /// The tasks to poll after a restart: the open ones, those that ended since the last call, and `old` random ones.
    pub fn due(&self, rng: &mut Rng, old: usize) -> Vec<String> {
        let mut due = self.open_tasks();
        let mut records = self.records();
        let ended = std::mem::take(&mut records.newly_ended);
        due.extend(ended.into_iter().filter(|task| !records.deleted.contains_key(task)));
        if !records.order.is_empty() {
            due.extend((0..old).map(|_| records.order[rng.usize(..records.order.len())].clone()));
        }
        due.sort_unstable();
        due.dedup();
        due
    }

    /// A violation for each task that has not ended, though it should have.
    pub fn unended(&self) -> Vec<Violation> {
        let never = |task: String| Invariant::ENDS.violated(format!("task {task} has not ended in time"));
        self.open_tasks().into_iter().map(never).collect()
    }
}
