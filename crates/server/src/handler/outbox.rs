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
    /// A message to a legacy client, ready to be sent: a request of ours.
    Request(String),
    /// The same, as a notification.
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
    lines: Mutex<VecDeque<OutboxItem>>,
    fresh: Notify,
}

impl Outbox {
    /// Adds an item that must arrive.
    pub(super) fn push(&self, line: OutboxItem) {
        self.lines.lock().push_back(line);
        self.fresh.notify_one();
    }

    /// Adds a message that may be lost: if the client is slow, the oldest unsent message is dropped.
    pub(super) fn push_message(&self, message: ToolMessage) {
        let mut lines = self.lines.lock();
        if lines.len() >= KEPT
            && let Some(oldest) = lines.iter().position(|line| matches!(line, OutboxItem::ToolMessage(_)))
        {
            lines.remove(oldest);
        }
        lines.push_back(OutboxItem::ToolMessage(message));
        drop(lines);
        self.fresh.notify_one();
    }

    /// Withdraws a question of a modern request that was not sent yet.
    pub(super) fn withdraw(&self, question: &str) {
        self.lines
            .lock()
            .retain(|line| !matches!(line, OutboxItem::InputRequired { name, .. } if name == question));
    }

    pub(super) fn take(&self) -> Option<OutboxItem> {
        self.lines.lock().pop_front()
    }

    /// Completes when something was added since it last completed.
    pub(super) async fn filled(&self) {
        self.fresh.notified().await;
    }
}
