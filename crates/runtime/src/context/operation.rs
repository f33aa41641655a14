//! What the operations of the journal have in common: a place is begun, waited at, and settled.

use super::{
    TaskContext, step,
    writer::{Draft, Pending, Told, WriteError, Written},
};
use crate::{
    journal::{JournalError, Operation},
    suspension::{ActivityChange, Wait},
};
use longhaul_core::{EntryKey, EntryKind, Json, store::ApplyError};
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
    pub(super) fn is_its_own(&self) -> Result<(), JournalError> {
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
            let slots = &self.shared.node.slots;
            let slot = tokio::select! {
                biased;
                reason = self.stopped() => return Err(JournalError::Stopped(reason)),
                slot = slots.take_back(&self.shared.header.tool, self.shared.concurrency) => slot,
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
        if let Some(step_observer) = &self.shared.node.step_observer {
            step_observer.step_begins(&self.shared.header.id, self.shared.fence, key);
        }
    }
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
