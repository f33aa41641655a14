//! Tasks that share something.

use crate::{NodeId, Principal, SessionKey, TaskId, UnixMillis};

/// Which tasks [`SearchStore::find`](super::SearchStore::find) finds, and in which order; of any owner, and announced or not. Unless it says so, a lookup costs
/// nothing for the tasks that it does not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskLookup {
    /// Live tasks that a parent started and that were not asked to stop, in order of their ids.
    ChildrenOf(TaskId),
    /// Tasks that `parent` started and that come after `after` (by id), whatever has become of them, in order of their ids.
    StartedBy {
        /// The parent.
        parent: TaskId,
        /// The last one of the page before.
        after: Option<TaskId>,
    },
    /// Live tasks, not asked to stop, whose parent is over, deleted or asked to stop, in order of their parent, then id. For recovery: a process may have
    /// died before it had cancelled them. Costs as much as there are live tasks with a parent.
    ChildrenOfFinishedParents,
    /// Blocked tasks that come after this one (by id), in order of their ids.
    BlockedAfter(Option<TaskId>),
    /// Live tasks that are [bound to their node](crate::Task::is_bound_to_node), which is dead, having lost its lease: nobody waits for them any more. In
    /// order of their node, then id. None for a node that has lost its own lease.
    OrphanedCalls(NodeId),
    /// Announced tasks of a legacy session that are not over and come after `after` (by id), oldest first.
    LiveInSession {
        /// Who the session belongs to.
        owner: Principal,
        /// The session.
        session: SessionKey,
        /// The last one of the page before.
        after: Option<TaskId>,
    },
    /// Live tasks whose [`wake_at`](crate::Task::wake_at) has come, earliest first.
    DueTimers(UnixMillis),
}
