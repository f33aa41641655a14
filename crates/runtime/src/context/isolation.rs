//! Waiting for isolation before an attempt that may have crashed its process, and how long it stays isolated.

use super::TaskContext;
use crate::node::{Isolation, IsolationGuard, NotStarted};
use longhaul_core::Event;
use parking_lot::MutexGuard;
use std::{convert::Infallible, sync::Arc, time::Duration};

impl TaskContext {
    /// Whether this attempt, of a process that has died, had not started because it waited for isolation.
    pub(crate) fn was_waiting_for_isolation(&self) -> bool {
        self.shared.isolation.is_some() && !self.pending_report().has_started()
    }

    /// Whether the attempt runs in isolation now.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolation_guard().is_some()
    }

    /// Begins or ends the isolation.
    pub(crate) fn set_isolation_guard(&self, guard: Option<IsolationGuard>) {
        let old = std::mem::replace(&mut *self.isolation_guard(), guard);
        // After the lock is released: this wakes the next attempt.
        drop(old);
    }

    fn isolation_guard(&self) -> MutexGuard<'_, Option<IsolationGuard>> {
        self.shared.isolation_guard.lock()
    }

    /// Waits until an attempt that needs isolation can have it. Any other starts at once.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub(crate) async fn wait_for_isolation(&self) -> Result<(), NotStarted> {
        if self.shared.isolation.is_none() {
            return Ok(());
        }
        self.free_slot();
        let node = &self.shared.node;
        let isolated = async {
            let guard = Arc::clone(&node.isolation_lock.0).lock_owned().await;
            let slot = node
                .slots
                .take_back(&self.shared.header.tool, self.shared.concurrency)
                .await;
            (guard, slot)
        };
        let (guard, slot) = tokio::select! {
            biased;
            reason = self.stopped() => return Err(NotStarted::Stopped(reason)),
            () = node.released() => return Err(NotStarted::Released(node.now())),
            isolated = isolated => isolated,
        };
        self.hold(slot);
        // Written first, because an attempt without this event counts as one that was still waiting when its process died.
        let mut written = self.shared.written.lock().await;
        let start = self.change_once(&mut written, vec![Event::Started]);
        let started = node.retry_store("starting an isolated attempt", || node.store.apply(start.clone()));
        let task = started.await.map_err(NotStarted::Unwritten)?;
        drop(written);
        node.changed(&task);
        self.start_is_written();
        self.set_isolation_guard(Some(guard));
        Ok(())
    }

    /// Ends the isolation of this attempt when it has run for long enough; never completes.
    pub(crate) async fn end_isolation_in_time(&self) -> Infallible {
        if let Some(Isolation { time, clears }) = self.shared.isolation {
            let node = &self.shared.node;
            node.ports.clock.sleep(Duration::from_millis(time)).await;
            if clears && self.is_isolated() {
                let cleared = node.retry_store("ending the isolation of an attempt", || {
                    node.store.apply(self.change(vec![Event::Advanced]))
                });
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
