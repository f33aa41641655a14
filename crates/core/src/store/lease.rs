//! What a node holds: its lease, and the attempts that it has claimed.

use crate::{HostId, Json, Millis, NodeId, StopReason, Task, TaskId, UnixMillis};
use std::sync::Arc;

/// What proves that a node lives: until it has ended, nobody takes over what the node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The node.
    pub node: NodeId,
    /// The time by the store's clock, which the node's own clock follows; `None` if the store has none, as one that only this process can open.
    pub now: Option<UnixMillis>,
    /// How long it lasts from each renewal; `None` if it lasts as long as the process, as with a store that only one process can open.
    pub length: Option<Millis>,
}

/// The answer to a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The time by the store's clock, as in [`Lease::now`].
    pub now: Option<UnixMillis>,
    /// The active attempts that the node holds, in order of their tasks.
    pub held: Vec<HeldAttempt>,
    /// Whether other nodes have lost their leases since the last renewal, so that there may be attempts to [adopt](super::Store::adopt).
    pub others_died: bool,
}

/// An active attempt, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldAttempt {
    /// Of this task.
    pub task: TaskId,
    /// Its number.
    pub epoch: u32,
    /// Why it is to stop, if it was asked to.
    pub stop: Option<StopReason>,
}

impl HeldAttempt {
    /// The active attempt of `task`, if it has one.
    pub fn of(task: &Task) -> Option<Self> {
        Some(Self {
            task: task.id.clone(),
            epoch: task.active_attempt()?.epoch,
            stop: task.stop.map(|stop| stop.reason),
        })
    }
}

/// A request for queued tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// From this tool's queue.
    pub tool: Arc<str>,
    /// For this node.
    pub node: NodeId,
    /// Set if the work will be bound to this host.
    pub host: Option<HostId>,
    /// At most so many.
    pub limit: usize,
    /// Now: only tasks that are ready by then.
    pub at: UnixMillis,
}

/// A task taken from its queue, with what its worker needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The task; its active attempt is the claimer's.
    pub task: Task,
    /// The arguments, as they came.
    pub arguments: Json,
    /// Who called, as [`NewTask::requestor`](super::NewTask::requestor) said.
    pub requestor: Json,
}
