//! What the server has acknowledged, and what it has shown since. This is what it is held to.

use super::{kind::Kind, violation::Violation};
use crate::mcp::{Outcome, TaskState};
use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};

/// Clients act on tasks as young as the newest of this many.
const YOUNG: usize = 60;

/// An acknowledged task.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) token: String,
    /// As soon as it was seen once.
    pub(super) outcome: Option<Outcome>,
    /// A request to cancel it was sent, answered or not.
    pub(super) cancel_sent: bool,
}

/// Shared by all clients of a run.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    entries: HashMap<String, Entry>,
    /// In the order of their acknowledgements.
    order: Vec<String>,
    /// Ended since somebody asked.
    settled: Vec<String>,
    open: usize,
    /// A request to cancel them was acknowledged.
    cancelled: HashSet<String>,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock()
    }

    pub(super) fn acknowledged(&self, task: String, kind: Kind, token: String) {
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

    pub(super) fn entry(&self, task: &str) -> Option<Entry> {
        self.book().entries.get(task).cloned()
    }

    /// Every task, oldest first.
    pub(super) fn tasks(&self) -> Vec<String> {
        self.book().order.clone()
    }

    /// How many have been acknowledged.
    pub(super) fn count(&self) -> usize {
        self.book().order.len()
    }

    /// How many have not been seen to end.
    pub(super) fn open(&self) -> usize {
        self.book().open
    }

    /// Of how many tasks a request to cancel has been acknowledged.
    pub(super) fn cancelled(&self) -> usize {
        self.book().cancelled.len()
    }

    /// One of the youngest.
    pub(super) fn pick(&self, rng: &mut Rng) -> Option<String> {
        let book = self.book();
        let young = &book.order[book.order.len().saturating_sub(YOUNG)..];
        (!young.is_empty()).then(|| young[rng.usize(..young.len())].clone())
    }

    /// Those to look at after a restart: all that are open, all that ended since the last time, and some that ended long ago.
    pub(super) fn due(&self, rng: &mut Rng, old: usize) -> Vec<String> {
        let mut book = self.book();
        let mut due = std::mem::take(&mut book.settled);
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

    pub(super) fn cancel_is_sent(&self, task: &str) {
        if let Some(entry) = self.book().entries.get_mut(task) {
            entry.cancel_sent = true;
        }
    }

    pub(super) fn cancel_is_acknowledged(&self, task: &str) {
        self.book().cancelled.insert(task.to_owned());
    }

    /// Notes what `tasks/get` showed. `before` is what was known when it was asked: what became known meanwhile is no reason to
    /// expect it.
    pub(super) fn shown(&self, task: &str, before: Option<Outcome>, look: TaskState) -> Result<(), Violation> {
        match (look, before) {
            (TaskState::Ended(outcome), _) => self.ended(task, outcome),
            (TaskState::EndedStatus(status), Some(was)) if status != legacy_status(&was) => Err(Violation::Changed {
                task: task.to_owned(),
                was,
                now: status,
            }),
            (TaskState::Live, Some(was)) => Err(Violation::Changed {
                task: task.to_owned(),
                was,
                now: "that it is working".to_owned(),
            }),
            (TaskState::Live | TaskState::EndedStatus(_), _) => Ok(()),
        }
    }

    /// Notes how a task ended. It can end only once.
    pub(super) fn ended(&self, task: &str, outcome: Outcome) -> Result<(), Violation> {
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
                book.settled.push(task.to_owned());
                book.open -= 1;
                Ok(())
            }
        }
    }
}

/// As a legacy client must see it (G1-19).
fn legacy_status(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Cancelled => "cancelled",
        Outcome::Result { is_error: false, .. } => "completed",
        Outcome::Result { is_error: true, .. } | Outcome::Error { .. } => "failed",
    }
}
