//! What deleted tasks leave to the hosts that have files of them.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AttemptEnd, Event, HostId, Task, TaskId, UnixMillis,
    store::{Claim, TOMBSTONE_RETENTION},
};

const FAR: UnixMillis = UnixMillis(1 << 40);

/// Whoever deletes a task leaves a tombstone to each other host that its attempts were bound to, and none in a store of one process.
pub async fn the_host_of_the_files_learns_of_a_deletion(new_subject: NewSubject) {
    let mut fixture = Fixture::new(new_subject).await;
    let many_nodes = fixture.store.capabilities().many_nodes;
    let (there, elsewhere) = (HostId("there".into()), HostId("elsewhere".into()));
    for (name, bound) in [
        ("a", Some(host())),
        ("b", None),
        ("c", Some(there.clone())),
        ("d", Some(host())),
        ("e", Some(there.clone())),
    ] {
        fixture.ended(name, bound).await;
    }
    let queued = fixture.create(new_task("queued", fixture.node, 1)).await;
    let all: Vec<TaskId> = ["a", "b", "c", "d", "queued"].map(id).into();
    let early = UnixMillis(3);
    assert_eq!(fixture.store.delete(&there, all.clone(), early).await, Ok(0));
    assert_eq!(fixture.tombstones(&host()).await, [], "what is not deleted leaves none");
    assert_eq!(fixture.store.delete(&there, all, FAR).await, Ok(4));
    fixture.get_unscoped(&queued.id).await;
    let expected = |ids: &[&str]| {
        if many_nodes {
            ids.iter().map(|name| id(name)).collect()
        } else {
            Vec::new()
        }
    };
    assert_eq!(fixture.tombstones(&host()).await, expected(&["a", "d"]));
    assert_eq!(fixture.tombstones(&there).await, [], "it has deleted what it had");
    assert_eq!(
        fixture.store.delete(&elsewhere, vec![id("e"), id("a")], FAR).await,
        Ok(1)
    );
    assert_eq!(fixture.tombstones(&there).await, expected(&["e"]));

    fixture = fixture.restart().await;
    let first = fixture.store.tombstones(&host(), 1).await.expect("read");
    assert_eq!(first, expected(&["a"]));
    let done = vec![id("a"), id("unknown")];
    fixture.store.remove_tombstones(&host(), done).await.expect("removed");
    assert_eq!(fixture.tombstones(&host()).await, expected(&["d"]));
    // Their hosts do not come back.
    let kept_until = FAR.plus(TOMBSTONE_RETENTION);
    let just_before = UnixMillis(kept_until.0 - 1);
    assert_eq!(fixture.store.delete(&there, vec![], just_before).await, Ok(0));
    assert_eq!(fixture.tombstones(&host()).await, expected(&["d"]));
    assert_eq!(fixture.store.delete(&there, vec![], kept_until).await, Ok(0));
    for host in [host(), there, elsewhere] {
        assert_eq!(fixture.tombstones(&host).await, []);
    }
}

/// A host keeps the files of an attempt that was taken from it, and learns when they are not needed any more.
pub async fn a_host_that_lost_an_attempt_learns_of_the_deletion(new_subject: NewSubject) {
    const LOST_FOR: u64 = 600_000;
    let mut fixture = Fixture::new(new_subject).await;
    if !fixture.store.capabilities().many_nodes {
        return;
    }
    let there = HostId("there".into());
    let lease = fixture.store.open_node(&there.clone().into(), UnixMillis(0)).await;
    let node_there = lease.expect("another host").node;
    let mut new = new_task("a", fixture.node, 1);
    new.claim = Some((fixture.node, Some(host())));
    fixture.create(new).await;
    fixture.store.end_lease(fixture.node).await.expect("given up");
    fixture.subject.pass(LOST_FOR);
    let lost = fixture
        .store
        .reclaim(node_there, &there, LOST_FOR, 9, UnixMillis(2))
        .await;
    let lost = lost.expect("reclaimed").remove(0).task;
    let crashed = Event::AttemptEnded(AttemptEnd::Failed {
        outcome: answer_text("lost"),
        retry_at: Some(UnixMillis(3)),
        asks_again: false,
    });
    let queued = fixture.apply(&lost.id, Some(fence(&lost)), vec![crashed], 3).await;
    queued.expect("it is tried again");
    let claim = Claim {
        tool: "tool".into(),
        node: node_there,
        host: Some(there.clone()),
        limit: 1,
        at: UnixMillis(4),
        rate: None,
    };
    let again = fixture.store.claim(claim).await.expect("claimed").remove(0).task;
    fixture
        .apply(&again.id, Some(fence(&again)), vec![finished("there")], 5)
        .await
        .expect("it ends");
    assert_eq!(
        fixture.store.delete(&HostId("third".into()), vec![id("a")], FAR).await,
        Ok(1)
    );
    assert_eq!(fixture.tombstones(&host()).await, [id("a")]);
    assert_eq!(fixture.tombstones(&there).await, [id("a")]);
}

impl Fixture {
    /// A finished task whose attempt was bound to a host.
    async fn ended(&self, name: &str, bound: Option<HostId>) -> Task {
        let mut new = new_task(name, self.node, 1);
        new.claim = Some((self.node, bound));
        let task = self.create(new).await;
        let end = self.apply(&task.id, Some(fence(&task)), vec![finished(name)], 2).await;
        end.expect("it ends")
    }

    async fn tombstones(&self, host: &HostId) -> Vec<TaskId> {
        self.store.tombstones(host, 9).await.expect("read")
    }
}
