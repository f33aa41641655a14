//! What a store tells its listeners.

use super::{QueuePlace, Record};
use crate::{NodeId, Outcome, StopReason, Task, TaskId};
use std::sync::Arc;

/// What a store tells its listeners.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreEvent {
    /// A task was created or changed.
    TaskChanged(Hint),
    /// A tool has a queued task.
    QueueReady {
        /// The tool.
        tool: Arc<str>,
        /// The task's place, which says when it can be claimed.
        place: QueuePlace,
    },
    /// A node wants [permits](super::PermitReport) of a tool, or has given some back. Only in a store of many nodes.
    PermitsChanged {
        /// The tool.
        tool: Arc<str>,
        /// The node.
        by: NodeId,
    },
    /// Tools were paused, or their pauses have ended. Only in a store of many nodes.
    PausesChanged,
    /// A node has [sent](super::LeaseStore::send) something. Only in a store of many nodes.
    Message {
        /// To this node, or to all.
        to: Option<NodeId>,
        /// What.
        text: Arc<str>,
    },
    /// Events may have been lost: anything may have changed.
    Resync,
}

impl StoreEvent {
    /// That `task` was created or changed, with the record if it has just ended: none of its questions is open then.
    pub fn of_change(task: &Task, outcome: Option<&Outcome>) -> Self {
        let record = |outcome: &Outcome| {
            Arc::new(Record {
                task: task.clone(),
                outcome: Some(outcome.clone()),
                inputs: Vec::new(),
            })
        };
        Self::TaskChanged(Hint {
            ended: outcome.map(record),
            ..Hint::of(task)
        })
    }

    /// That `task` is in the queue of its tool, if it is.
    pub fn queue_ready(task: &Task) -> Option<Self> {
        task.is_in_queue().then(|| Self::QueueReady {
            tool: Arc::clone(&task.tool),
            place: QueuePlace::of(task),
        })
    }
}

/// Says that `task` has reached at least `version`.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// Which task.
    pub task: TaskId,
    /// At least this version.
    pub version: u64,
    /// Why it was asked to stop, if it was and the store has that at hand.
    pub stop: Option<StopReason>,
    /// The record of a task that is over, if the store has it at hand: whoever waits for the end need not read it.
    pub ended: Option<Arc<Record>>,
}

impl Hint {
    /// Of a task as it is, live or without its record.
    pub fn of(task: &Task) -> Self {
        Self {
            task: task.id.clone(),
            version: task.version,
            stop: task.stop.map(|stop| stop.reason),
            ended: None,
        }
    }
}

/// Called with what commits have changed, of this process and of others. Must return quickly and must not call the store.
pub type StoreListener = Arc<dyn Fn(&[StoreEvent]) + Send + Sync>;
