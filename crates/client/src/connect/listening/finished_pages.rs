//! The pages that a legacy server, or the user, says the user has finished with (MCP 2025-11-25, Elicitation, "Completion Notifications for URL Mode Elicitation").

use parking_lot::Mutex;
use std::{collections::VecDeque, pin::pin};
use tokio::sync::Notify;

/// How many finished pages are remembered.
const REMEMBERED: usize = 64;

/// The pages that the user has finished with, by their `elicitationId`.
#[derive(Default)]
pub(crate) struct FinishedPages {
    ids: Mutex<VecDeque<String>>,
    changed: Notify,
}

impl FinishedPages {
    pub(crate) fn note(&self, id: &str) {
        let mut ids = self.ids.lock();
        if ids.len() == REMEMBERED {
            ids.pop_front();
        }
        ids.push_back(id.to_owned());
        drop(ids);
        self.changed.notify_waiters();
    }

    /// Waits until this page is one of them.
    pub(crate) async fn until(&self, id: &str) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From now on none is missed.
            changed.as_mut().enable();
            if self.ids.lock().iter().any(|known| known == id) {
                return;
            }
            changed.await;
        }
    }
}
