//! Nodes, and what they hold: their leases, and the attempts that they have claimed.

use super::EventDelivery;
use crate::{HostId, Json, Millis, NodeId, StartRate, StopReason, Task, TaskId, UnixMillis};
use std::sync::Arc;

/// A server process that becomes a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNode {
    /// The machine and data directory that it runs on, the same at every start.
    pub host: HostId,
    /// The server's name, for operators.
    pub name: Arc<str>,
    /// Where clients reach it, for operators.
    pub address: Option<Arc<str>>,
    /// Identifies the data directory that this process has locked, until the machine is booted again. No two directories have the same one, also if one is a
    /// copy of the other: an earlier node of the host that had this one, too, is dead, since it does not hold the lock any more.
    pub directory: Option<Arc<str>>,
    /// What it does.
    pub role: NodeRole,
}

/// What a node does, where many share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeRole {
    /// It accepts requests and runs tasks.
    #[default]
    Both,
    /// It accepts requests, and runs no tasks: what it accepts is queued for other nodes.
    Front,
    /// It runs tasks, and accepts no requests.
    Worker,
}

impl NodeRole {
    /// As configurations and operators write it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Front => "front",
            Self::Worker => "worker",
        }
    }

    /// Whether it runs tasks.
    pub const fn runs_tasks(self) -> bool {
        !matches!(self, Self::Front)
    }
}

impl NewNode {
    /// Whether an earlier node of the same host that was on `directory` is dead for sure.
    pub fn is_on_same_directory(&self, directory: Option<&str>) -> bool {
        directory.is_some() && self.directory.as_deref() == directory
    }
}

impl From<HostId> for NewNode {
    fn from(host: HostId) -> Self {
        Self {
            host,
            name: "".into(),
            address: None,
            directory: None,
            role: NodeRole::Both,
        }
    }
}

/// A node, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its number.
    pub node: NodeId,
    /// Its host.
    pub host: HostId,
    /// [`NewNode::name`]; empty if it gave none.
    pub name: Arc<str>,
    /// [`NewNode::address`].
    pub address: Option<Arc<str>>,
    /// [`NewNode::role`].
    pub role: NodeRole,
    /// When it was opened, by its own clock.
    pub opened_at: UnixMillis,
    /// Whether it lives.
    pub lease: LeaseStatus,
    /// How its events reach the others, as it says itself.
    pub delivery: EventDelivery,
    /// Active attempts that it holds.
    pub attempts: u64,
    /// Those of them that are bound to its host.
    pub bound_attempts: u64,
}

impl LeaseStatus {
    /// Whether the node lives.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Unlimited | Self::Held(1..))
    }
}

impl NodeStatus {
    /// A node in words: its name and address as far as they are known, and its number.
    ///
    /// ```
    /// use longhaul_core::{NodeId, store::NodeStatus};
    ///
    /// let words = NodeStatus::describe(NodeId(3), "jobs", Some("http://10.0.0.1:7411/mcp"));
    /// assert_eq!(words, "`jobs` at http://10.0.0.1:7411/mcp (node 3)");
    /// ```
    pub fn describe(node: NodeId, name: &str, address: Option<&str>) -> String {
        let number = node.0;
        match (name, address) {
            ("", None) => format!("node {number}"),
            ("", Some(address)) => format!("{address} (node {number})"),
            (name, None) => format!("`{name}` (node {number})"),
            (name, Some(address)) => format!("`{name}` at {address} (node {number})"),
        }
    }
}

/// The state of a lease, by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStatus {
    /// It lasts as long as the process.
    Unlimited,
    /// It ends in so many milliseconds unless it is renewed; 0 if it has ended, and nobody has noticed.
    Held(Millis),
    /// It is lost.
    Lost {
        /// For how long no node of its host that runs tasks has had a lease, in milliseconds; `None` if one has. [`HOST_GIVEN_UP`] once the host
        /// was [given up](super::LeaseStore::give_up_host).
        host_lost_for: Option<Millis>,
    },
}

/// [`LeaseStatus::Lost::host_lost_for`] of a host that was [given up](super::LeaseStore::give_up_host).
pub const HOST_GIVEN_UP: Millis = Millis::MAX;

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
    /// Whether other nodes have lost their leases since the last renewal, so that there may be attempts to [adopt](super::LeaseStore::adopt).
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
    /// How often attempts of the tool may begin. With a rate at most one task is taken, and none before [its time](super::QueueStore::last_start).
    pub rate: Option<StartRate>,
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
