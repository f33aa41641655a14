//! Messages and questions of a running handler that were not sent to its client yet.

use longhaul_runtime::ToolMessage;
use longhaul_wire::RpcError;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// How many messages may wait for the client.
const KEPT: usize = 128;

/// One message or question.
pub(super) enum OutboxItem {
    /// Progress or a log message.
    ToolMessage(ToolMessage),
    /// A request of ours to a legacy client.
    Request(String),
    /// A notification to a legacy client.
    Notification(String),
    /// A question of a modern request.
    InputRequired {
        /// Its name in this series of rounds.
        name: String,
        /// `{"method":…,"params":…}`.
        request: String,
    },
    /// An answer in a modern request does not fit its question.
    InvalidAnswer(RpcError),
}

/// Items in order.
#[derive(Default)]
pub(super) struct Outbox {
    items: Mutex<VecDeque<OutboxItem>>,
    added: Notify,
}

impl Outbox {
    /// Adds an item that must arrive.
    pub(super) fn push(&self, item: OutboxItem) {
        self.items.lock().push_back(item);
        self.added.notify_one();
    }

    /// Adds a message that may be lost: if the client is slow, the oldest unsent message is dropped.
    pub(super) fn push_message(&self, message: ToolMessage) {
        let mut items = self.items.lock();
        if items.len() >= KEPT
            && let Some(oldest) = items.iter().position(|item| matches!(item, OutboxItem::ToolMessage(_)))
        {
            items.remove(oldest);
        }
        items.push_back(OutboxItem::ToolMessage(message));
        drop(items);
        self.added.notify_one();
    }

    /// Withdraws a question of a modern request that was not sent yet.
    pub(super) fn withdraw(&self, question: &str) {
        self.items
            .lock()
            .retain(|item| !matches!(item, OutboxItem::InputRequired { name, .. } if name == question));
    }

    pub(super) fn take(&self) -> Option<OutboxItem> {
        self.items.lock().pop_front()
    }

    /// Completes when something was added since it last completed.
    pub(super) async fn filled(&self) {
        self.added.notified().await;
    }
}
