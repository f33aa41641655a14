//! What the store's events do here. They may be lost, so everything they bring about is brought about by the slow re-read, too.

use crate::{active_attempts::ActiveAttempts, change_feed::ChangeFeed, queues::Queues};
use longhaul_core::store::StoreEvent;
use std::sync::Arc;
use tokio::sync::Notify;

/// The parts of a node that events act on.
#[derive(Clone, Default)]
pub(super) struct EventHandler {
    pub(super) change_feed: Arc<ChangeFeed>,
    pub(super) active: Arc<ActiveAttempts>,
    pub(super) queues: Arc<Queues>,
    pub(super) resync: Arc<Notify>,
}

impl EventHandler {
    pub(super) fn handle(&self, event: &StoreEvent) {
        match event {
            StoreEvent::TaskChanged(hint) => {
                if let Some(reason) = hint.stop {
                    self.active.stop(&hint.task, reason);
                }
                self.change_feed.publish(hint);
            }
            StoreEvent::QueueReady { tool, ready_at } => self.queues.offer(tool, *ready_at),
            StoreEvent::Resync => self.resync.notify_one(),
        }
    }
}
