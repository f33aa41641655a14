//! What all journaled operations have in common: they begin, wait, and are recorded.

use super::step;
use crate::{
    context::{
        TaskContext,
        writer::{Draft, PendingWrite, QueuedDraft, WriteError, WriteOutcome},
    },
    journal::{JournalError, Operation},
    node::{ActivityChange, Wait},
};
use longhaul_core::{EntryKey, EntryKind, Json, store::ApplyError};
use std::sync::Arc;
use tokio::sync::oneshot;

impl TaskContext {
    pub(crate) fn begin(&self, kind: EntryKind, name: &Arc<str>) -> Result<Operation, JournalError> {
        let journal = self.shared.journal.as_ref().ok_or(JournalError::None)?;
        // Both checks come before the operation gets its ordinal, since the next attempt may not reach it.
        if let Some(step) = step::current_step() {
            let asked = EntryKey {
                path: Arc::clone(&self.path),
                kind,
                name: Arc::clone(name),
                nth: 1,
            };
            return Err(JournalError::InsideStep { asked, step });
        }
        self.check_not_forked()?;
        let operation = journal.begin(&self.path, kind, name)?;
        if operation.found.is_some() {
            self.entry_replayed();
        }
        match self.stop_requested() {
            // Recorded results are still returned; nothing new is begun.
            Some(reason) if operation.found.is_none() => Err(JournalError::Stopped(reason)),
            _ => Ok(operation),
        }
    }

    /// Refuses a context whose branch has forked: the order in which several branches use one context can differ in the next attempt.
    pub(crate) fn check_not_forked(&self) -> Result<(), JournalError> {
        match self.shared.activity.has_forked(&self.path) {
            true => Err(JournalError::Forked),
            false => Ok(()),
        }
    }

    /// Writes the operation's entry, or overwrites it.
    pub(crate) async fn record(&self, operation: &mut Operation, value: Json) -> Result<(), JournalError> {
        let draft = operation.draft(value.clone())?;
        let WriteOutcome { seq, .. } = self.write(Draft::Entry(draft)).await?;
        operation.written(seq, value);
        Ok(())
    }

    /// Queues a draft for the writer, and waits until it is written.
    pub(crate) async fn write(&self, draft: Draft) -> Result<WriteOutcome, WriteError> {
        // The branch does not count as waiting while its draft is written.
        let working = self.begin_work();
        let undo = draft.undo();
        let receiver = self.queue_draft(draft).ok_or(WriteError::Apply(ApplyError::Stale))?;
        let pending = PendingWrite {
            cx: self,
            undo,
            receiver,
        };
        let written = pending.written().await;
        drop(working);
        written
    }

    /// Queues a draft for the writer; `None` if the attempt has ended, or its code has diverged.
    pub(crate) fn queue_draft(&self, draft: Draft) -> Option<oneshot::Receiver<Result<WriteOutcome, WriteError>>> {
        if self.has_diverged() {
            return None;
        }
        let (reply, receiver) = oneshot::channel();
        self.drafts().as_mut()?.push(QueuedDraft { draft, reply });
        self.shared.drafted.notify_one();
        Some(receiver)
    }

    /// Begins a wait of this branch. While all branches wait, the attempt's slot is free.
    pub(crate) fn begin_wait(&self, wait: Wait) -> WaitGuard {
        let (id, change) = self.shared.activity.wait(&self.path, wait);
        self.activity_changed(change);
        WaitGuard { cx: self.clone(), id }
    }

    /// Ends a wait. If all branches waited, this first waits for a slot.
    pub(crate) async fn end_wait(&self, waiting: WaitGuard) -> Result<(), JournalError> {
        let _only_one = self.shared.returning.lock().await;
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

    /// The branch counts as working until the guard is dropped, whatever else it waits for.
    pub(crate) fn begin_work(&self) -> WorkGuard {
        let change = self.shared.activity.work(&self.path);
        self.activity_changed(change);
        WorkGuard { cx: self.clone() }
    }

    pub(crate) fn activity_changed(&self, change: ActivityChange) {
        match change {
            ActivityChange::AllWait => self.begin_waiting(),
            ActivityChange::Resumed => self.end_waiting(),
            ActivityChange::None => {}
        }
    }

    /// Notifies the observer, if there is one, that a step's effect may happen from now on.
    pub(crate) fn notify_step_observer(&self, key: &EntryKey) {
        if let Some(observer) = &self.shared.node.step_observer {
            observer.step_begins(&self.shared.header.id, self.shared.fence, key);
        }
    }
}

/// A branch waits until this is dropped.
pub(crate) struct WaitGuard {
    cx: TaskContext,
    id: u64,
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let change = self.cx.shared.activity.waited(&self.cx.path, self.id);
        self.cx.activity_changed(change);
    }
}

/// A branch works until this is dropped.
pub(crate) struct WorkGuard {
    cx: TaskContext,
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let change = self.cx.shared.activity.worked(&self.cx.path);
        self.cx.activity_changed(change);
    }
}
