//! What a running handler has to say and to ask, on its way to the client.

use longhaul_runtime::ToolMessage;
use longhaul_wire::RpcError;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use tokio::sync::Notify;

/// How much a handler may say that its client has not taken yet.
const KEPT: usize = 128;

/// One thing on its way.
pub(super) enum Line {
    /// Progress or a log message.
    ToolMessage(ToolMessage),
    /// A message to a legacy client, ready to be sent: a request of ours.
    Request(String),
    /// The same, but one that is not answered.
    Notice(String),
    /// A question of a modern request.
    Asked {
        /// Its name in this series of rounds.
        name: String,
        /// `{"method":…,"params":…}`.
        request: String,
    },
    /// An answer that came with a modern request does not fit its question.
    Misfit(RpcError),
}

/// Lines in order.
#[derive(Default)]
pub(super) struct Outbox {
    lines: Mutex<VecDeque<Line>>,
    fresh: Notify,
}

impl Outbox {
    /// Adds a line that must arrive.
    pub(super) fn push(&self, line: Line) {
        self.lock().push_back(line);
        self.fresh.notify_one();
    }

    /// Adds what is best effort: of what a slow client has not taken the oldest is lost.
    pub(super) fn say(&self, said: ToolMessage) {
        let mut lines = self.lock();
        if lines.len() >= KEPT
            && let Some(oldest) = lines.iter().position(|line| matches!(line, Line::ToolMessage(_)))
        {
            lines.remove(oldest);
        }
        lines.push_back(Line::ToolMessage(said));
        drop(lines);
        self.fresh.notify_one();
    }

    /// Takes a question of a modern request back before anyone has seen it.
    pub(super) fn withdraw(&self, question: &str) {
        self.lock()
            .retain(|line| !matches!(line, Line::Asked { name, .. } if name == question));
    }

    pub(super) fn take(&self) -> Option<Line> {
        self.lock().pop_front()
    }

    /// Completes when something was added since it last completed.
    pub(super) async fn filled(&self) {
        self.fresh.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.lines.lock()
    }
}
