//! The permits of nodes. Only for stores that [many nodes](longhaul_core::store::StoreCapabilities::many_nodes) share; the division itself is tested in core.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    HostId, NodeId, UnixMillis,
    store::{PermitReport, PermitRequest, StoreError},
};

impl Fixture {
    /// Reports that `node` uses so many permits and wants so many; returns how many it may use.
    async fn report(&self, node: NodeId, number: u64, used: usize, wanted: usize) -> Result<usize, StoreError> {
        let request = PermitRequest {
            tool: "tool".into(),
            used,
            wanted,
        };
        let report = PermitReport {
            number,
            requests: vec![request],
        };
        Ok(self
            .store
            .share_permits(node, report)
            .await?
            .first()
            .expect("an answer")
            .count)
    }

    async fn node_of(&self, host: &str) -> NodeId {
        let lease = self.store.open_node(&HostId(host.into()).into(), UnixMillis(0)).await;
        lease.expect("another host").node
    }
}

/// Nodes share the limit of a tool; what one gives back another may use.
pub async fn nodes_share_the_limit_of_a_tool(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    fixture.store.put_limit("tool", Some(3), None).await.expect("a limit");
    let (one, two) = (fixture.node, fixture.node_of("there").await);
    assert_eq!(fixture.report(one, 1, 0, 3).await, Ok(3));
    assert_eq!(fixture.report(two, 1, 0, 3).await, Ok(0));
    assert_eq!(
        fixture.report(one, 2, 3, 3).await,
        Ok(2),
        "it uses three and is to give one back"
    );
    assert_eq!(fixture.report(two, 2, 0, 3).await, Ok(0), "not before it is given back");
    assert_eq!(fixture.report(one, 3, 2, 3).await, Ok(2));
    assert_eq!(fixture.report(two, 3, 0, 3).await, Ok(1));
    // A tool that is not listed is given back as a whole.
    let nothing = PermitReport {
        number: 4,
        requests: vec![],
    };
    assert_eq!(fixture.store.share_permits(one, nothing).await, Ok(vec![]));
    assert_eq!(fixture.report(two, 4, 1, 3).await, Ok(3));
}

/// A report that arrives after a later one would give permits away that are in use.
pub async fn a_late_report_changes_nothing(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    fixture.store.put_limit("tool", Some(1), None).await.expect("a limit");
    let (one, two) = (fixture.node, fixture.node_of("there").await);
    assert_eq!(fixture.report(one, 2, 0, 1).await, Ok(1));
    for number in [1, 2] {
        assert!(matches!(
            fixture.report(one, number, 0, 0).await,
            Err(StoreError::Failed(_))
        ));
    }
    assert_eq!(fixture.report(two, 1, 0, 1).await, Ok(0), "the first node may use it");
}

/// What a dead node ran still counts until it is taken over; the rest is free.
pub async fn attempts_of_dead_nodes_keep_their_permits(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    fixture.store.put_limit("tool", Some(3), None).await.expect("a limit");
    let (one, two) = (fixture.node, fixture.node_of("there").await);
    assert_eq!(fixture.report(one, 1, 0, 3).await, Ok(3));
    fixture.running("a", 1).await;
    fixture.store.end_lease(one).await.expect("given up");
    assert_eq!(fixture.report(one, 2, 1, 3).await, Err(StoreError::LeaseLost));
    assert_eq!(fixture.report(two, 1, 0, 3).await, Ok(2));
    let there = HostId("there".into());
    let adopted = fixture.store.adopt(two, &there, 9, UnixMillis(2)).await;
    assert_eq!(adopted.expect("adopted").len(), 1);
    assert_eq!(fixture.report(two, 2, 3, 3).await, Ok(3));
}
