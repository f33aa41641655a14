//! A task that another one starts: together with its parent's entry, and its end with its parent's.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AttemptEnd, CancelMode, ChildEntry, Event, Fence, Lineage, MAX_ENTRY_BYTES, NodeId, Outcome, Quota, Reason, State,
    Task, TaskId, UnixMillis,
    store::{ApplyError, Change, CreateError, Created, Idempotency, NewTask, ParentEntry, StoreEvent, TaskLookup},
};
use std::sync::{Arc, Mutex};

/// A task of another queue, started by `parent` as its entry `entry`.
fn child(name: &str, parent: &TaskId, fence: Fence, entry: u32) -> NewTask {
    let mut new = new_task(name, fence.node, 5);
    let started = ChildEntry {
        task: new.id.clone(),
        outcome: None,
    };
    let mut place = step(entry, "tests");
    place.key.kind = longhaul_core::EntryKind::Child;
    place.value = started.to_json();
    new.header.tool = "tests".into();
    new.header.lineage = Some(Lineage {
        parent: parent.clone(),
        entry,
        root: parent.clone(),
        depth: 1,
    });
    new.parent = Some(ParentEntry { fence, entry: place });
    new
}

async fn child_entry(fixture: &Fixture, parent: &TaskId, entry: usize) -> ChildEntry {
    let journal = fixture.journal(parent).await;
    ChildEntry::from_json(&journal[entry - 1].value).expect("the outcome of a child")
}

fn ended(name: &str, outcome: Outcome) -> ChildEntry {
    ChildEntry {
        task: id(name),
        outcome: Some(outcome),
    }
}

fn ids(tasks: Result<Vec<Task>, longhaul_core::store::StoreError>) -> Vec<TaskId> {
    tasks.expect("tasks").into_iter().map(|task| task.id.clone()).collect()
}

/// A reader that sees the child's end also finds its outcome in the parent's journal, and the parent queued.
pub async fn a_childs_end_reaches_its_parent_with_it(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (parent, fence) = fixture.running("a", 1).await;
    let created = fixture.create(child("b", &parent.id, fence, 1)).await;
    let lineage = created.lineage.clone().expect("a lineage");
    assert_eq!((&lineage.parent, lineage.entry, lineage.depth), (&parent.id, 1, 1));
    assert_eq!(child_entry(&fixture, &parent.id, 1).await.outcome, None);
    fixture.create(child("c", &parent.id, fence, 2)).await;
    let seen = fixture.get_unscoped(&parent.id).await.task;
    assert_eq!((seen.journaled, seen.woken), (2, 0));
    let end = AttemptEnd::Suspended {
        until: None,
        woken: seen.woken,
    };
    let suspended = fixture
        .apply(&parent.id, Some(fence), vec![Event::AttemptEnded(end)], 6)
        .await
        .expect("it waits");
    assert!(suspended.is_suspended());

    let fixture = fixture.restart().await;
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = events.clone();
    fixture.store.listen(Arc::new(move |events: &[StoreEvent]| {
        heard.lock().expect("the listener's lock").extend_from_slice(events);
    }));
    let claimed = fixture.claim("tests", 1, 7).await;
    assert_eq!(claimed[0].task, fixture.get_unscoped(&id("b")).await.task);
    let fence = claimed[0].task.active_attempt().expect("an attempt").fence();
    fixture
        .apply(&id("b"), Some(fence), vec![finished("passed")], 8)
        .await
        .expect("it ends");
    let after = fixture.get_unscoped(&parent.id).await.task;
    assert_eq!(
        (after.state, after.woken, after.ready_at),
        (State::Queued, 1, UnixMillis(8))
    );
    assert_eq!(
        child_entry(&fixture, &parent.id, 1).await,
        ended("b", answer_text("passed"))
    );
    assert_eq!(child_entry(&fixture, &parent.id, 2).await.outcome, None);

    // However it ends: cancelled while it waits for a slot.
    let cancel = Event::CancelRequested(CancelMode::Cooperative);
    fixture.apply(&id("c"), None, vec![cancel], 9).await.expect("cancelled");
    assert_eq!(
        child_entry(&fixture, &parent.id, 2).await,
        ended("c", Outcome::Cancelled)
    );
    let last = fixture.get_unscoped(&parent.id).await.task;
    assert_eq!((last.state, last.woken), (State::Queued, 2));
    let fixture = fixture.restart().await;
    assert_eq!(
        child_entry(&fixture, &parent.id, 1).await,
        ended("b", answer_text("passed"))
    );
    assert_eq!(
        child_entry(&fixture, &parent.id, 2).await,
        ended("c", Outcome::Cancelled)
    );
    if fixture.store.capabilities().many_nodes {
        // Its events may be lost.
        return;
    }
    let events = events.lock().expect("the events");
    let told = |task: &TaskId, version| {
        let told = |event: &StoreEvent| matches!(event, StoreEvent::TaskChanged(hint) if hint.task == *task && hint.version >= version);
        events.iter().any(told)
    };
    assert!(told(&parent.id, last.version) && told(&parent.id, after.version));
}

/// An outcome that is too long for an entry is replaced by a note, and can be read from the child.
pub async fn a_childs_long_end_is_its_own(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (parent, fence) = fixture.running("a", 1).await;
    fixture.create(child("b", &parent.id, fence, 1)).await;
    let claimed = fixture.claim("tests", 1, 6).await;
    let held = claimed[0].task.active_attempt().expect("an attempt").fence();
    let words = "x".repeat(2 * MAX_ENTRY_BYTES);
    fixture
        .apply(&id("b"), Some(held), vec![finished(&words)], 7)
        .await
        .expect("it ends");
    let seen = fixture.get_unscoped(&parent.id).await.task;
    assert_eq!(seen.woken, 1);
    let fixture = fixture.restart().await;
    assert_eq!(fixture.get_unscoped(&id("b")).await.outcome, Some(answer_text(&words)));
    let entry = fixture.journal(&parent.id).await.remove(0);
    assert!(entry.value.as_str().len() <= MAX_ENTRY_BYTES);
    let child_end = child_entry(&fixture, &parent.id, 1).await.outcome;
    let Some(Outcome::RpcError(failure)) = child_end else {
        panic!("the parent's entry shows that it is too long, and not {child_end:?}");
    };
    let reason = r#"{"reason":"too_long_for_parent"}"#;
    assert_eq!(failure.data.as_ref().map(|data| data.as_str()), Some(reason));
}

/// The parent's worker must hold its attempt, and the parent must not be asked to stop; else nothing is written of either.
pub async fn a_child_is_written_with_its_parents_entry_or_not_at_all(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (parent, fence) = fixture.running("a", 1).await;
    let state = async || {
        let usage = fixture.store.usage(None).await.expect("usage");
        (
            fixture.get_unscoped(&parent.id).await,
            fixture.journal(&parent.id).await,
            usage,
        )
    };
    let refused = async |new: NewTask| {
        let before = state().await;
        let name = new.id.clone();
        let refused = fixture.store.create(new).await.expect_err("it is refused");
        assert_eq!(fixture.store.get_unscoped(&name).await, Ok(None));
        assert_eq!(state().await, before);
        refused
    };
    let stale = Fence {
        node: NodeId(fence.node.0 + 1),
        ..fence
    };
    assert_eq!(
        refused(child("b", &parent.id, stale, 1)).await,
        CreateError::Parent(ApplyError::Stale)
    );
    assert_eq!(
        refused(child("b", &id("x"), fence, 1)).await,
        CreateError::Parent(ApplyError::NotFound)
    );
    assert_eq!(
        reason(refused(child("b", &parent.id, fence, 2)).await),
        Reason::KeyOutOfOrder
    );
    // A refusal of the child leaves the parent unchanged, too.
    let mut too_much = child("b", &parent.id, fence, 1);
    too_much.quota = Quota {
        live_in_all: Some(1),
        ..Quota::default()
    };
    assert!(matches!(refused(too_much).await, CreateError::Quota(_)));
    let mut unknown = child("b", &parent.id, fence, 1);
    unknown.header.spec = longhaul_core::SpecId::named("never put");
    assert!(matches!(refused(unknown).await, CreateError::Store(_)));

    fixture.create(child("b", &parent.id, fence, 1)).await;
    let cancel = Event::CancelRequested(CancelMode::Cooperative);
    fixture
        .apply(&parent.id, None, vec![cancel], 6)
        .await
        .expect("asked to stop");
    assert_eq!(
        reason(refused(child("c", &parent.id, fence, 2)).await),
        Reason::Stopping
    );
    let stopped = Event::AttemptEnded(AttemptEnd::Stopped(longhaul_core::StopReason::Cancel));
    fixture
        .apply(&parent.id, Some(fence), vec![stopped], 7)
        .await
        .expect("it ends");
    assert_eq!(
        refused(child("c", &parent.id, fence, 2)).await,
        CreateError::Parent(ApplyError::Stale)
    );
}

fn reason(refused: CreateError) -> Reason {
    match refused {
        CreateError::Parent(ApplyError::Illegal(illegal)) => illegal.reason,
        other => panic!("the parent's rules are meant, and not {other:?}"),
    }
}

/// The same call made again is the same child, and its parent writes nothing.
pub async fn a_repeated_call_writes_nothing_of_the_parent(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (parent, fence) = fixture.running("a", 1).await;
    let keyed = |name, entry| NewTask {
        idempotency: Some(Idempotency {
            key: "key".into(),
            digest: [1; 32],
        }),
        ..child(name, &parent.id, fence, entry)
    };
    let first = fixture.create(keyed("b", 1)).await;
    let before = (
        fixture.get_unscoped(&parent.id).await,
        fixture.journal(&parent.id).await,
    );
    let again = fixture.store.create(keyed("c", 2)).await;
    assert_eq!(again, Ok(Created::Existing(first)));
    assert_eq!(
        (
            fixture.get_unscoped(&parent.id).await,
            fixture.journal(&parent.id).await
        ),
        before
    );
}

/// A child that ends as it is created has ended for its parent too.
pub async fn a_child_may_be_over_as_it_is_created(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (parent, fence) = fixture.running("a", 1).await;
    let mut new = child("b", &parent.id, fence, 1);
    new.outcome = Some(Outcome::tool_error("no such file"));
    assert!(fixture.create(new).await.is_done());
    assert_eq!(
        child_entry(&fixture, &parent.id, 1).await,
        ended("b", Outcome::tool_error("no such file"))
    );
    let task = fixture.get_unscoped(&parent.id).await.task;
    assert_eq!((task.journaled, task.woken), (1, 1));
}

/// A parent that is over or deleted is not changed; its child ends all the same (invariant 2).
pub async fn the_end_of_a_child_changes_no_parent_that_is_over(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (parent, fence) = fixture.running("a", 1).await;
    for (name, entry) in [("b", 1), ("c", 2)] {
        fixture.create(child(name, &parent.id, fence, entry)).await;
    }
    let done = fixture
        .apply(&parent.id, Some(fence), vec![finished("done")], 6)
        .await
        .expect("it ends");
    let before = (
        fixture.get_unscoped(&parent.id).await,
        fixture.journal(&parent.id).await,
    );
    let cancel = |name: &str| {
        Change::of(
            &id(name),
            Event::CancelRequested(CancelMode::Cooperative),
            UnixMillis(7),
        )
    };
    assert!(fixture.store.apply(cancel("b")).await.expect("cancelled").is_done());
    assert_eq!(
        (
            fixture.get_unscoped(&parent.id).await,
            fixture.journal(&parent.id).await
        ),
        before
    );
    let at = done.delete_at().expect("it is over");
    assert_eq!(fixture.store.delete(&host(), vec![parent.id.clone()], at).await, Ok(1));
    assert_eq!(
        ids(fixture.store.find(TaskLookup::ChildrenOfFinishedParents, 10).await),
        [id("c")]
    );
    assert!(fixture.store.apply(cancel("c")).await.expect("cancelled").is_done());
    assert_eq!(fixture.store.get_unscoped(&parent.id).await, Ok(None));
}

/// The children that a parent's cancel must reach, and those it did not reach before a crash.
pub async fn children_of_finished_parents_are_found(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut fences = Vec::new();
    for name in ["p", "q", "r"] {
        let (parent, fence) = fixture.running(name, 1).await;
        for (entry, nth) in [(1, 2), (2, 1), (3, 3)] {
            fixture
                .create(child(&format!("{name}{nth}"), &parent.id, fence, entry))
                .await;
        }
        fences.push(fence);
    }
    let children = async |name: &str, limit| ids(fixture.store.find(TaskLookup::ChildrenOf(id(name)), limit).await);
    assert_eq!(children("p", 10).await, ["p1", "p2", "p3"].map(id));
    assert_eq!(children("p", 2).await, ["p1", "p2"].map(id));
    assert_eq!(children("p1", 10).await, []);
    assert_eq!(
        ids(fixture.store.find(TaskLookup::ChildrenOfFinishedParents, 10).await),
        []
    );

    let cancel = || vec![Event::CancelRequested(CancelMode::Cooperative)];
    fixture.apply(&id("p1"), None, cancel(), 6).await.expect("over");
    assert_eq!(children("p", 10).await, ["p2", "p3"].map(id));
    // A child that was already asked to stop is not listed.
    let claimed = fixture.claim("tests", 1, 6).await;
    let asked_to_stop = claimed[0].task.id.clone();
    fixture
        .apply(&asked_to_stop, None, cancel(), 6)
        .await
        .expect("asked to stop");
    let left = |names: &[&str]| -> Vec<TaskId> {
        let all = names.iter().map(|name| id(name));
        all.filter(|name| *name != asked_to_stop).collect()
    };
    assert_eq!(children("p", 10).await, left(&["p2", "p3"]));

    fixture.apply(&id("p"), None, cancel(), 7).await.expect("asked to stop");
    assert_eq!(
        ids(fixture.store.find(TaskLookup::ChildrenOfFinishedParents, 10).await),
        left(&["p2", "p3"])
    );
    fixture
        .apply(&id("r"), Some(fences[2]), vec![finished("without waiting")], 7)
        .await
        .expect("over");
    let all = left(&["p2", "p3", "r1", "r2", "r3"]);
    assert_eq!(
        ids(fixture.store.find(TaskLookup::ChildrenOfFinishedParents, 10).await),
        all
    );
    assert_eq!(
        ids(fixture.store.find(TaskLookup::ChildrenOfFinishedParents, 2).await),
        all[..2]
    );
    assert_eq!(children("q", 10).await, left(&["q1", "q2", "q3"]));
}

/// Also what is over or was asked to stop: it is deleted with its parent.
pub async fn all_that_a_task_started_is_found(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (parent, fence) = fixture.running("p", 1).await;
    for (entry, nth) in [(1, 2), (2, 1), (3, 3)] {
        fixture
            .create(child(&format!("p{nth}"), &parent.id, fence, entry))
            .await;
    }
    let cancel = vec![Event::CancelRequested(CancelMode::Cooperative)];
    let over = fixture.apply(&id("p1"), None, cancel, 6).await.expect("over");
    assert!(over.is_done());
    let started = async |after: Option<&str>, limit| {
        let (parent, after) = (parent.id.clone(), after.map(id));
        ids(fixture.store.find(TaskLookup::StartedBy { parent, after }, limit).await)
    };
    assert_eq!(started(None, 10).await, ["p1", "p2", "p3"].map(id));
    assert_eq!(started(None, 2).await, ["p1", "p2"].map(id));
    assert_eq!(started(Some("p2"), 10).await, [id("p3")]);
    assert_eq!(
        ids(fixture
            .store
            .find(
                TaskLookup::StartedBy {
                    parent: id("p1"),
                    after: None
                },
                10
            )
            .await),
        []
    );
    let at = UnixMillis(7);
    assert_eq!(fixture.store.delete_ended(&host(), vec![id("p1")], at).await, Ok(1));
    assert_eq!(started(None, 10).await, ["p2", "p3"].map(id));
}
