//! What waits for a slot, and what tools have.

use crate::{
    BoxFuture, NodeId, SpecId, Task, ToolSpec, UnixMillis,
    store::{Claim, Claimed, PermitReport, Permits, QueuePlace, StoreError, ToolLimit},
};
use std::sync::Arc;

/// The queues of tools, with their definitions, limits and pauses. See the [module](crate::store) for what all methods promise together.
pub trait QueueStore: Send + Sync + 'static {
    /// Keeps a tool's definition. Putting it again changes nothing.
    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The definition with this id, if any was put.
    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>>;

    /// Keeps how many tasks of a tool may run at once, and how many may be in each [group](crate::TaskHeader::group), in place of what was kept before; `None` for
    /// no limit. [`fill_groups`](Self::fill_groups) lets in those that there is room for now.
    fn put_limit(
        &self,
        tool: &str,
        concurrency: Option<usize>,
        per_group: Option<usize>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Lets queued tasks into their [groups](crate::TaskHeader::group) as far as there is room, and returns how many. Each write after which a task of a group may leave it
    /// or wait for it does that for the group. This does it for all: after a limit was put, and at a start, since an earlier release does not know groups.
    fn fill_groups(&self) -> BoxFuture<'_, Result<usize, StoreError>>;

    /// The limits that were put last, of all tools that have one. Not those of groups.
    fn limits(&self) -> BoxFuture<'_, Result<Vec<ToolLimit>, StoreError>>;

    /// Pauses a tool, or ends its pause; kept over restarts. No node begins anything of a paused tool. Doing it again changes nothing.
    fn set_paused(&self, tool: &str, paused: bool) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The paused tools, in order of their names.
    fn paused(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;

    /// Divides the permits of tools with a limit among the nodes, as [`PermitHolder::answer`](crate::store::PermitHolder::answer) does. The answer has one line for each request, in their
    /// order. [`StoreError::LeaseLost`] if the node is dead: it may begin nothing any more. What a dead node held stays in use as far as it still has active
    /// attempts.
    ///
    /// Only called where [many nodes](crate::store::StoreCapabilities::many_nodes) share the store. The default gives the only node what it wants.
    fn share_permits(&self, node: NodeId, report: PermitReport) -> BoxFuture<'_, Result<Vec<Permits>, StoreError>> {
        let _ = node;
        let permits = report.requests.into_iter().map(|request| Permits {
            tool: request.tool,
            count: request.wanted,
        });
        Box::pin(std::future::ready(Ok(permits.collect())))
    }

    /// Takes up to `limit` ready tasks from one tool's queue, in order of priority, then `ready_at`, then id. What is not
    /// ready is passed over without being read, and what waits for its group is not in the queue. No task is given to two claimers, and none to a node that has
    /// [lost its lease](StoreError::LeaseLost).
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// The tools that have queued tasks that can be claimed, now or later.
    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;

    /// The place of the queued task of `tool`, of those that wait for no group, that a claim at `at` takes first; if none is ready then, of the one that is ready first.
    fn next_ready(&self, tool: &str, at: UnixMillis) -> BoxFuture<'_, Result<Option<QueuePlace>, StoreError>>;

    /// When the last task of `tool` was claimed with a [rate](Claim::rate).
    fn last_start(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// How many queued tasks of its tool and its principal come before `task`, counted up to `most`: those of a higher priority, ready or not, and earlier
    /// ones of its own, also those that wait for a group. Those of other principals are not counted,
    /// since the number is shown to the owner. The cost grows with `most` only.
    fn queued_before(&self, task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>>;
}
