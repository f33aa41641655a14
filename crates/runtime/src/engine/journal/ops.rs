//! What the operations of the journal have in common: a place is begun, waited at, and settled.

use super::{
    Draft, JournalError, MAX_ENTRY_BYTES, Operation, Pending, Told, Written, step,
    writer::{EntryDraft, WriteError},
};
use crate::{
    TaskContext,
    suspension::{ActivityChange, Wait},
};
use longhaul_core::{EntryKey, EntryKind, Json, store::ApplyError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::sync::Arc;
use tokio::sync::oneshot;

impl TaskContext {
    pub(crate) fn begin(&self, kind: EntryKind, name: &Arc<str>) -> Result<Operation, JournalError> {
        let journal = self.shared.journal.as_ref().ok_or(JournalError::None)?;
        // Both before it counts: in another attempt this may not be come to at all.
        if let Some(step) = step::under_way() {
            let asked = EntryKey {
                path: Arc::clone(&self.path),
                kind,
                name: Arc::clone(name),
                nth: 1,
            };
            return Err(JournalError::InsideStep { asked, step });
        }
        self.is_its_own()?;
        let place = journal.begin(&self.path, kind, name)?;
        if place.found.is_some() {
            self.note_replayed();
        }
        match self.stop_requested() {
            // What is known is known; new work is not begun.
            Some(reason) if place.found.is_none() => Err(JournalError::Stopped(reason)),
            _ => Ok(place),
        }
    }

    /// What several branches share cannot tell them apart: which of them comes first may be another the next time.
    fn is_its_own(&self) -> Result<(), JournalError> {
        match self.shared.activity.has_forked(&self.path) {
            true => Err(JournalError::Forked),
            false => Ok(()),
        }
    }

    /// Writes what a place came to, or has come to by now.
    pub(crate) async fn settle(&self, place: &mut Operation, value: Json) -> Result<(), JournalError> {
        let draft = place.draft(value.clone())?;
        let Written { seq, .. } = self.write(Draft::Entry(draft)).await?;
        place.written(seq, value);
        Ok(())
    }

    /// Has something written, and waits until it is.
    pub(crate) async fn write(&self, draft: Draft) -> Result<Written, WriteError> {
        // While it is written the branch goes on, though by other hands.
        let working = self.works();
        let begun = draft.begun();
        let receiver = self.hand_in(draft).ok_or(WriteError::Apply(ApplyError::Stale))?;
        let told = Told {
            cx: self,
            begun,
            receiver,
        };
        let written = told.written().await;
        drop(working);
        written
    }

    /// Has something written; `None` if the attempt is over, as it is once its code has diverged.
    pub(crate) fn hand_in(&self, draft: Draft) -> Option<oneshot::Receiver<Result<Written, WriteError>>> {
        if self.has_diverged() {
            return None;
        }
        let (tell, told) = oneshot::channel();
        self.drafts().as_mut()?.push(Pending { draft, tell });
        self.shared.drafted.notify_one();
        Some(told)
    }

    /// Begins to wait for something. With the last of its branches the whole attempt waits: its slot is free then.
    pub(crate) fn wait(&self, wait: Wait) -> Waiting {
        let (id, change) = self.shared.activity.wait(&self.path, wait);
        self.turned(change);
        Waiting { cx: self.clone(), id }
    }

    /// Goes on after a wait, with a slot, which all of the code may have to wait for.
    pub(crate) async fn go_on(&self, waiting: Waiting) -> Result<(), JournalError> {
        let _turn = self.shared.returning.lock().await;
        if self.is_waiting() {
            let slots = &self.shared.inner.slots;
            let slot = tokio::select! {
                biased;
                reason = self.stopped() => return Err(JournalError::Stopped(reason)),
                slot = slots.take_back(&self.shared.tool, self.shared.concurrency) => slot,
            };
            self.hold(slot);
        }
        drop(waiting);
        Ok(())
    }

    /// Says that the branch does something until this is dropped, whatever else it waits for.
    pub(crate) fn works(&self) -> Working {
        let change = self.shared.activity.work(&self.path);
        self.turned(change);
        Working { cx: self.clone() }
    }

    pub(crate) fn turned(&self, change: ActivityChange) {
        match change {
            ActivityChange::AllWait => self.begin_waiting(),
            ActivityChange::Resumed => self.end_waiting(),
            ActivityChange::None => {}
        }
    }

    /// Tells whoever watches that a step's effect may happen now.
    pub(super) fn step_observer(&self, key: &EntryKey) {
        if let Some(step_observer) = &self.shared.inner.step_observer {
            step_observer.step_begins(&self.shared.task, self.shared.fence, key);
        }
    }

    /// Forks into `count` branches, none of which has begun.
    ///
    /// # Errors
    /// [`JournalError::None`], [`JournalError::Forked`].
    pub fn fork(&self, count: usize) -> Result<Fork, JournalError> {
        let journal = self.shared.journal.as_ref().ok_or(JournalError::None)?;
        self.is_its_own()?;
        Ok(Fork {
            trunk: self.clone(),
            paths: journal.fork(&self.path, count),
        })
    }
}

/// Branches of the code that run beside each other; made by [`TaskContext::fork`]. The branch that has forked waits for all that have
/// begun until they are over, or this is dropped.
pub struct Fork {
    trunk: TaskContext,
    paths: Vec<Arc<str>>,
}

impl Fork {
    /// Begins a branch; `None` if there is none of this number. To be called once for each, and before another's [`over`](Self::over)
    /// which it takes the place of.
    pub fn begin(&self, nth: usize) -> Option<TaskContext> {
        let path = self.paths.get(nth)?;
        let change = self.trunk.shared.activity.fork(&self.trunk.path, path);
        self.trunk.turned(change);
        Some(self.branch(path))
    }

    /// Says that a branch has come to its end: it is not waited for any more.
    pub fn over(&self, nth: usize) {
        if let Some(path) = self.paths.get(nth) {
            self.end(std::slice::from_ref(path));
        }
    }

    fn end(&self, paths: &[Arc<str>]) {
        let change = self.trunk.shared.activity.over(&self.trunk.path, paths);
        self.trunk.turned(change);
    }

    fn branch(&self, path: &Arc<str>) -> TaskContext {
        TaskContext {
            shared: Arc::clone(&self.trunk.shared),
            path: Arc::clone(path),
        }
    }

    /// Which branch won, if that was decided before.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn winner(&self) -> Result<Race, JournalError> {
        let place = self.trunk.begin(EntryKind::Select, &Arc::from(""))?;
        let winner = match &place.found {
            Some((_, value)) => Some(place.read::<Decided>(value)?.nth()),
            None => None,
        };
        Ok(Race {
            place,
            winner,
            is_join: false,
        })
    }

    /// As [`winner`](Self::winner), for branches that are all waited for unless one fails: the history calls it a join.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn first_failed(&self) -> Result<Race, JournalError> {
        let race = self.winner()?;
        Ok(Race { is_join: true, ..race })
    }

    /// Writes down that branch `nth` won, and gives up what the others wait for: their questions are withdrawn, their children cancelled.
    /// A number beyond the branches says that none did, and nothing is given up.
    ///
    /// Their futures are to be dropped after this, not before: what they give up while nothing is decided yet could win the race in the
    /// next attempt.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn decide(&self, mut race: Race, nth: usize) -> Result<(), JournalError> {
        if race.winner.is_none() {
            let decided = match race.is_join {
                true => Decided::Join { join: nth },
                false => Decided::Race(nth),
            };
            let value = Json::trusted(serde_json::to_string(&decided).unwrap_or_default());
            self.trunk.settle(&mut race.place, value).await?;
        }
        if nth < self.paths.len() {
            for (_, loser) in self.paths.iter().enumerate().filter(|(other, _)| *other != nth) {
                self.branch(loser).abandon().await?;
            }
        }
        Ok(())
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        self.end(&self.paths);
    }
}

/// A race of branches, decided or not.
pub struct Race {
    place: Operation,
    /// Who won, if it is decided.
    pub winner: Option<usize>,
    is_join: bool,
}

/// What the entry of a race says: which branch won, or which of a join has failed.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Decided {
    Race(usize),
    Join { join: usize },
}

impl Decided {
    fn nth(&self) -> usize {
        match self {
            Self::Race(nth) | Self::Join { join: nth } => *nth,
        }
    }
}

/// Whether the entry of a race is that of a join.
pub(super) fn is_join(value: &Json) -> bool {
    matches!(serde_json::from_str(value.as_str()), Ok(Decided::Join { .. }))
}

/// A branch waits until this is dropped.
pub(crate) struct Waiting {
    cx: TaskContext,
    id: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let change = self.cx.shared.activity.waited(&self.cx.path, self.id);
        self.cx.turned(change);
    }
}

/// A branch works until this is dropped.
pub(crate) struct Working {
    cx: TaskContext,
}

impl Drop for Working {
    fn drop(&mut self) {
        let change = self.cx.shared.activity.worked(&self.cx.path);
        self.cx.turned(change);
    }
}

impl Operation {
    /// What is to be written here.
    pub(crate) fn draft(&self, value: Json) -> Result<EntryDraft, JournalError> {
        let bytes = value.as_str().len();
        if bytes > MAX_ENTRY_BYTES {
            return Err(JournalError::TooLarge {
                asked: self.key.clone(),
                bytes,
            });
        }
        Ok(self.entry(value))
    }

    /// The same, of a value that is known to be short.
    pub(crate) fn entry(&self, value: Json) -> EntryDraft {
        EntryDraft {
            key: self.key.clone(),
            beside: self.beside,
            seq: self.found.as_ref().map(|(seq, _)| *seq),
            again: self.is_written,
            value,
        }
    }

    /// What was written here, if anything.
    pub(crate) fn found<T: DeserializeOwned>(&self) -> Option<Result<T, JournalError>> {
        self.found.as_ref().map(|(_, value)| self.read(value))
    }

    /// Reads what was written here.
    pub(crate) fn read<T: DeserializeOwned>(&self, value: &Json) -> Result<T, JournalError> {
        self.read_with(value, |value| serde_json::from_str(value.as_str()))
    }

    /// Reads what was written here in a layout of its own.
    pub(crate) fn read_with<T, E: std::fmt::Display>(
        &self,
        value: &Json,
        read: impl FnOnce(&Json) -> Result<T, E>,
    ) -> Result<T, JournalError> {
        read(value).map_err(|error| JournalError::Garbled {
            asked: self.key.clone(),
            why: error.to_string(),
        })
    }
}
