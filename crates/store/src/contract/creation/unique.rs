//! Of a tool at most one task with the same unique value is live.

use crate::contract::{NewSubject, execution::suspension::suspended, fixture::*};
use longhaul_core::{
    AttemptEnd, CancelMode, Event, Lineage, Outcome, Principal, SpecId, State, Task, TaskId, UnixMillis,
    store::{Change, CreateError, Created, Idempotency, NewTask, ParentEntry, StoreError, TaskLookup, Uniqueness},
};

fn unique(name: &str, fixture: &Fixture, value: u8, arguments: u8) -> NewTask {
    NewTask {
        unique: Some(Uniqueness {
            value: [value; 32],
            arguments: [arguments; 32],
        }),
        ..new_task(name, fixture.node, 1)
    }
}

fn of_bob(mut new: NewTask) -> NewTask {
    new.header.owner.principal = Principal::named("bob");
    new
}

/// What calls of both principals are answered while `live` is live.
async fn check_taken(fixture: &Fixture, live: &TaskId) {
    let present = fixture.get_unscoped(live).await.task;
    let usage = fixture.store.usage(None).await;
    let answers = [
        (unique("x", fixture, 1, 1), Ok(Created::Joined(present.clone()))),
        (
            unique("x", fixture, 1, 2),
            Err(CreateError::NotUnique {
                live: Some(live.clone()),
            }),
        ),
        // Invariant 5: also with the same arguments.
        (
            of_bob(unique("x", fixture, 1, 1)),
            Err(CreateError::NotUnique { live: None }),
        ),
    ];
    for (mut call, expected) in answers {
        call.claim = Some((fixture.node, None));
        assert_eq!(fixture.store.create(call).await, expected, "{:?}", present.state);
        assert_eq!(fixture.store.get_unscoped(&id("x")).await, Ok(None));
    }
    assert_eq!(fixture.get_unscoped(live).await.task, present);
    assert_eq!(fixture.store.usage(None).await, usage);
}

/// In each state of a live task, also after a restart; and whatever its end is, the value is free then.
pub async fn one_live_task_has_a_value(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = fixture.create(unique("a", &fixture, 1, 1)).await;
    assert!(first.keyed);
    check_taken(&fixture, &first.id).await;
    fixture.create(unique("v", &fixture, 2, 1)).await;
    let mut elsewhere = unique("w", &fixture, 1, 2);
    elsewhere.header.tool = "tests".into();
    fixture.create(elsewhere).await;

    let fixture = fixture.restart().await;
    check_taken(&fixture, &first.id).await;
    let running = fixture.claim("tool", 1, 2).await.remove(0).task;
    check_taken(&fixture, &running.id).await;
    let failed = AttemptEnd::NeverStarted {
        retry_at: Some(UnixMillis(3)),
    };
    let retried = vec![Event::AttemptEnded(failed)];
    let queued = fixture.apply(&first.id, Some(fence(&running)), retried, 3).await;
    assert_eq!(queued.expect("it is retried").state, State::Queued);
    check_taken(&fixture, &first.id).await;
    let claimed = fixture.claim("tool", 9, 4).await;
    let again = claimed.into_iter().find(|claimed| claimed.task.id == first.id);
    let again = again.expect("it is claimed again").task;
    let wait = vec![Event::Started, suspended(&again, None)];
    let waiting = fixture.apply(&first.id, Some(fence(&again)), wait, 5).await;
    assert!(waiting.expect("it waits").is_suspended());
    check_taken(&fixture, &first.id).await;
    let cancel = vec![Event::CancelRequested(CancelMode::Cooperative)];
    let ended = fixture.apply(&first.id, None, cancel, 6).await;
    assert!(ended.expect("it ends").is_done());

    let theirs = of_bob(unique("b", &fixture, 1, 3));
    let second = fixture.create(theirs).await;
    let claimed = fixture.claim("tool", 1, 7).await.remove(0).task;
    let end = vec![finished("done")];
    let ended = fixture.apply(&second.id, Some(fence(&claimed)), end, 8).await;
    assert!(ended.expect("it ends").is_done());
    fixture.create(unique("c", &fixture, 1, 1)).await;
}

/// Decided in the create's own transaction.
pub async fn of_concurrent_unique_calls_one_is_made(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let calls = (0..9).map(|nth| fixture.store.create(unique(&format!("t{nth}"), &fixture, 1, nth % 3)));
    let made = together(calls.collect()).await;
    let new: Vec<&Task> = (made.iter())
        .filter_map(|made| match made {
            Ok(Created::New(task)) => Some(task),
            _ => None,
        })
        .collect();
    let [new] = new[..] else {
        panic!("one is made, and not {made:?}")
    };
    let joined = made
        .iter()
        .filter(|made| matches!(made, Ok(Created::Joined(task)) if task == new));
    let not_unique = CreateError::NotUnique {
        live: Some(new.id.clone()),
    };
    let refused = made
        .iter()
        .filter(|made| matches!(made, Err(error) if *error == not_unique));
    assert_eq!((joined.count(), refused.count()), (2, 6), "{made:?}");
    assert_eq!(fixture.store.counts().await.expect("counts").queued, 1);
}

/// The end of a task and the creation of the next one may be one commit.
pub async fn a_value_is_free_with_the_end_of_its_task(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for round in 0..8 {
        let mut new = unique(&format!("a{round}"), &fixture, 1, 1);
        new.claim = Some((fixture.node, None));
        let task = fixture.create(new).await;
        let end = change(&task.id, Some(fence(&task)), vec![finished("done")], 2);
        let next = unique(&format!("b{round}"), &fixture, 1, 1);
        let (ended, next) = futures_util::future::join(fixture.store.apply(end), fixture.store.create(next)).await;
        assert!(ended.expect("it ends").is_done());
        let next = next.expect("an answer");
        if let Created::New(task) = next {
            let cancel = vec![Event::CancelRequested(CancelMode::AtOnce)];
            fixture.apply(&task.id, None, cancel, 3).await.expect("it ends");
        }
    }
}

/// A call that is made again under its key gets its own task, whatever is live.
pub async fn a_key_is_looked_at_before_the_value(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let keyed = |name, key: &str| NewTask {
        idempotency: Some(Idempotency {
            key: key.into(),
            digest: [1; 32],
        }),
        ..unique(name, &fixture, 1, 1)
    };
    let mut first = keyed("a", "one");
    first.claim = Some((fixture.node, None));
    let first = fixture.create(first).await;
    let end = vec![finished("done")];
    fixture
        .apply(&first.id, Some(fence(&first)), end, 2)
        .await
        .expect("it ends");
    let second = fixture.create(keyed("b", "two")).await;
    let again = fixture.store.create(keyed("c", "one")).await.expect("an answer");
    assert!(matches!(again, Created::Existing(task) if task.id == first.id));
    let third = fixture.store.create(keyed("c", "three")).await;
    assert_eq!(third, Ok(Created::Joined(second)));
}

/// A parent waits for its own child only.
pub async fn a_child_does_not_join(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let live = fixture.create(unique("a", &fixture, 1, 1)).await;
    let mut parent = new_task("b", fixture.node, 1);
    parent.header.tool = "tests".into();
    parent.claim = Some((fixture.node, None));
    let parent = fixture.create(parent).await;
    let mut child = unique("c", &fixture, 1, 1);
    child.header.lineage = Some(Lineage {
        parent: parent.id.clone(),
        entry: 1,
        root: parent.id.clone(),
        depth: 1,
    });
    child.parent = Some(ParentEntry {
        fence: fence(&parent),
        entry: step(1, "tests"),
    });
    let refused = CreateError::NotUnique {
        live: Some(live.id.clone()),
    };
    assert_eq!(fixture.store.create(child.clone()).await, Err(refused));
    assert_eq!(fixture.get_unscoped(&parent.id).await.task, parent);
    let cancel = vec![Event::CancelRequested(CancelMode::AtOnce)];
    fixture.apply(&live.id, None, cancel, 3).await.expect("it ends");
    fixture.create(child).await;
}

/// The task that is replaced gives its value up with its end, and keeps it if it is not replaced.
pub async fn a_replacement_takes_the_value_over(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = fixture.create(unique("a", &fixture, 1, 1)).await;
    let replacing = |name| {
        let end = Event::CancelRequested(CancelMode::Cooperative);
        NewTask {
            replaces: Some(Box::new(Change::of(&first.id, end, UnixMillis(9)))),
            ..unique(name, &fixture, 1, 2)
        }
    };
    let mut unknown = replacing("b");
    unknown.header.spec = SpecId::named("never put");
    let refused = fixture.store.create(unknown).await;
    assert!(
        matches!(refused, Err(CreateError::Store(StoreError::Failed(_)))),
        "{refused:?}"
    );
    check_taken(&fixture, &first.id).await;
    let second = fixture.create(replacing("b")).await;
    let ended = fixture.get_unscoped(&first.id).await;
    assert_eq!((ended.outcome, ended.task.keyed), (Some(Outcome::Cancelled), true));
    let same = fixture.store.create(unique("c", &fixture, 1, 2)).await;
    assert_eq!(same, Ok(Created::Joined(second)));
}

/// A plain call with a value is never orphaned, and can be announced to a caller that makes it again.
pub async fn a_caller_of_a_unique_call_can_return(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut plain = unique("a", &fixture, 1, 1);
    plain.announced = false;
    plain.in_memory = true;
    fixture.create(plain.clone()).await;
    let fixture = fixture.restart().await;
    let orphaned = fixture.store.find(TaskLookup::OrphanedCalls(fixture.node), 9).await;
    assert_eq!(orphaned, Ok(vec![]));
    assert_eq!(fixture.get("alice", &id("a")).await, None, "it is not shown");
    check_taken(&fixture, &id("a")).await;
    fixture
        .apply(&id("a"), None, vec![Event::Promoted], 5)
        .await
        .expect("it can be announced");
    fixture.get("alice", &id("a")).await.expect("it is shown");
}
