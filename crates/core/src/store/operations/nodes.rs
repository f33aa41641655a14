//! The nodes that share a store.

use crate::{
    BoxFuture, HostId, Millis, NodeId, TaskId, UnixMillis,
    store::{Claimed, GiveUpError, Lease, NewNode, NodeStatus, Renewal, StoreError},
};
use std::sync::Arc;

/// Leases of nodes, what they take over from each other, and what they tell each other. See the [module](crate::store) for what all methods promise together.
pub trait LeaseStore: Send + Sync + 'static {
    /// Registers a new incarnation of a server, greater than every earlier one, and gives it a lease. `at` is the time by the caller's clock.
    ///
    /// A host is leased to one node at a time, since disks are cloned: [`StoreError::HostInUse`] while an earlier node of this host may live, unless that was on
    /// the same [directory](NewNode::directory). So all earlier nodes of the host are dead once this completes. In a store that only one process can open, all
    /// earlier nodes are.
    fn open_node(&self, new: &NewNode, at: UnixMillis) -> BoxFuture<'_, Result<Lease, StoreError>>;

    /// Renews a node's lease from now on, and says what the node holds. An expired lease can be renewed until another node marks it lost. After that this
    /// always fails with [`StoreError::LeaseLost`].
    ///
    /// Also marks the leases of other nodes lost that have expired. Only a node that has held its own lease for one whole length without a gap does so:
    /// after an outage of the store all others get the time to renew theirs.
    fn renew(&self, node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>>;

    /// Gives up a node's lease, so that others can take over what it holds at once. Ends nothing in a store that only one process can open.
    fn end_lease(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Completes once no write that `node` has made before can be executed any more. After [`StoreError::OutcomeUnknown`] a task is written again only
    /// then: the earlier write could else be executed after the task was deleted, and make it anew.
    ///
    /// The default completes at once, as is right for a store that executes each write before it answers.
    fn await_earlier_writes(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = node;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Gives up the host of a dead node, because an operator knows that it does not come back: from now on what is bound to it can be
    /// [reclaimed](Self::reclaim). A node that is opened on the host later starts anew.
    ///
    /// Only called where [many nodes](crate::store::StoreCapabilities::many_nodes) share the store. The default knows no node.
    fn give_up_host(&self, node: NodeId) -> BoxFuture<'_, Result<(), GiveUpError>> {
        let _ = node;
        Box::pin(std::future::ready(Err(GiveUpError::UnknownNode)))
    }

    /// The nodes that live, and those that are dead and hold active attempts, in order of their numbers: for operators. Costs as much as there are active
    /// attempts.
    ///
    /// Only called where [many nodes](crate::store::StoreCapabilities::many_nodes) share the store. The default knows none.
    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeStatus>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Hands `node` up to `limit` active attempts whose node is dead, having lost its lease, and that `host` can resume: those bound to `host`,
    /// and those bound to none; in order of their node, then id. They keep their epoch, so the fence changes by the node alone.
    /// Call it until it returns nothing.
    ///
    /// A store that only one process can open is one host, whatever it was called: all active attempts of earlier nodes are handed out.
    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// Hands `node` up to `limit` active attempts that are bound to another host than `host` and are lost with it: no node of that host that runs tasks has held a
    /// lease for `lost_for`. An attempt that is asked to stop is lost as soon as no such node holds a lease. They keep their epoch, and are bound to no host any more. In order of their node, then id. Call it until it returns nothing.
    fn reclaim(
        &self,
        node: NodeId,
        host: &HostId,
        lost_for: Millis,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// Up to `limit` deleted tasks that may have files on `host`, in order of their ids. The host removes the files, and then the
    /// [tombstones](Self::remove_tombstones).
    ///
    /// A store that only one process can open is one host, so it has none.
    fn tombstones(&self, host: &HostId, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        let _ = (host, limit);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes the tombstones of `host` for these tasks, whose files are gone. Unknown ones are ignored.
    fn remove_tombstones(&self, host: &HostId, ids: Vec<TaskId>) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (host, ids);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Records that attempt folders are about to be removed. Call it before they are: from then on a copy of the store that was taken earlier,
    /// and put back later, is recognized when it is opened. The folders would have shown what ran since.
    fn record_removal(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Sends a text to another node, or without one to all nodes, whose listeners get it as [`StoreEvent::Message`](crate::store::StoreEvent::Message). Those of the sender may get what is for
    /// all, too. Like every event it may be lost, so nothing may depend on it. Those from one node to another keep their order.
    ///
    /// A store that only one process can open has no other nodes, and drops it.
    fn send(&self, to: Option<NodeId>, text: Arc<str>) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (to, text);
        Box::pin(std::future::ready(Ok(())))
    }
}
