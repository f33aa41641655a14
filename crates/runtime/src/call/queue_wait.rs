//! What a queued task waits for.

use crate::Engine;
use longhaul_core::{State, Task, store::StoreError};
use std::fmt;

/// The longest queue that is counted.
const MOST_COUNTED: usize = 100;

/// What a queued task waits for. Displayed in the words that its client reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueWait {
    /// Its tool is paused.
    Paused,
    /// A server that has its tool: this one does not.
    OtherServer,
    /// A server that runs tasks: none lives.
    NoWorker,
    /// The time of its next attempt. The text says which one, and when.
    NextTry(String),
    /// A slot.
    Behind {
        /// So many tasks of its principal are before it.
        tasks: usize,
        /// Whether there are more, which were not counted.
        or_more: bool,
    },
}

impl fmt::Display for QueueWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("queued; the tool is paused"),
            Self::OtherServer => f.write_str("queued; it waits for a server that has its tool"),
            Self::NoWorker => f.write_str("queued; it waits for a server that runs tasks"),
            Self::NextTry(text) => f.write_str(text),
            Self::Behind { tasks: 0, .. } => f.write_str("queued"),
            Self::Behind { tasks, or_more: false } => write!(f, "queued behind {tasks} of your tasks"),
            Self::Behind { tasks, or_more: true } => write!(f, "queued behind over {tasks} of your tasks"),
        }
    }
}

impl Engine {
    /// What a task waits for; `None` if it is not queued. Counts up to a hundred tasks before it, of its principal only: clients do not learn of others.
    ///
    /// # Errors
    /// The store's.
    pub async fn queue_wait(&self, task: &Task) -> Result<Option<QueueWait>, StoreError> {
        if task.state != State::Queued {
            return Ok(None);
        }
        if self.is_paused(&task.tool) {
            return Ok(Some(QueueWait::Paused));
        }
        let now = self.ports().clock.read();
        if task.ready_at > now.at {
            return Ok(Some(QueueWait::NextTry(self.0.next_try(task, now))));
        }
        if !self.has_worker().await? {
            return Ok(Some(QueueWait::NoWorker));
        }
        if self.0.leaves_to_others(&task.tool) {
            return Ok(Some(QueueWait::OtherServer));
        }
        let before = self.store().queued_before(task, MOST_COUNTED + 1).await?;
        Ok(Some(QueueWait::Behind {
            tasks: before.min(MOST_COUNTED),
            or_more: before > MOST_COUNTED,
        }))
    }
}
