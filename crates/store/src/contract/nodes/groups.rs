//! Of the tasks of a group no more are in progress than its limit says.

use crate::contract::{NewSubject, execution::suspension::suspended, fixture::*};
use longhaul_core::{
    AnsweredBy, AttemptEnd, CancelMode, ConcurrencyGroup, ConfirmBy, Confirmation, Event, InputKey, Json, Outcome,
    Principal, Priority, State, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, NewTask, StoreEvent},
};
use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

fn of_group(name: &str, fixture: &Fixture, value: u8) -> NewTask {
    let mut new = new_task(name, fixture.node, 1);
    new.header.group = Some(ConcurrencyGroup([value; 32]));
    new
}

/// A store where each group of `tool` may have so many tasks.
async fn limited(new_subject: NewSubject, most: usize) -> Fixture {
    let fixture = Fixture::new(new_subject).await;
    let put = fixture.store.put_limit("tool", None, Some(most)).await;
    put.expect("it is written");
    fixture
}

async fn create(fixture: &Fixture, names: &[&str]) {
    for name in names {
        // Although there is a slot for it.
        let new = NewTask {
            claim: Some((fixture.node, None)),
            ..of_group(name, fixture, 1)
        };
        assert_eq!(fixture.create(new).await.state, State::Queued);
    }
}

/// Claims all that can be claimed.
async fn claimed(fixture: &Fixture) -> Vec<Task> {
    let claimed = fixture.claim("tool", 99, 1_000).await;
    claimed.into_iter().map(|claimed| claimed.task).collect()
}

fn names(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

async fn end(fixture: &Fixture, running: &Task, how: AttemptEnd) -> Task {
    let end = vec![Event::AttemptEnded(how)];
    let ended = fixture.apply(&running.id, Some(fence(running)), end, 1_000).await;
    ended.expect("it ends")
}

async fn cancel(fixture: &Fixture, id: &TaskId, mode: CancelMode) -> Task {
    let cancelled = fixture.apply(id, None, vec![Event::CancelRequested(mode)], 1_000).await;
    cancelled.expect("it is asked to stop")
}

fn succeeded() -> AttemptEnd {
    AttemptEnd::Finished(answer_text("done"))
}

/// While it waits for its confirmation it keeps no other one waiting; then it waits as any other.
pub async fn a_task_enters_its_group_when_it_is_confirmed(new_subject: NewSubject) {
    let fixture = limited(new_subject, 1).await;
    let mut asking = of_group("a", &fixture, 1);
    asking.confirmation = Some(Box::new(Confirmation {
        by: ConfirmBy::Client,
        request: Json::trusted("{}"),
        until: UnixMillis(9_000),
    }));
    assert!(fixture.create(asking).await.awaits_confirmation());
    create(&fixture, &["b"]).await;
    let running = claimed(&fixture).await;
    assert_eq!(names(&running), ["b"]);
    let accepted = Event::InputAnswered {
        key: InputKey::nth(1),
        answer: Json::trusted(r#"{"action":"accept"}"#),
        by: AnsweredBy::Client,
    };
    let confirmed = fixture.apply(&id("a"), None, vec![accepted], 5).await;
    assert_eq!(confirmed.expect("it is confirmed").state, State::Queued);
    assert_eq!(claimed(&fixture).await, []);
    end(&fixture, &running[0], succeeded()).await;
    assert_eq!(names(&claimed(&fixture).await), ["a"]);
}

/// Over retries, suspensions, blocks and a restart; the others wait in the queue for every reader, and for nobody who claims.
pub async fn a_group_has_no_more_tasks_than_its_limit(new_subject: NewSubject) {
    let fixture = limited(new_subject, 2).await;
    create(&fixture, &["a", "b", "c", "d"]).await;
    let waiting = fixture.get("alice", &id("c")).await.expect("it is found").task;
    assert_eq!((waiting.state, waiting.waits_for_group), (State::Queued, true));
    assert_eq!(fixture.store.queued_before(&waiting, 9).await, Ok(2));
    assert_eq!(fixture.store.counts().await.expect("counts").queued, 4);
    let event = Event::Claimed {
        node: fixture.node,
        host: None,
    };
    let refused = fixture.apply(&id("c"), None, vec![event], 9).await;
    assert!(matches!(refused, Err(ApplyError::Illegal(_))), "{refused:?}");

    let running = claimed(&fixture).await;
    assert_eq!(names(&running), ["a", "b"]);
    assert_eq!(fixture.store.queued_tools().await, Ok(vec![]));
    assert_eq!(fixture.store.next_ready("tool", UnixMillis(1_000)).await, Ok(None));
    let again = AttemptEnd::Failed {
        outcome: Outcome::tool_error("no"),
        retry_at: Some(UnixMillis(1_000)),
        asks_again: false,
    };
    assert_eq!(end(&fixture, &running[0], again).await.state, State::Queued);
    let wait = vec![Event::Started, suspended(&running[1], None)];
    let waits = fixture.apply(&id("b"), Some(fence(&running[1])), wait, 5).await;
    assert!(waits.expect("it waits").is_suspended());
    let fixture = fixture.restart().await;
    let running = claimed(&fixture).await;
    assert_eq!(names(&running), ["a"]);
    let blocked = fixture
        .apply(&id("a"), Some(fence(&running[0])), vec![block("old", 2_000, 9_000)], 5)
        .await;
    assert_eq!(blocked.expect("it is blocked").state, State::Blocked);
    assert_eq!(claimed(&fixture).await, []);

    cancel(&fixture, &id("b"), CancelMode::Cooperative).await;
    let running = claimed(&fixture).await;
    assert_eq!(names(&running), ["c"]);
    end(&fixture, &running[0], succeeded()).await;
    let fixture = fixture.restart().await;
    let running = claimed(&fixture).await;
    assert_eq!(names(&running), ["d"]);
    assert!(!running[0].waits_for_group);
    assert_eq!(fixture.store.fill_groups().await, Ok(0));
}

/// What a legacy client has cancelled is over at once, and its work may go on for a while.
pub async fn a_task_is_in_its_group_until_its_attempt_has_stopped(new_subject: NewSubject) {
    let fixture = limited(new_subject, 1).await;
    create(&fixture, &["a", "b"]).await;
    let running = claimed(&fixture).await;
    assert!(cancel(&fixture, &id("a"), CancelMode::AtOnce).await.is_done());
    assert_eq!(claimed(&fixture).await, []);
    create(&fixture, &["c"]).await;
    assert_eq!(fixture.store.fill_groups().await, Ok(0));
    let stopped = AttemptEnd::Stopped(longhaul_core::StopReason::Cancel);
    end(&fixture, &running[0], stopped).await;
    assert_eq!(names(&claimed(&fixture).await), ["b"]);
}

/// In the order in which tasks are claimed, and listeners learn of it.
pub async fn the_first_of_the_queue_is_let_in(new_subject: NewSubject) {
    let fixture = limited(new_subject, 1).await;
    create(&fixture, &["m"]).await;
    for (name, priority, at) in [("e", 0, 1), ("d", 0, 2), ("c", 5, 3), ("b", 5, 4), ("a", 0, 5)] {
        let mut new = of_group(name, &fixture, 1);
        new.header.created_at = UnixMillis(at);
        new.priority = Priority::new(priority).expect("a priority");
        fixture.create(new).await;
    }
    let ready_at = UnixMillis(0);
    let raised = fixture.apply(&id("a"), None, vec![Event::Raised { ready_at }], 9).await;
    assert!(raised.expect("it is raised").waits_for_group);
    let running = claimed(&fixture).await;
    let (tell, told) = mpsc::channel::<StoreEvent>();
    let tell = Mutex::new(tell);
    fixture.store.listen(Arc::new(move |events: &[StoreEvent]| {
        let tell = tell.lock().expect("the listener's lock");
        events.iter().for_each(|event| drop(tell.send(event.clone())));
    }));
    end(&fixture, &running[0], succeeded()).await;
    let queued = || loop {
        let event = told.recv_timeout(Duration::from_secs(30));
        if let StoreEvent::QueueReady { tool, place } = event.expect("an event of the queue") {
            return (tool, place.priority, place.ready_at);
        }
    };
    assert_eq!(queued(), ("tool".into(), Priority::HIGHEST, ready_at));
    for expected in ["a", "c", "b", "e", "d"] {
        let running = claimed(&fixture).await;
        assert_eq!(names(&running), [expected]);
        end(&fixture, &running[0], succeeded()).await;
    }
}

/// Cancelled, past its deadline, or too long in the queue.
pub async fn what_waits_for_its_group_ends_as_other_queued_tasks(new_subject: NewSubject) {
    let fixture = limited(new_subject, 1).await;
    create(&fixture, &["a", "b"]).await;
    let mut late = of_group("c", &fixture, 1);
    late.header.deadline = Some(50);
    fixture.create(late).await;
    let mut impatient = of_group("d", &fixture, 1);
    impatient.header.queue_timeout = Some(50);
    fixture.create(impatient).await;
    create(&fixture, &["e"]).await;
    let (running, now) = (claimed(&fixture).await, UnixMillis(900));
    let due = fixture
        .store
        .find(longhaul_core::store::TaskLookup::DueTimers(now), 9)
        .await;
    let due = due.expect("tasks that are due");
    let mut found = names(&due);
    found.sort_unstable();
    assert_eq!(found, ["c", "d"]);
    for task in &due {
        let ended = fixture.apply(&task.id, None, task.due(now), now.0).await;
        assert!(ended.expect("it ends").is_done());
    }
    let gone = cancel(&fixture, &id("b"), CancelMode::Cooperative).await;
    assert!(gone.is_done() && !gone.waits_for_group);
    assert_eq!(claimed(&fixture).await, [], "none of them was in the group");
    end(&fixture, &running[0], succeeded()).await;
    assert_eq!(names(&claimed(&fixture).await), ["e"]);
    // One that is in the group and has not begun.
    create(&fixture, &["f", "g"]).await;
    let running = fixture.get_unscoped(&id("e")).await.task;
    end(&fixture, &running, succeeded()).await;
    cancel(&fixture, &id("f"), CancelMode::Cooperative).await;
    assert_eq!(names(&claimed(&fixture).await), ["g"]);
}

/// Whoever takes its place waits for the group as others do.
pub async fn a_replaced_task_leaves_its_group(new_subject: NewSubject) {
    let fixture = limited(new_subject, 1).await;
    create(&fixture, &["a", "b"]).await;
    let end = Event::CancelRequested(CancelMode::Cooperative);
    let mut new = of_group("c", &fixture, 1);
    new.header.created_at = UnixMillis(9);
    new.replaces = Some(Box::new(Change::of(&id("a"), end, UnixMillis(9))));
    fixture.create(new).await;
    assert_eq!(names(&claimed(&fixture).await), ["b"]);
    assert!(fixture.get_unscoped(&id("c")).await.task.waits_for_group);
}

/// A higher one and none; a lower one ends nothing.
pub async fn another_limit_lets_tasks_in(new_subject: NewSubject) {
    let fixture = limited(new_subject, 1).await;
    create(&fixture, &["a", "b", "c", "d", "e", "f", "g"]).await;
    let running = claimed(&fixture).await;
    let put = async |per_group| {
        let put = fixture.store.put_limit("tool", Some(1), per_group).await;
        put.expect("it is written");
        fixture.store.fill_groups().await.expect("it is answered")
    };
    assert_eq!(put(Some(3)).await, 2);
    let others = claimed(&fixture).await;
    assert_eq!(names(&others), ["b", "c"]);
    assert_eq!(put(Some(2)).await, 0);
    end(&fixture, &running[0], succeeded()).await;
    assert_eq!(claimed(&fixture).await, []);
    end(&fixture, &others[0], succeeded()).await;
    assert_eq!(names(&claimed(&fixture).await), ["d"]);
    assert_eq!(put(None).await, 3);
    create(&fixture, &["h"]).await;
    assert_eq!(names(&claimed(&fixture).await), ["e", "f", "g", "h"]);
    assert_eq!(put(Some(1)).await, 0);
}

/// Other values, other tools, and tasks without a value; principals share a group, and none learns of another's tasks.
pub async fn groups_are_kept_apart(new_subject: NewSubject) {
    let fixture = limited(new_subject, 1).await;
    create(&fixture, &["a"]).await;
    let mut theirs = of_group("b", &fixture, 1);
    theirs.header.owner.principal = Principal::named("bob");
    let theirs = fixture.create(theirs).await;
    assert_eq!(fixture.store.queued_before(&theirs, 9).await, Ok(0));
    fixture.create(of_group("c", &fixture, 2)).await;
    fixture.create(new_task("d", fixture.node, 1)).await;
    let mut elsewhere = of_group("e", &fixture, 1);
    elsewhere.header.tool = "tests".into();
    fixture.create(elsewhere).await;
    assert_eq!(names(&claimed(&fixture).await), ["a", "c", "d"]);
    assert_eq!(fixture.claim("tests", 9, 9).await.len(), 1);
    let printed = format!("{:?}", fixture.get_unscoped(&id("c")).await.task);
    assert!(printed.contains("ConcurrencyGroup)"), "{printed}");
}

/// Creations and ends at the same time, in every order in which a store makes them.
pub async fn of_concurrent_changes_a_group_has_no_more_than_its_limit(new_subject: NewSubject) {
    let fixture = limited(new_subject, 2).await;
    let mut running: Vec<Task> = Vec::new();
    let mut begun = 0;
    for round in 0..6 {
        let creations = (0..5).map(|nth| {
            fixture
                .store
                .create(of_group(&format!("t{round}{nth}"), &fixture, nth % 2))
        });
        let ends = running.iter().map(|task| {
            let end = vec![finished("done")];
            fixture.store.apply(change(&task.id, Some(fence(task)), end, 1_000))
        });
        let made = futures_util::future::join(together(creations.collect()), together(ends.collect()));
        let (created, ended) = made.await;
        assert!(created.iter().all(Result::is_ok) && ended.iter().all(Result::is_ok));
        running = claimed(&fixture).await;
        begun += running.len();
        assert_eq!(
            running.len(),
            4,
            "there is room for two of each group, which have tasks"
        );
    }
    while !running.is_empty() {
        for task in &running {
            end(&fixture, task, succeeded()).await;
        }
        running = claimed(&fixture).await;
        begun += running.len();
        assert!(running.len() <= 4);
    }
    assert_eq!((begun, fixture.store.fill_groups().await), (30, Ok(0)));
}
