//! Which nodes live, and what they hold.

use super::{NewSubject, fixture::*};
use longhaul_core::{
    CancelMode, Event, HostId, Millis, StopReason, UnixMillis,
    store::{ApplyError, Change, HeldAttempt, Lease, StoreError},
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
    let lease = fixture.store.open_node(&host(), UnixMillis(5)).await.expect("a node");
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
        fixture.store.open_node(&host(), UnixMillis(0)).await,
        Err(StoreError::HostInUse(left)) if left > 0
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
    assert!(fixture.store.open_node(&host(), UnixMillis(0)).await.is_ok());
}

/// What is bound to a host that does not come back is lost after a while, and then another node may end it.
pub async fn attempts_are_lost_with_their_host(new_subject: NewSubject) {
    const LOST_FOR: Millis = 600_000;
    let mut fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let (there, Lease { node: other, .. }) = fixture.other_host().await;
    let mut new = new_task("a", fixture.node, 1);
    new.claim = Some((fixture.node, Some(host())));
    let task = fixture.create(new).await;
    let old = fence(&task);
    fixture.store.end_lease(fixture.node).await.expect("given up");
    assert_eq!(fixture.store.adopt(other, &there, 9, UnixMillis(2)).await, Ok(vec![]));
    let reclaim = || fixture.store.reclaim(other, &there, LOST_FOR, 9, UnixMillis(2));
    assert_eq!(reclaim().await, Ok(vec![]));
    // The host comes back for a while, and adopts nothing.
    fixture.subject.pass(LOST_FOR / 2);
    let back = fixture
        .store
        .open_node(&host(), UnixMillis(0))
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
        .open_node(&host(), UnixMillis(0))
        .await
        .expect("a node")
        .node;
    assert_eq!(fixture.store.adopt(back, &host(), 9, UnixMillis(4)).await, Ok(vec![]));
}

impl Fixture {
    /// A node of a second host.
    async fn other_host(&self) -> (HostId, Lease) {
        let there = HostId("there".into());
        let lease = self.store.open_node(&there, UnixMillis(0)).await;
        (there, lease.expect("another host"))
    }

    async fn holds_nothing_for(&self, node: longhaul_core::NodeId) {
        let there = HostId("there".into());
        assert_eq!(self.store.adopt(node, &there, 9, UnixMillis(2)).await, Ok(vec![]));
        assert_eq!(self.store.orphaned_calls(node, 9).await, Ok(vec![]));
    }
}
