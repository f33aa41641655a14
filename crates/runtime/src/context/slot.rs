//! The slot of an attempt: held while some of its code runs, free while all of it waits.

use super::TaskContext;
use crate::{
    journal::JournalError,
    node::{Wait, WaitingEntry},
    queue::slots::Slot,
};
use longhaul_core::UnixMillis;
use parking_lot::MutexGuard;

pub(super) enum SlotState {
    Held(#[expect(dead_code, reason = "held for its drop")] Slot),
    /// Free, since all of the code waits. A durable attempt is among those that can be suspended.
    Waiting(#[expect(dead_code, reason = "held for its drop")] Option<WaitingEntry>),
    /// Free for good: the attempt has ended, though its context may still be in use.
    Released,
}

impl TaskContext {
    /// Frees the slot, since all of the code waits. A durable attempt is suspended when it has waited long enough.
    pub(crate) fn begin_waiting(&self) {
        let entry = self.shared.journal.as_ref().map(|_| {
            let node = &self.shared.node;
            // An isolated attempt is suspended at once, so that later crashes of the process do not count for it.
            let must_suspend = self.shared.isolation.is_some();
            (node.waiting_attempts).enter(node.now(), must_suspend, &self.shared.suspend)
        });
        self.set_slot(SlotState::Waiting(entry));
    }

    /// Frees the slot again if the code was polled and all of it still waits, as when one of several waits has ended and started nothing.
    pub(crate) fn polled(&self) {
        if self.shared.activity.all_wait() && !self.is_waiting() {
            self.begin_waiting();
        }
    }

    /// Takes a slot, even beyond the limit, for code that stopped waiting by itself.
    pub(crate) fn end_waiting(&self) {
        if self.is_waiting() {
            let slot = self.shared.node.slots.take_anyway(&self.shared.header.tool);
            self.set_slot(SlotState::Held(slot));
        }
    }

    pub(crate) fn hold(&self, slot: Slot) {
        self.set_slot(SlotState::Held(slot));
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*self.slot_state(), SlotState::Waiting(_))
    }

    /// Frees the slot for good and accepts no more drafts, even if the context is still in use.
    pub(crate) fn close(&self) {
        let drafts = self.drafts().take();
        drop(drafts);
        self.set_isolation_guard(None);
        self.set_slot(SlotState::Released);
    }

    /// Frees the slot until [`hold`](Self::hold).
    pub(crate) fn free_slot(&self) {
        self.set_slot(SlotState::Waiting(None));
    }

    fn set_slot(&self, new: SlotState) {
        let mut slot = self.slot_state();
        if matches!(*slot, SlotState::Released) {
            return;
        }
        let old = std::mem::replace(&mut *slot, new);
        // Dropping the old state may wake others, so the lock is released first.
        drop(slot);
        drop(old);
    }

    pub(super) fn slot_state(&self) -> MutexGuard<'_, SlotState> {
        self.shared.slot.lock()
    }

    /// Completes when the code can be suspended: until when, and how many wake-ups the task has seen.
    pub(crate) async fn suspend(&self) -> (Option<UnixMillis>, u32) {
        loop {
            self.shared.suspend.notified().await;
            match self.suspension().await {
                Ok(Some(suspension)) => return suspension,
                // A wait has ended, so the code continues; or the store failed, so it waits for the next turn.
                Ok(None) | Err(_) => {
                    if self.shared.activity.all_wait() {
                        self.begin_waiting();
                    }
                }
            }
        }
    }

    /// When the earliest timer that is waited for fires, and how many wake-ups the task had seen while all waits were still open; `None` if
    /// one of them has ended, or the code has continued.
    async fn suspension(&self) -> Result<Option<(Option<UnixMillis>, u32)>, JournalError> {
        let Some(waits) = self.shared.activity.waits() else {
            return Ok(None);
        };
        let Some(record) = self.shared.node.store.get_unscoped(&self.shared.header.id).await? else {
            return Ok(None);
        };
        let clock = &*self.ports().clock;
        let until = waits.values().filter_map(|wait| wait.until(clock)).min();
        if until.is_some_and(|until| until <= self.now()) {
            return Ok(None);
        }
        for wait in waits.values() {
            let ended = match wait {
                Wait::Input(key, _) => (!record.task.open_inputs.contains(key)).then_some(&self.shared.header.id),
                // Read after the record: a child's end that is not seen here is not counted in the record's `woken` either.
                Wait::Child(entry, child) => self.child_outcome(*entry).await?.map(|_| child),
                Wait::Timer(_) | Wait::Date(_) => None,
            };
            if let Some(changed) = ended {
                // The code may have missed it.
                self.shared.node.change_feed.wake(changed);
                return Ok(None);
            }
        }
        // The code may have continued during the reads; then it must not be dropped.
        let still_waits = self.shared.activity.all_wait_for(&waits);
        Ok(still_waits.then_some((until, record.task.woken)))
    }
}
