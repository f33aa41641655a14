//! The slot of an attempt: held while some of its code runs, free while all of it waits.

use super::TaskContext;
use crate::{
    journal::JournalError,
    slots::Slot,
    suspension::{Wait, WaitingEntry},
};
use longhaul_core::UnixMillis;
use parking_lot::MutexGuard;

/// The attempt's hold on its slot.
pub(super) enum Hold {
    Slot(#[expect(dead_code, reason = "held for its drop")] Slot),
    /// All of the code waits.
    Waiting(#[expect(dead_code, reason = "held for its drop")] Option<WaitingEntry>),
    /// The attempt has ended; whoever still has its context gets no slot any more.
    Over,
}

impl TaskContext {
    /// All of the code waits: its slot is free. If it can be run again, it is let go when it has waited long enough.
    pub(crate) fn begin_waiting(&self) {
        let ticket = self.shared.journal.as_ref().map(|_| {
            let node = &self.shared.node;
            // On the last attempts it is suspended at once, so that further crashes of its process cost it nothing.
            let must_suspend = self.shared.isolation.is_some();
            (node.waiting_attempts).enter(node.now(), must_suspend, &self.shared.suspend)
        });
        self.set_hold(Hold::Waiting(ticket));
    }

    /// The code has done what it can for now. If one of several waits is over, and nothing came of it but that, all of it waits again.
    pub(crate) fn rest(&self) {
        if self.shared.activity.all_wait() && !self.is_waiting() {
            self.begin_waiting();
        }
    }

    /// Some of the code goes on, though nobody has waited for a slot: what was waited for is given up.
    pub(crate) fn end_waiting(&self) {
        if self.is_waiting() {
            self.set_hold(Hold::Slot(self.shared.node.slots.take_anyway(&self.shared.header.tool)));
        }
    }

    /// Takes a slot for work that goes on.
    pub(crate) fn hold(&self, slot: Slot) {
        self.set_hold(Hold::Slot(slot));
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*self.hold_lock(), Hold::Waiting(_))
    }

    /// Gives the slot back for good, whoever still holds this context, and takes no draft any more.
    pub(crate) fn close(&self) {
        let drafts = self.drafts().take();
        drop(drafts);
        self.set_isolation_guard(None);
        self.set_hold(Hold::Over);
    }

    /// Gives the slot back for as long as nothing is begun.
    pub(crate) fn give_slot_back(&self) {
        self.set_hold(Hold::Waiting(None));
    }

    /// The lock is let go before the old hold is, since giving a slot back wakes others.
    pub(super) fn set_hold(&self, new: Hold) {
        let mut hold = self.hold_lock();
        if matches!(*hold, Hold::Over) {
            return;
        }
        let old = std::mem::replace(&mut *hold, new);
        drop(hold);
        drop(old);
    }

    pub(super) fn hold_lock(&self) -> MutexGuard<'_, Hold> {
        self.shared.hold.lock()
    }

    /// Completes when the code can be let go, with what its attempt ends in then.
    pub(crate) async fn suspend(&self) -> (Option<UnixMillis>, u32) {
        loop {
            self.shared.suspend.notified().await;
            match self.suspension().await {
                Ok(Some(suspension)) => return suspension,
                // Something has come, and the code goes on, or it still waits, and enters again.
                Ok(None) | Err(_) => {
                    if self.shared.activity.all_wait() {
                        self.begin_waiting();
                    }
                }
            }
        }
    }

    /// When the earliest timer of all that is waited for fires, and what the task had been woken by when all of it was still to come;
    /// `None` if something has come, or the code has gone on.
    async fn suspension(&self) -> Result<Option<(Option<UnixMillis>, u32)>, JournalError> {
        let Some(waits) = self.shared.activity.waits() else {
            return Ok(None);
        };
        let Some(record) = self.shared.node.store.peek(&self.shared.header.id).await? else {
            return Ok(None);
        };
        let clock = &*self.ports().clock;
        let until = waits.values().filter_map(|wait| wait.until(clock)).min();
        if until.is_some_and(|until| until <= self.now()) {
            return Ok(None);
        }
        for wait in waits.values() {
            let has_come = match wait {
                Wait::Input(key, _) => !record.task.open_inputs.contains(key),
                // After the record: an end that is not seen here is not counted there either.
                Wait::Child(entry) => self.child_outcome(*entry).await?.is_some(),
                Wait::Timer(_) | Wait::Date(_) => false,
            };
            if has_come {
                return Ok(None);
            }
        }
        // The code may have gone on during the reads, for a reason of its own: what it does now is not to be cut off.
        let still_waits = self.shared.activity.all_wait_for(&waits);
        Ok(still_waits.then_some((until, record.task.woken)))
    }
}
