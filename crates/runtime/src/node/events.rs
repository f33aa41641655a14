//! Handles the store's events. They may be lost, so the slow re-read does the same from time to time.

use super::{active_attempts::ActiveAttempts, change_feed::ChangeFeed, messages::Messages};
use crate::queue::{queues::Queues, slots::Slots};
use longhaul_core::{NodeId, store::StoreEvent};
use std::sync::Arc;
use tokio::sync::Notify;

/// The parts of a node that events act on.
#[derive(Clone)]
pub(super) struct EventHandler {
    id: NodeId,
    pub(super) change_feed: Arc<ChangeFeed>,
    pub(super) active: Arc<ActiveAttempts>,
    pub(super) queues: Arc<Queues>,
    pub(super) slots: Arc<Slots>,
    pub(super) resync: Arc<Notify>,
    pub(super) pauses: Arc<Notify>,
    pub(super) messages: Arc<Messages>,
}

impl EventHandler {
    pub(super) fn new(id: NodeId, slots: Arc<Slots>) -> Self {
        Self {
            id,
            change_feed: Arc::default(),
            active: Arc::default(),
            queues: Arc::default(),
            slots,
            resync: Arc::default(),
            pauses: Arc::default(),
            messages: Messages::new(id),
        }
    }

    pub(super) fn handle(&self, event: &StoreEvent) {
        match event {
            StoreEvent::TaskChanged(hint) => {
                if let Some(reason) = hint.stop {
                    self.active.stop(&hint.task, reason);
                }
                self.change_feed.publish(hint);
            }
            StoreEvent::QueueReady { tool, place } => self.queues.offer(tool, *place),
            StoreEvent::PermitsChanged { tool, by } if *by != self.id => self.slots.permits_changed(tool),
            StoreEvent::PermitsChanged { .. } => {}
            StoreEvent::PausesChanged => self.pauses.notify_one(),
            StoreEvent::Message { to, text } => self.messages.receive(*to, text),
            StoreEvent::Resync => self.resync.notify_one(),
        }
    }
}
