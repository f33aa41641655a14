//! One run of a task's tool, on one node.

use std::sync::Arc;

/// One incarnation of a server process. A restart is a new node, so a fence of the old one is stale by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i64);

/// The machine on which host-bound work lives: only there can it be adopted. A data directory keeps the id, so that it stays the same from start to
/// start. The id may be shown to operators, not to clients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub Arc<str>);

/// What a worker must show with every effect (invariant 3): the node that holds the attempt, and which attempt it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The node that claimed or adopted the attempt.
    pub node: NodeId,
    /// The attempt's number.
    pub epoch: u32,
}

/// Where an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptState {
    /// Claimed; the work may or may not have begun.
    Starting,
    /// The work has begun.
    Live,
    /// Asked to stop, not yet gone. Its slot and files are still held.
    Stopping,
    /// Over.
    Ended,
}

/// The latest run of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Counts from 1 over the task's life and is never used twice; it names the attempt's directory.
    pub epoch: u32,
    /// The node that works on it.
    pub node: NodeId,
    /// Set if the work lives outside the process and only this host can adopt it.
    pub host: Option<HostId>,
    /// Where it stands.
    pub state: AttemptState,
    /// The number of the latest [numbered change](crate::store::Change::number) that its worker has made; 0 before the first.
    pub changes: u32,
}

impl Attempt {
    /// Whether a slot and files are held.
    pub fn is_active(&self) -> bool {
        self.state != AttemptState::Ended
    }

    /// The fence its worker must show.
    pub fn fence(&self) -> Fence {
        Fence {
            node: self.node,
            epoch: self.epoch,
        }
    }
}
