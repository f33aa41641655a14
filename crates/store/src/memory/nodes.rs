//! The nodes of a store in memory, and which of them have lost their leases.

use longhaul_core::{
    Clock, HostId, Millis, NodeId, UnixMillis,
    store::{EventDelivery, GiveUpError, HOST_GIVEN_UP, Lease, LeaseStatus, NewNode, NodeStatus, StoreError},
};
use std::{collections::BTreeMap, sync::Arc};

/// When a lease was lost whose host was given up: longer ago than any span.
const GIVEN_UP: UnixMillis = UnixMillis(i64::MIN);

/// All nodes that were opened.
#[derive(Default)]
pub(super) struct Nodes {
    opened: i64,
    /// In a store of many nodes. In a store of one process, each node has proven that all before it are dead.
    leases: Option<Leases>,
}

/// Leases by the clock of the store.
struct Leases {
    clock: Arc<dyn Clock>,
    length: Millis,
    of_nodes: BTreeMap<NodeId, NodeLease>,
    /// How many were lost so far.
    lost: u64,
}

struct NodeLease {
    new: NewNode,
    opened_at: UnixMillis,
    /// Since when it has been held without a gap.
    since: UnixMillis,
    ends_at: UnixMillis,
    /// When it was noted that it is lost.
    lost_at: Option<UnixMillis>,
    /// How many leases were lost when it was last renewed.
    losses_seen: u64,
}

impl Nodes {
    pub(super) fn with_leases(clock: Arc<dyn Clock>, length: Millis) -> Self {
        let leases = Leases {
            clock,
            length,
            of_nodes: BTreeMap::new(),
            lost: 0,
        };
        Self {
            opened: 0,
            leases: Some(leases),
        }
    }

    pub(super) fn has_leases(&self) -> bool {
        self.leases.is_some()
    }

    pub(super) fn open(&mut self, new: &NewNode, at: UnixMillis) -> Result<Lease, StoreError> {
        let node = NodeId(self.opened + 1);
        let Some(leases) = &mut self.leases else {
            self.opened += 1;
            return Ok(Lease {
                node,
                now: None,
                length: None,
            });
        };
        let now = leases.clock.now();
        let of_host = |lease: &NodeLease| lease.new.host == new.host;
        for (holder, lease) in &leases.of_nodes {
            let may_live = of_host(lease) && lease.lost_at.is_none() && lease.ends_at > now;
            if may_live && !new.is_on_same_directory(lease.new.directory.as_deref()) {
                return Err(StoreError::HostInUse {
                    by: NodeStatus::describe(*holder, &lease.new.name, lease.new.address.as_deref()),
                    left: lease.ends_at.since(now),
                });
            }
        }
        leases.mark_lost(now, |_, lease| of_host(lease));
        let lease = NodeLease {
            new: new.clone(),
            opened_at: at,
            since: now,
            ends_at: now.plus(leases.length),
            lost_at: None,
            losses_seen: leases.lost,
        };
        leases.of_nodes.insert(node, lease);
        self.opened += 1;
        Ok(Lease {
            node,
            now: Some(now),
            length: Some(leases.length),
        })
    }

    /// Renews a lease. Returns the store's time, and whether other leases were lost since the last renewal.
    pub(super) fn renew(&mut self, node: NodeId) -> Result<(Option<UnixMillis>, bool), StoreError> {
        if self.has_lost_lease(node) {
            return Err(StoreError::LeaseLost);
        }
        let Some(leases) = &mut self.leases else {
            return Ok((None, false));
        };
        let now = leases.clock.now();
        let lease = leases.of_nodes.get_mut(&node).ok_or(StoreError::LeaseLost)?;
        if lease.ends_at <= now {
            lease.since = now;
        }
        lease.ends_at = now.plus(leases.length);
        let losses_seen = lease.losses_seen;
        if lease.since.plus(leases.length) <= now {
            leases.mark_lost(now, |_, lease| lease.ends_at <= now);
        }
        let lost = leases.lost;
        if let Some(lease) = leases.of_nodes.get_mut(&node) {
            lease.losses_seen = lost;
        }
        Ok((Some(now), lost > losses_seen))
    }

    pub(super) fn end(&mut self, node: NodeId) {
        if let Some(leases) = &mut self.leases {
            let now = leases.clock.now();
            leases.mark_lost(now, |id, _| id == node);
        }
    }

    pub(super) fn has_lost_lease(&self, node: NodeId) -> bool {
        match &self.leases {
            Some(leases) => leases.lost_at(node).is_some(),
            None => node.0 < self.opened,
        }
    }

    pub(super) fn may_claim(&self, node: NodeId) -> bool {
        let leases = self.leases.as_ref();
        leases.is_none_or(|leases| leases.lost_at(node).is_none())
    }

    /// All nodes of a store of many, without their attempts.
    pub(super) fn statuses(&self) -> Vec<NodeStatus> {
        let Some(leases) = &self.leases else { return Vec::new() };
        let now = leases.clock.now();
        let status = |(node, lease): (&NodeId, &NodeLease)| NodeStatus {
            node: *node,
            host: lease.new.host.clone(),
            name: Arc::clone(&lease.new.name),
            address: lease.new.address.clone(),
            role: lease.new.role,
            opened_at: lease.opened_at,
            lease: match lease.lost_at {
                None => LeaseStatus::Held(lease.ends_at.since(now)),
                Some(_) => LeaseStatus::Lost {
                    host_lost_for: leases.host_lost_at(&lease.new.host).map(|at| match at {
                        GIVEN_UP => HOST_GIVEN_UP,
                        at => now.since(at),
                    }),
                },
            },
            delivery: EventDelivery::default(),
            attempts: 0,
            bound_attempts: 0,
        };
        leases.of_nodes.iter().map(status).collect()
    }

    /// The time by the clock of the store, if it has one.
    pub(super) fn now(&self) -> Option<UnixMillis> {
        Some(self.leases.as_ref()?.clock.now())
    }

    /// Whether `asking` may take over from `node`.
    pub(super) fn can_be_taken_over(&self, node: NodeId, asking: NodeId) -> bool {
        match &self.leases {
            // One that is dead itself takes over from nobody.
            Some(leases) => leases.lost_at(node).is_some() && leases.lost_at(asking).is_none(),
            None => node < asking,
        }
    }

    /// Whether `asking` may take over from `node` because no node of its host that runs tasks has held a lease for so long.
    pub(super) fn can_be_reclaimed(&self, node: NodeId, asking: NodeId, span: Millis) -> bool {
        let Some(leases) = &self.leases else { return false };
        let Some(NodeLease { new, .. }) = leases.of_nodes.get(&node) else {
            return false;
        };
        let lost_at = leases.host_lost_at(&new.host);
        let is_lost = lost_at.is_some_and(|lost_at| lost_at.plus(span) <= leases.clock.now());
        self.can_be_taken_over(node, asking) && is_lost
    }

    pub(super) fn give_up_host(&mut self, node: NodeId) -> Result<(), GiveUpError> {
        let leases = self.leases.as_mut().ok_or(GiveUpError::UnknownNode)?;
        let given_up = leases.of_nodes.get(&node).ok_or(GiveUpError::UnknownNode)?;
        let (host, now) = (given_up.new.host.clone(), leases.clock.now());
        let alive = leases.runners_of(&host).find(|(_, lease)| lease.lost_at.is_none());
        if let Some((alive, lease)) = alive {
            return Err(GiveUpError::Alive {
                by: NodeStatus::describe(alive, &lease.new.name, lease.new.address.as_deref()),
                left: lease.ends_at.since(now),
            });
        }
        for lease in leases.of_nodes.values_mut() {
            if lease.new.host == host && lease.lost_at.is_some() {
                lease.lost_at = Some(GIVEN_UP);
            }
        }
        Ok(())
    }
}

impl Leases {
    /// Notes that leases are lost.
    fn mark_lost(&mut self, now: UnixMillis, which: impl Fn(NodeId, &NodeLease) -> bool) {
        for (node, lease) in &mut self.of_nodes {
            if lease.lost_at.is_none() && which(*node, lease) {
                lease.lost_at = Some(now);
                self.lost += 1;
            }
        }
    }

    /// The nodes of a host that run tasks: they can take back what is bound to it.
    fn runners_of(&self, host: &HostId) -> impl Iterator<Item = (NodeId, &NodeLease)> {
        let is_runner = |lease: &NodeLease| lease.new.host == *host && lease.new.role.runs_tasks();
        let of_nodes = self.of_nodes.iter().filter(move |(_, lease)| is_runner(lease));
        of_nodes.map(|(node, lease)| (*node, lease))
    }

    /// Since when no node of a host that runs tasks has a lease; `None` if one has.
    fn host_lost_at(&self, host: &HostId) -> Option<UnixMillis> {
        let lost_at: Option<Vec<UnixMillis>> = self.runners_of(host).map(|(_, lease)| lease.lost_at).collect();
        lost_at?.into_iter().max()
    }

    /// A node that was never opened has none.
    fn lost_at(&self, node: NodeId) -> Option<UnixMillis> {
        self.of_nodes.get(&node)?.lost_at
    }
}
