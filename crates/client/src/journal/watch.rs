//! Noticing what other processes do with a journal.

use std::fmt;
use tokio::sync::watch::Receiver;

/// Tells what other processes do with a [journal](crate::CallJournal::watch), from its creation on.
pub struct JournalWatch {
    seen: Receiver<u64>,
    changes: u64,
}

impl JournalWatch {
    /// `seen` is the number of changes of other processes. It is sent again when one of them may have ended, which changes nothing.
    pub fn new(mut seen: Receiver<u64>) -> Self {
        let changes = *seen.borrow_and_update();
        Self { seen, changes }
    }

    /// Whether another process may have changed the journal since this was last said.
    pub(crate) fn has_changed(&mut self) -> bool {
        let changes = *self.seen.borrow_and_update();
        std::mem::replace(&mut self.changes, changes) != changes
    }

    /// Waits until another process may have changed the journal.
    pub(crate) async fn changed(&mut self) {
        while !self.has_changed() {
            self.look().await;
        }
    }

    /// Waits until another process may have changed the journal, or ended.
    pub async fn changed_or_ended(&mut self) {
        self.look().await;
        self.has_changed();
    }

    async fn look(&mut self) {
        if self.seen.changed().await.is_err() {
            // The journal is closed, so nothing can be read.
            std::future::pending().await
        }
    }
}

impl fmt::Debug for JournalWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalWatch").finish_non_exhaustive()
    }
}
