//! A call that arrives twice under one key is one call.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    Event, Principal, Quota, State, Task, UnixMillis,
    store::{CreateError, Created, Idempotency, NewTask, TaskLookup},
};

fn keyed(name: &str, fixture: &Fixture, key: &str, arguments: u8) -> NewTask {
    NewTask {
        idempotency: Some(Idempotency {
            key: key.into(),
            digest: [arguments; 32],
        }),
        ..new_task(name, fixture.node, 1)
    }
}

/// The task that a read finds under `key`.
async fn found(fixture: &Fixture, principal: &str, tool: &str, arguments: u8) -> Option<Task> {
    let found =
        (fixture.store).find_by_idempotency_key(&Principal::named(principal), tool, "key", Some([arguments; 32]));
    found.await.expect("a read")
}

/// The repeat gets the task as it now is, also after a restart and when it is over, and nothing else was written.
pub async fn the_same_call_is_made_once(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = fixture.create(keyed("a", &fixture, "key", 1)).await;
    assert!(first.keyed);
    assert!(!fixture.create(new_task("plain", fixture.node, 1)).await.keyed);
    let mut again = keyed("b", &fixture, "key", 1);
    again.claim = Some((fixture.node, None));
    again.arguments = longhaul_core::Json::trusted("{ }");
    assert_eq!(found(&fixture, "alice", "tool", 1).await, Some(first.clone()));
    assert_eq!(fixture.store.create(again).await, Ok(Created::Existing(first)));
    assert_eq!(fixture.store.get_unscoped(&id("b")).await, Ok(None));

    let claimed = fixture.claim("tool", 1, 2).await;
    let (task, fence) = (&claimed[0].task, fence(&claimed[0].task));
    fixture
        .apply(&task.id, Some(fence), vec![finished("done")], 3)
        .await
        .expect("it ends");
    let usage = fixture.store.usage(None).await;
    let fixture = fixture.restart().await;
    let over = fixture.get_unscoped(&id("a")).await.task;
    assert!(over.is_done() && over.keyed);
    assert_eq!(found(&fixture, "alice", "tool", 1).await, Some(over.clone()));
    let late = fixture.store.create(keyed("c", &fixture, "key", 1)).await;
    assert_eq!(late, Ok(Created::Existing(over)));
    assert_eq!(fixture.store.usage(None).await, usage);
    assert_eq!(
        fixture.store.counts().await.expect("counts").queued,
        1,
        "the one without a key"
    );
}

/// Other arguments under the same key are refused, whatever has become of the first call.
pub async fn a_key_is_not_used_for_another_call(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = fixture.create(keyed("a", &fixture, "key", 1)).await;
    let other = fixture.store.create(keyed("b", &fixture, "key", 2)).await;
    assert_eq!(other, Err(CreateError::IdempotencyKeyConflict));
    assert_eq!(found(&fixture, "alice", "tool", 2).await, None);
    assert_eq!(fixture.store.get_unscoped(&id("b")).await, Ok(None));
    assert_eq!(fixture.get_unscoped(&first.id).await.task, first);
    let whatever = (fixture.store).find_by_idempotency_key(&Principal::named("alice"), "tool", "key", None);
    assert_eq!(whatever.await, Ok(Some(first)));
    fixture.create(keyed("b", &fixture, "another key", 2)).await;
}

/// Invariant 5 too: a key does not show that another principal has used it.
pub async fn a_key_belongs_to_principal_and_tool(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.create(keyed("a", &fixture, "key", 1)).await;
    assert_eq!(found(&fixture, "bob", "tool", 1).await, None);
    assert_eq!(found(&fixture, "alice", "another tool", 1).await, None);
    let mut theirs = keyed("b", &fixture, "key", 2);
    theirs.header.owner.principal = Principal::named("bob");
    fixture.create(theirs).await;
    let mut elsewhere = keyed("c", &fixture, "key", 3);
    elsewhere.header.tool = "another tool".into();
    fixture.create(elsewhere).await;
}

/// No shorter and no longer.
pub async fn a_key_lives_as_long_as_its_task(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut new = keyed("a", &fixture, "key", 1);
    new.outcome = Some(answer_text("no"));
    fixture.create(new).await;
    let deletable = fixture
        .get_unscoped(&id("a"))
        .await
        .task
        .delete_at()
        .expect("it is over");
    let early = UnixMillis(deletable.0 - 1);
    assert_eq!(fixture.store.delete(&host(), vec![id("a")], early).await, Ok(0));
    let other = fixture.store.create(keyed("b", &fixture, "key", 2)).await;
    assert_eq!(other, Err(CreateError::IdempotencyKeyConflict));
    assert_eq!(fixture.store.delete(&host(), vec![id("a")], deletable).await, Ok(1));
    assert_eq!(found(&fixture, "alice", "tool", 1).await, None);
    fixture.create(keyed("b", &fixture, "key", 2)).await;
}

/// Decided in the create's own transaction: of many at once one is new, and the others get it.
pub async fn of_concurrent_calls_one_is_made(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let calls = (0..8).map(|nth| fixture.store.create(keyed(&format!("t{nth}"), &fixture, "key", 1)));
    let made = together(calls.collect()).await;
    let made: Vec<Created> = made.into_iter().map(|made| made.expect("an answer")).collect();
    let new: Vec<_> = made.iter().filter(|made| matches!(made, Created::New(_))).collect();
    assert_eq!(new.len(), 1);
    assert!(made.iter().all(|other| other.task() == new[0].task()));
    assert_eq!(fixture.store.counts().await.expect("counts").queued, 1);
}

/// A call with a key is never orphaned, is stored like an announced one, and can be announced to a caller that returns, also when it
/// is over. A full quota does not refuse that caller.
pub async fn a_caller_with_a_key_can_return(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut plain = keyed("a", &fixture, "key", 1);
    plain.announced = false;
    fixture.create(plain.clone()).await;
    let fixture = fixture.restart().await;
    assert_eq!(
        fixture.store.find(TaskLookup::OrphanedCalls(fixture.node), 10).await,
        Ok(vec![])
    );
    assert_eq!(fixture.get("alice", &id("a")).await, None, "it is not shown");
    let claimed = fixture.claim("tool", 1, 2).await;
    let fence = fence(&claimed[0].task);
    fixture
        .apply(&id("a"), Some(fence), vec![finished("done")], 3)
        .await
        .expect("it ends");
    let expired = fixture.store.expired(UnixMillis(HOUR as i64), 10).await;
    assert_eq!(expired, Ok(vec![]), "it stays for its retention");

    plain.quota = Quota {
        live_in_all: Some(0),
        bytes_in_all: Some(0),
        ..Quota::default()
    };
    let found = fixture.store.create(plain).await.expect("it exists");
    assert!(matches!(found.task().state, State::Done(_)));
    let promoted = fixture.apply(&id("a"), None, vec![Event::Promoted], 5).await;
    promoted.expect("it can be announced");
    let record = fixture.get("alice", &id("a")).await.expect("it is shown");
    assert_eq!(record.outcome, Some(answer_text("done")));
}
