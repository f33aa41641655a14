//! What the server has acknowledged, and the states that it has returned since.

use super::{kind::Kind, violation::Violation};
use crate::mcp::{Outcome, TaskState};
use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};

/// Clients use only this many of the newest tasks.
const NEWEST: usize = 60;

/// An acknowledged task.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) token: String,
    /// Set when it was seen first.
    pub(crate) outcome: Option<Outcome>,
    /// Whether a request to cancel it was sent, answered or not.
    pub(crate) cancel_sent: bool,
}

/// The record that all clients of a run share.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Records>);

#[derive(Default)]
struct Records {
    entries: HashMap<String, Entry>,
    /// In the order of their acknowledgements.
    order: Vec<String>,
    /// Tasks that have ended since the last call of `due`.
    newly_ended: Vec<String>,
    open: usize,
    /// Tasks whose cancellation was acknowledged.
    cancelled: HashSet<String>,
    /// Tasks whose deletion was requested, and whether it was acknowledged. They are not in `order` any more.
    deleted: HashMap<String, bool>,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Records> {
        self.0.lock()
    }

    pub(crate) fn record_acknowledged(&self, task: String, kind: Kind, token: String) {
        let mut book = self.book();
        book.order.push(task.clone());
        book.open += 1;
        book.entries.insert(
            task,
            Entry {
                kind,
                token,
                outcome: None,
                cancel_sent: false,
            },
        );
    }

    pub(crate) fn entry(&self, task: &str) -> Option<Entry> {
        self.book().entries.get(task).cloned()
    }

    /// Every task, oldest first.
    pub(crate) fn tasks(&self) -> Vec<String> {
        self.book().order.clone()
    }

    /// How many tasks have been acknowledged.
    pub(crate) fn count(&self) -> usize {
        let book = self.book();
        book.order.len() + book.deleted.len()
    }

    /// How many tasks have not been seen to end.
    pub(crate) fn open(&self) -> usize {
        self.book().open
    }

    /// How many cancellations have been acknowledged.
    pub(super) fn cancelled(&self) -> usize {
        self.book().cancelled.len()
    }

    /// One of the newest tasks.
    pub(crate) fn pick(&self, rng: &mut Rng) -> Option<String> {
        let book = self.book();
        let newest = &book.order[book.order.len().saturating_sub(NEWEST)..];
        (!newest.is_empty()).then(|| newest[rng.usize(..newest.len())].clone())
    }

    /// The tasks to poll after a restart: the open ones, those that ended since the last call, and `old` random ones.
    pub(super) fn due(&self, rng: &mut Rng, old: usize) -> Vec<String> {
        let mut book = self.book();
        let mut due = std::mem::take(&mut book.newly_ended);
        due.retain(|task| !book.deleted.contains_key(task));
        due.extend(
            book.order
                .iter()
                .filter(|task| book.entries[*task].outcome.is_none())
                .cloned(),
        );
        if !book.order.is_empty() {
            due.extend((0..old).map(|_| book.order[rng.usize(..book.order.len())].clone()));
        }
        due.sort_unstable();
        due.dedup();
        due
    }

    pub(crate) fn record_cancel_sent(&self, task: &str) {
        if let Some(entry) = self.book().entries.get_mut(task) {
            entry.cancel_sent = true;
        }
    }

    pub(super) fn record_cancel_acknowledged(&self, task: &str) {
        self.book().cancelled.insert(task.to_owned());
    }

    /// Before a request to delete a task that has ended: from now on it may be gone. `false` if another client has requested it.
    pub(super) fn record_delete_sent(&self, task: &str) -> bool {
        let mut book = self.book();
        let is_new = book.deleted.insert(task.to_owned(), false).is_none();
        book.order.retain(|known| known != task);
        is_new
    }

    pub(super) fn record_delete_acknowledged(&self, task: &str) {
        self.book().deleted.insert(task.to_owned(), true);
    }

    /// The server does not delete tasks.
    pub(super) fn record_delete_refused(&self, task: &str) {
        let mut book = self.book();
        book.deleted.remove(task);
        book.order.push(task.to_owned());
    }

    /// Whether the task may be gone.
    pub(super) fn may_be_deleted(&self, task: &str) -> bool {
        self.book().deleted.contains_key(task)
    }

    /// Every task whose deletion was requested, and whether it was acknowledged.
    pub(super) fn deleted(&self) -> Vec<(String, bool)> {
        let book = self.book();
        book.deleted.iter().map(|(task, done)| (task.clone(), *done)).collect()
    }

    /// Records and checks the result of `tasks/get`. `before` is the outcome that was known before the request; one that became known
    /// during the request is not expected.
    pub(super) fn record_state(&self, task: &str, before: Option<Outcome>, state: TaskState) -> Result<(), Violation> {
        match (state, before) {
            (TaskState::Ended(outcome), _) => self.record_end(task, outcome),
            (TaskState::EndedStatus(status), Some(was)) if status != legacy_status(&was) => Err(Violation::Changed {
                task: task.to_owned(),
                was,
                now: status,
            }),
            (TaskState::Live | TaskState::Asks(_), Some(was)) => Err(Violation::Changed {
                task: task.to_owned(),
                was,
                now: "that it is working".to_owned(),
            }),
            (TaskState::Live | TaskState::Asks(_) | TaskState::EndedStatus(_), _) => Ok(()),
        }
    }

    /// Records and checks the outcome of a task, which must not change.
    pub(crate) fn record_end(&self, task: &str, outcome: Outcome) -> Result<(), Violation> {
        let mut book = self.book();
        let Some(entry) = book.entries.get_mut(task) else {
            return Ok(());
        };
        match &entry.outcome {
            Some(was) if *was != outcome => Err(Violation::Changed {
                task: task.to_owned(),
                was: was.clone(),
                now: format!("{outcome:?}"),
            }),
            Some(_) => Ok(()),
            None => {
                entry.outcome = Some(outcome);
                book.newly_ended.push(task.to_owned());
                book.open -= 1;
                Ok(())
            }
        }
    }
}

/// The status for a legacy client.
fn legacy_status(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Cancelled => "cancelled",
        Outcome::Result { is_error: false, .. } => "completed",
        Outcome::Result { is_error: true, .. } | Outcome::Error { .. } => "failed",
    }
}
