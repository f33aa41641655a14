//! Waiting for isolation before an attempt that may have crashed its process, and how long it stays isolated.

use super::TaskContext;
use crate::isolated_retry::{Isolation, IsolationGuard, NotStarted};
use longhaul_core::Event;
use parking_lot::MutexGuard;
use std::{convert::Infallible, sync::Arc, time::Duration};

impl TaskContext {
    /// Whether this attempt, of a process that has died, had not begun because it waited for its turn.
    pub(crate) fn was_waiting_for_isolation(&self) -> bool {
        self.shared.isolation.is_some() && !self.pending_report().have_begun()
    }

    /// Whether the attempt is watched.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolation_guard().is_some()
    }

    /// Begins or ends the watch.
    pub(crate) fn set_isolation_guard(&self, guard: Option<IsolationGuard>) {
        let old = std::mem::replace(&mut *self.isolation_guard(), guard);
        // Outside of the lock: this wakes the next one.
        drop(old);
    }

    fn isolation_guard(&self) -> MutexGuard<'_, Option<IsolationGuard>> {
        self.shared.isolation_guard.lock()
    }

    /// Waits for the turn of an attempt that is to be watched. Any other goes on at once.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub(crate) async fn wait_for_isolation(&self) -> Result<(), NotStarted> {
        if self.shared.isolation.is_none() {
            return Ok(());
        }
        self.give_slot_back();
        let node = &self.shared.node;
        let turn = async {
            let turn = Arc::clone(&node.isolation_lock.0).lock_owned().await;
            let slot = node
                .slots
                .take_back(&self.shared.header.tool, self.shared.concurrency)
                .await;
            (turn, slot)
        };
        let (turn, slot) = tokio::select! {
            biased;
            reason = self.stopped() => return Err(NotStarted::Stopped(reason)),
            () = node.released() => return Err(NotStarted::Released(node.now())),
            turn = turn => turn,
        };
        self.hold(slot);
        // Before anything is done: an attempt of which this is not written was still waiting when its process died.
        let begun = node.retry_store("beginning an attempt", || self.apply(vec![Event::Started]));
        let task = begun.await.map_err(NotStarted::Unwritten)?;
        node.changed(&task);
        self.has_begun();
        self.set_isolation_guard(Some(turn));
        Ok(())
    }

    /// Ends the watch over this attempt when it has run for long enough; never completes.
    pub(crate) async fn watch_isolated(&self) -> Infallible {
        if let Some(Isolation { watch, clears }) = self.shared.isolation {
            let node = &self.shared.node;
            node.ports.clock.sleep(Duration::from_millis(watch)).await;
            if clears && self.is_isolated() {
                let cleared = node.retry_store("clearing an attempt", || self.apply(vec![Event::Advanced]));
                if let (Ok(task), Some(journal)) = (cleared.await, &self.shared.journal) {
                    journal.advance();
                    node.changed(&task);
                }
            }
            self.set_isolation_guard(None);
        }
        std::future::pending().await
    }
}
