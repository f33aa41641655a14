//! A task takes the place of another one: the end of the one and the creation of the other are one write.

use crate::contract::{NewSubject, execution::suspension::suspended, fixture::*};
use longhaul_core::{
    CancelMode, Event, InputState, Outcome, Principal, Quota, QuotaExceeded, QuotaScope, Reason, SpecId, State,
    TaskHeader, TaskId, UnixMillis, Verdict,
    store::{ApplyError, Change, CreateError, Created, Idempotency, NewTask, StoreError, StoreEvent},
};
use std::sync::{Arc, Mutex};

/// A task that ends `replaced`.
fn successor(name: &str, replaced: &TaskId, fixture: &Fixture) -> NewTask {
    let end = Change::of(replaced, Event::CancelRequested(CancelMode::Cooperative), UnixMillis(9));
    NewTask {
        replaces: Some(Box::new(end)),
        ..new_task(name, fixture.node, 9)
    }
}

/// A suspended task with an open question.
async fn waiting(fixture: &Fixture, name: &str) -> TaskId {
    let (task, fence) = fixture.running(name, 1).await;
    let events = vec![Event::Started, asked(1), suspended(&task, None)];
    let task = fixture.apply(&task.id, Some(fence), events, 2).await.expect("it waits");
    assert_eq!(task.state, State::Suspended);
    task.id.clone()
}

/// Its question is withdrawn, and both changes are told. Repeated under its key, the call changes nothing.
pub async fn an_end_and_a_creation_are_one_write(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = waiting(&fixture, "a").await;
    let told: Arc<Mutex<Vec<TaskId>>> = Arc::default();
    let noted = Arc::clone(&told);
    fixture.store.listen(Arc::new(move |events| {
        let changed = events.iter().filter_map(|event| match event {
            StoreEvent::TaskChanged(hint) => Some(hint.task.clone()),
            _ => None,
        });
        noted.lock().expect("the list").extend(changed);
    }));
    let keyed = |name| NewTask {
        idempotency: Some(Idempotency {
            key: "k".into(),
            digest: [1; 32],
        }),
        ..successor(name, &first, &fixture)
    };
    let second = fixture.create(keyed("b")).await;
    let ended = fixture.get_unscoped(&first).await;
    assert_eq!(ended.task.state, State::Done(Verdict::Cancelled));
    assert_eq!((ended.outcome, ended.inputs), (Some(Outcome::Cancelled), vec![]));
    let question = fixture.input(&first, 1).await.expect("the question");
    assert_eq!(question.state, InputState::Withdrawn);

    let again = fixture.store.create(keyed("c")).await.expect("the first one");
    assert_eq!(again, Created::Existing(second.clone()));
    // Events may come after the answer, and before that of a later write.
    let told = told.lock().expect("the list").clone();
    assert!(told.contains(&first) && told.contains(&second.id), "{told:?}");
    let fixture = fixture.restart().await;
    assert_eq!(fixture.get_unscoped(&first).await.task, ended.task);
    assert_eq!(fixture.get_unscoped(&second.id).await.task, second);
    assert_eq!(fixture.store.counts().await.expect("counts").queued, 1);
}

/// Whatever of the two cannot be done.
pub async fn of_an_end_and_a_creation_neither_is_made_alone(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = waiting(&fixture, "a").await;
    let before = fixture.get_unscoped(&first).await;
    let usage = fixture.store.usage(None).await.expect("an answer");
    let refused = async |new: NewTask| {
        let id = new.id.clone();
        let refused = fixture.store.create(new).await.expect_err("a refusal");
        assert_eq!(fixture.get_unscoped(&first).await, before, "after {refused:?}");
        assert_eq!(fixture.store.usage(None).await, Ok(usage));
        if id != first {
            assert_eq!(fixture.store.get_unscoped(&id).await, Ok(None), "after {refused:?}");
        }
        refused
    };

    let mut large = successor("b", &first, &fixture);
    large.quota.bytes_per_principal = Some(usage.bytes);
    let too_many = QuotaExceeded::TooManyBytes {
        scope: QuotaScope::Principal,
        limit: usage.bytes,
    };
    assert_eq!(refused(large).await, too_many.into());
    let mut unknown = successor("b", &first, &fixture);
    unknown.header.spec = SpecId::named("never put");
    assert!(matches!(
        refused(unknown).await,
        CreateError::Store(StoreError::Failed(_))
    ));
    let taken = NewTask {
        header: TaskHeader {
            id: first.clone(),
            ..successor("b", &first, &fixture).header
        },
        ..successor("b", &first, &fixture)
    };
    assert!(matches!(
        refused(taken).await,
        CreateError::Store(StoreError::Failed(_))
    ));
    let mut foreign = successor("b", &first, &fixture);
    foreign.header.owner.principal = Principal::named("bob");
    let not_found = CreateError::Replaced(ApplyError::NotFound);
    assert_eq!(refused(foreign).await, not_found);
    assert_eq!(refused(successor("b", &id("nobody"), &fixture)).await, not_found);
}

/// One whose attempt would have to stop first, and one that is over.
pub async fn what_cannot_end_at_once_is_not_replaced(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (running, fence) = fixture.running("a", 1).await;
    let why = async |new: NewTask| match fixture.store.create(new).await {
        Err(CreateError::Replaced(ApplyError::Illegal(illegal))) => illegal.reason,
        other => panic!("the end is refused, and not {other:?}"),
    };
    let mut at_once = successor("b", &running.id, &fixture);
    for end in at_once.replaces.iter_mut() {
        end.events = vec![Event::CancelRequested(CancelMode::AtOnce)];
    }
    for new in [successor("b", &running.id, &fixture), at_once] {
        assert_eq!(why(new).await, Reason::WrongState);
        assert_eq!(fixture.get_unscoped(&running.id).await.task, running);
    }
    let done = fixture.apply(&running.id, Some(fence), vec![finished("done")], 3).await;
    let done = done.expect("it ends");
    assert_eq!(why(successor("b", &running.id, &fixture)).await, Reason::Done);
    assert_eq!(fixture.get_unscoped(&running.id).await.task, done);
    assert_eq!(fixture.store.get_unscoped(&id("b")).await, Ok(None));
}

/// It takes over the share of the live tasks, and not that of the bytes.
pub async fn a_full_quota_leaves_room_for_a_replacement(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let one = Quota {
        live_per_principal: Some(1),
        live_in_all: Some(1),
        ..Quota::default()
    };
    let first = fixture
        .create(NewTask {
            quota: one,
            ..new_task("a", fixture.node, 1)
        })
        .await;
    let second = NewTask {
        quota: one,
        ..successor("b", &first.id, &fixture)
    };
    fixture.create(second).await;
    let usage = fixture.store.usage(Some(&first.owner.principal)).await;
    assert_eq!(usage.expect("an answer").live, 1);
}

/// Also a plain call that may be kept in memory.
pub async fn a_call_is_replaced(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let call = NewTask {
        announced: false,
        in_memory: true,
        ..new_task("a", fixture.node, 1)
    };
    let call = fixture.create(call).await;
    fixture.create(successor("b", &call.id, &fixture)).await;
    let fixture = fixture.restart().await;
    let ended = fixture.get_unscoped(&call.id).await;
    assert_eq!(ended.task.state, State::Done(Verdict::Cancelled));
    fixture.get_unscoped(&id("b")).await;
}
