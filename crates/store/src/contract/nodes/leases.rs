//! Which nodes live, and what they hold.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    CancelMode, Event, HostId, Millis, NodeId, StopReason, Task, UnixMillis,
    store::{
        ApplyError, Change, EventDelivery, GiveUpError, HOST_GIVEN_UP, HeldAttempt, Lease, LeaseStatus, NewNode,
        NodeRole, NodeStatus, StoreError, TaskLookup,
    },
};

/// A renewal lists the active attempts of the node, and which of them are to stop.
pub async fn a_renewal_lists_what_the_node_holds(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for name in ["a", "b", "c", "d"] {
        fixture.running(name, 1).await;
    }
    fixture.create(new_task("queued", fixture.node, 1)).await;
    for (name, mode) in [("b", CancelMode::AtOnce), ("c", CancelMode::Cooperative)] {
        fixture
            .apply(&id(name), None, vec![Event::CancelRequested(mode)], 2)
            .await
            .expect("cancelled");
    }
    let (_, ended) = fixture.running("e", 1).await;
    fixture
        .apply(&id("e"), Some(ended), vec![finished("e")], 2)
        .await
        .expect("it ends");
    let renewal = fixture.store.renew(fixture.node).await.expect("renewed");
    let held = |name, stop| HeldAttempt {
        task: id(name),
        epoch: 1,
        stop,
    };
    let stop = Some(StopReason::Cancel);
    assert_eq!(
        renewal.held,
        [held("a", None), held("b", stop), held("c", stop), held("d", None)]
    );
    let claimed = fixture.store.held(fixture.node, &id("a")).await.expect("read");
    let claimed = claimed.expect("it is held");
    assert_eq!(claimed.task, fixture.get_unscoped(&id("a")).await.task);
    assert_eq!(claimed.arguments.as_str(), r#"{"of":"a"}"#);
    for not_held in ["e", "queued", "unknown"] {
        assert_eq!(fixture.store.held(fixture.node, &id(not_held)).await, Ok(None));
    }
}

/// After a restart the node of before has lost its lease, and with it whatever it held.
pub async fn the_node_before_has_lost_its_lease(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, _) = fixture.running("a", 1).await;
    let before = fixture.node;
    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.renew(before).await, Err(StoreError::LeaseLost));
    assert_eq!(
        fixture.store.renew(before).await,
        Err(StoreError::LeaseLost),
        "for ever"
    );
    let renewal = fixture.store.renew(fixture.node).await.expect("renewed");
    assert_eq!(renewal.held, []);
    assert_eq!(fixture.store.held(fixture.node, &task.id).await, Ok(None));
    let adopted = fixture.store.adopt(fixture.node, &host(), 9, UnixMillis(2)).await;
    assert_eq!(adopted.expect("adopted").len(), 1);
    let renewal = fixture.store.renew(fixture.node).await.expect("renewed");
    assert_eq!(renewal.held.len(), 1);
}

/// Where many nodes share a store their leases end; where one process owns it, its node lives as long as the process.
pub async fn leases_end_where_nodes_are_many(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.store.end_lease(fixture.node).await.expect("given up");
    let lease = fixture
        .store
        .open_node(&host().into(), UnixMillis(5))
        .await
        .expect("a node");
    assert!(lease.node > fixture.node);
    let many_nodes = fixture.store.capabilities().many_nodes;
    assert_eq!((lease.length.is_some(), lease.now.is_some()), (many_nodes, many_nodes));
}

/// Only for stores that [many nodes](longhaul_core::store::StoreCapabilities::many_nodes) share.
pub async fn a_lease_ends_unless_it_is_renewed(new_subject: NewSubject) {
    let mut fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let (there, lease) = fixture.other_host().await;
    assert!(matches!(
        fixture.store.open_node(&host().into(), UnixMillis(0)).await,
        Err(StoreError::HostInUse { left, .. }) if left > 0
    ));
    let (other, length) = (lease.node, lease.length.expect("a length"));
    let (task, _) = fixture.running("a", 1).await;
    fixture.holds_nothing_for(other).await;

    // Both renew in time, also long after their leases began.
    for _ in 0..6 {
        fixture.subject.pass(length / 2);
        for node in [fixture.node, other] {
            let renewal = fixture.store.renew(node).await.expect("renewed");
            assert!(!renewal.others_died);
        }
    }
    // One does not.
    let mut died = false;
    for _ in 0..3 {
        fixture.subject.pass(length / 2);
        died |= fixture.store.renew(other).await.expect("renewed").others_died;
    }
    assert!(died);
    assert_eq!(fixture.store.renew(fixture.node).await, Err(StoreError::LeaseLost));
    let adopted = fixture
        .store
        .adopt(other, &there, 9, UnixMillis(2))
        .await
        .expect("adopted");
    assert_eq!(adopted.len(), 1);
    assert_eq!(adopted[0].task.id, task.id);
    assert_eq!(
        fixture.store.adopt(fixture.node, &host(), 9, UnixMillis(2)).await,
        Ok(vec![]),
        "a dead node takes nothing"
    );
}

/// After the store was out of reach, no node is dead until it had time to renew.
pub async fn leases_that_ran_out_together_are_renewed(new_subject: NewSubject) {
    let mut fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let (_, lease) = fixture.other_host().await;
    let (other, length) = (lease.node, lease.length.expect("a length"));
    fixture.running("a", 1).await;
    fixture.subject.pass(10 * length);
    for node in [other, fixture.node, other] {
        let renewal = fixture.store.renew(node).await.expect("it was given time");
        assert!(!renewal.others_died);
        fixture.subject.pass(length / 3);
    }
    fixture.holds_nothing_for(other).await;
}

/// A lease that was given up is over at once, and its host is free.
pub async fn a_lease_can_be_given_up(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let (there, Lease { node: other, .. }) = fixture.other_host().await;
    fixture.running("a", 1).await;
    assert!(!fixture.store.renew(other).await.expect("renewed").others_died);
    fixture.store.end_lease(fixture.node).await.expect("given up");
    assert!(
        fixture.store.renew(other).await.expect("renewed").others_died,
        "it is told"
    );
    assert!(!fixture.store.renew(other).await.expect("renewed").others_died, "once");
    let mut claimed = new_task("b", fixture.node, 2);
    claimed.claim = Some((fixture.node, None));
    let refused = fixture.store.create(claimed).await;
    assert_eq!(refused, Err(StoreError::LeaseLost.into()), "a dead node claims nothing");
    let adopted = fixture
        .store
        .adopt(other, &there, 9, UnixMillis(2))
        .await
        .expect("adopted");
    assert_eq!(adopted.len(), 1);
    assert!(fixture.store.open_node(&host().into(), UnixMillis(0)).await.is_ok());
}

/// What is bound to a host that does not come back is lost after a while, and then another node may end it.
pub async fn attempts_are_lost_with_their_host(new_subject: NewSubject) {
    const LOST_FOR: Millis = 600_000;
    let mut fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let (there, Lease { node: other, .. }) = fixture.other_host().await;
    let task = fixture.bound_to_its_host("a").await;
    let old = fence(&task);
    fixture.store.end_lease(fixture.node).await.expect("given up");
    assert_eq!(fixture.store.adopt(other, &there, 9, UnixMillis(2)).await, Ok(vec![]));
    let reclaim = || fixture.store.reclaim(other, &there, LOST_FOR, 9, UnixMillis(2));
    assert_eq!(reclaim().await, Ok(vec![]));
    // The host comes back for a while, and adopts nothing.
    fixture.subject.pass(LOST_FOR / 2);
    let back = fixture
        .store
        .open_node(&host().into(), UnixMillis(0))
        .await
        .expect("a node")
        .node;
    fixture.subject.pass(LOST_FOR / 2);
    let reclaim = || fixture.store.reclaim(other, &there, LOST_FOR, 9, UnixMillis(2));
    assert_eq!(reclaim().await, Ok(vec![]), "its host has a lease");
    fixture.store.end_lease(back).await.expect("given up");
    assert_eq!(reclaim().await, Ok(vec![]), "its host had one until now");
    fixture.subject.pass(LOST_FOR);
    let reclaim = || fixture.store.reclaim(other, &there, LOST_FOR, 9, UnixMillis(2));
    let reclaimed = reclaim().await.expect("reclaimed");
    assert_eq!(reclaimed.len(), 1);
    let attempt = reclaimed[0].task.active_attempt().expect("an attempt");
    assert_eq!((attempt.node, attempt.epoch, &attempt.host), (other, 1, &None));
    assert_eq!(reclaim().await, Ok(vec![]));
    let late = Change {
        fence: Some(old),
        ..Change::of(&task.id, finished("late"), UnixMillis(3))
    };
    assert_eq!(fixture.store.apply(late).await, Err(ApplyError::Stale));
    // Its host comes back.
    let back = fixture
        .store
        .open_node(&host().into(), UnixMillis(0))
        .await
        .expect("a node")
        .node;
    assert_eq!(fixture.store.adopt(back, &host(), 9, UnixMillis(4)).await, Ok(vec![]));
}

/// A front takes nothing back, so what is bound to its host is lost though it lives.
pub async fn a_front_keeps_nothing_of_its_host(new_subject: NewSubject) {
    const LOST_FOR: Millis = 600_000;
    let mut fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let (there, Lease { node: other, .. }) = fixture.other_host().await;
    fixture.bound_to_its_host("a").await;
    fixture.store.end_lease(fixture.node).await.expect("given up");
    let front = NewNode {
        role: NodeRole::Front,
        ..host().into()
    };
    let front = fixture
        .store
        .open_node(&front, UnixMillis(0))
        .await
        .expect("a node")
        .node;
    let listed = fixture.store.nodes().await.expect("listed");
    let of_dead = listed
        .iter()
        .find(|status| status.node == fixture.node)
        .expect("listed");
    assert!(
        matches!(of_dead.lease, LeaseStatus::Lost { host_lost_for: Some(_) }),
        "{of_dead:?}"
    );
    let reclaim = || fixture.store.reclaim(other, &there, LOST_FOR, 9, UnixMillis(2));
    assert_eq!(reclaim().await, Ok(vec![]));
    fixture.subject.pass(LOST_FOR);
    fixture.store.renew(front).await.expect("it lives");
    let reclaim = || fixture.store.reclaim(other, &there, LOST_FOR, 9, UnixMillis(2));
    assert_eq!(reclaim().await.expect("reclaimed").len(), 1);
}

/// Nobody waits for a host with what is to stop anyway, whoever asks for that.
pub async fn what_is_to_stop_is_lost_with_its_host_at_once(new_subject: NewSubject) {
    const LOST_FOR: Millis = 600_000;
    let fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let (there, Lease { node: other, .. }) = fixture.other_host().await;
    for (name, deadline) in [("a", None), ("b", None), ("c", Some(1)), ("d", None)] {
        let mut new = new_task(name, fixture.node, 1);
        new.claim = Some((fixture.node, Some(host())));
        new.header.deadline = deadline;
        fixture.create(new).await;
    }
    let ask = async |name, event| fixture.apply(&id(name), None, vec![event], 3).await.expect("asked");
    ask("a", Event::CancelRequested(CancelMode::Cooperative)).await;
    let reclaim = || fixture.store.reclaim(other, &there, LOST_FOR, 9, UnixMillis(4));
    assert_eq!(reclaim().await, Ok(vec![]), "its node lives");
    fixture.store.end_lease(fixture.node).await.expect("given up");
    ask("b", Event::CancelRequested(CancelMode::AtOnce)).await;
    ask("c", Event::DeadlinePassed).await;
    let reclaimed = reclaim().await.expect("reclaimed");
    let ids: Vec<_> = reclaimed.iter().map(|claimed| claimed.task.id.clone()).collect();
    assert_eq!(ids, [id("a"), id("b"), id("c")]);
    assert_eq!(reclaim().await, Ok(vec![]));
}

/// An operator knows that a host does not come back.
pub async fn a_host_can_be_given_up(new_subject: NewSubject) {
    const LOST_FOR: Millis = 600_000;
    let fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let (there, Lease { node: other, .. }) = fixture.other_host().await;
    fixture.bound_to_its_host("a").await;
    let give_up = |node| fixture.store.give_up_host(node);
    assert_eq!(give_up(NodeId(4_711)).await, Err(GiveUpError::UnknownNode));
    assert!(
        matches!(give_up(fixture.node).await, Err(GiveUpError::Alive { left, .. }) if left > 0),
        "it lives"
    );
    fixture.store.end_lease(fixture.node).await.expect("given up");
    let reclaim = || fixture.store.reclaim(other, &there, LOST_FOR, 9, UnixMillis(2));
    assert_eq!(reclaim().await, Ok(vec![]));
    assert_eq!(give_up(fixture.node).await, Ok(()));
    let listed = fixture.store.nodes().await.expect("listed");
    let host_lost_for = Some(HOST_GIVEN_UP);
    assert_eq!(listed[0].lease, LeaseStatus::Lost { host_lost_for });
    assert_eq!(reclaim().await.expect("reclaimed").len(), 1);
    // A server that is started there later is one like any other.
    let back = fixture
        .store
        .open_node(&host().into(), UnixMillis(0))
        .await
        .expect("a node")
        .node;
    fixture.store.renew(back).await.expect("it lives");
    assert!(matches!(give_up(fixture.node).await, Err(GiveUpError::Alive { .. })));
}

/// A process that is started again on the directory of its predecessor does not wait for the lease of that one. One on a copy of the directory does.
pub async fn a_host_knows_its_own_dead_process(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let on = |directory: Option<&str>| NewNode {
        host: HostId("there".into()),
        name: "jobs".into(),
        address: Some("http://127.0.0.1:7411/mcp".into()),
        directory: directory.map(Into::into),
        role: NodeRole::Both,
    };
    let open = |directory| {
        let new = on(directory);
        let store = &fixture.store;
        async move { store.open_node(&new, UnixMillis(0)).await }
    };
    let first = open(Some("a")).await.expect("a node").node;
    for other in [Some("copy"), None] {
        let refused = open(other).await;
        assert!(
            matches!(&refused, Err(StoreError::HostInUse { by, left }) if *left > 0
                && *by == NodeStatus::describe(first, "jobs", Some("http://127.0.0.1:7411/mcp"))),
            "{other:?}: {refused:?}"
        );
    }
    let second = open(Some("a")).await.expect("the process before is dead").node;
    assert_eq!(fixture.store.renew(first).await, Err(StoreError::LeaseLost));
    fixture.store.renew(second).await.expect("it lives");
    // One that gave no directory may live as long as its lease lasts.
    fixture.store.end_lease(second).await.expect("given up");
    open(None).await.expect("a node");
    assert!(matches!(open(None).await, Err(StoreError::HostInUse { .. })));
}

/// Nodes that live are listed, and dead ones as long as they hold attempts.
pub async fn nodes_are_listed(new_subject: NewSubject) {
    let mut fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let named = NewNode {
        name: "jobs\0".into(),
        address: Some("http://127.0.0.1:7411/mcp".into()),
        role: NodeRole::Worker,
        ..HostId("there".into()).into()
    };
    let lease = fixture.store.open_node(&named, UnixMillis(7)).await.expect("a node");
    for (name, host) in [("a", Some(host())), ("b", None)] {
        let mut new = new_task(name, fixture.node, 1);
        new.claim = Some((fixture.node, host));
        fixture.create(new).await;
    }
    let here = |lease, attempts, bound_attempts| NodeStatus {
        node: fixture.node,
        host: host(),
        name: "".into(),
        address: None,
        role: NodeRole::Both,
        opened_at: UnixMillis(0),
        lease,
        delivery: EventDelivery::default(),
        attempts,
        bound_attempts,
    };
    let there = NodeStatus {
        node: lease.node,
        host: named.host.clone(),
        name: named.name,
        address: named.address,
        role: NodeRole::Worker,
        opened_at: UnixMillis(7),
        lease: LeaseStatus::Unlimited,
        delivery: EventDelivery::default(),
        attempts: 0,
        bound_attempts: 0,
    };
    let lasts = |status: &NodeStatus| matches!(status.lease, LeaseStatus::Held(left) if left > 0 && left <= lease.length.unwrap_or_default());
    let without_lease = |mut status: NodeStatus| {
        status.lease = LeaseStatus::Unlimited;
        status
    };
    let listed = fixture.store.nodes().await.expect("listed");
    assert!(listed.iter().all(lasts), "{listed:?}");
    let listed: Vec<NodeStatus> = listed.into_iter().map(without_lease).collect();
    assert_eq!(listed, [here(LeaseStatus::Unlimited, 2, 1), there.clone()]);

    fixture.store.end_lease(fixture.node).await.expect("given up");
    let host_lost_for = |listed: &[NodeStatus]| match listed[0].lease {
        LeaseStatus::Lost { host_lost_for } => host_lost_for,
        _ => panic!("its lease is lost: {listed:?}"),
    };
    let before = host_lost_for(&fixture.store.nodes().await.expect("listed")).expect("its host is away");
    fixture.subject.pass(1_000);
    let after = host_lost_for(&fixture.store.nodes().await.expect("listed")).expect("its host is away");
    assert!(after >= before + 1_000, "{before} {after}");
    // What is bound to no host goes to any other one.
    let adopted = fixture.store.adopt(lease.node, &named.host, 9, UnixMillis(2)).await;
    assert_eq!(adopted.expect("adopted").len(), 1);
    let back = fixture
        .store
        .open_node(&host().into(), UnixMillis(9))
        .await
        .expect("a node")
        .node;
    let listed = fixture.store.nodes().await.expect("listed");
    assert_eq!(host_lost_for(&listed), None, "its host is back");
    assert_eq!((listed[0].attempts, listed[0].bound_attempts), (1, 1));
    let adopted = fixture.store.adopt(back, &host(), 9, UnixMillis(2)).await;
    assert_eq!(adopted.expect("adopted").len(), 1);
    let listed = fixture.store.nodes().await.expect("listed");
    let ids: Vec<_> = listed.iter().map(|status| (status.node, status.attempts)).collect();
    assert_eq!(
        ids,
        [(lease.node, 1), (back, 1)],
        "one that is dead and holds nothing is not listed"
    );
}

impl Fixture {
    /// A node of a second host.
    async fn other_host(&self) -> (HostId, Lease) {
        let there = HostId("there".into());
        let lease = self.store.open_node(&there.clone().into(), UnixMillis(0)).await;
        (there, lease.expect("another host"))
    }

    /// A running task that is bound to the host of the fixture's node.
    async fn bound_to_its_host(&self, name: &str) -> Task {
        let mut new = new_task(name, self.node, 1);
        new.claim = Some((self.node, Some(host())));
        self.create(new).await
    }

    async fn holds_nothing_for(&self, node: longhaul_core::NodeId) {
        let there = HostId("there".into());
        assert_eq!(self.store.adopt(node, &there, 9, UnixMillis(2)).await, Ok(vec![]));
        assert_eq!(self.store.find(TaskLookup::OrphanedCalls(node), 9).await, Ok(vec![]));
    }
}
