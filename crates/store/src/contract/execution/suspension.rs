//! A suspended task holds nothing, and loses no wake-up.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AttemptEnd, ChildEntry, Event, Fence, Outcome, State, Task, TaskId, UnixMillis,
    store::{ApplyError, Counts, TaskLookup},
};

/// A child's end for entry 1 of its parent.
fn child_ended() -> Event {
    let ended = ChildEntry {
        task: id("child"),
        outcome: Some(Outcome::Cancelled),
    };
    Event::ChildEnded {
        entry: 1,
        value: ended.to_json(),
    }
}

pub(crate) fn suspended(task: &Task, until: Option<i64>) -> Event {
    Event::AttemptEnded(AttemptEnd::Suspended {
        until: until.map(UnixMillis),
        woken: task.woken,
    })
}

/// A running task with an entry and an open question.
async fn waiting(fixture: &Fixture, name: &str) -> (Task, Fence) {
    let (task, fence) = fixture.running(name, 1).await;
    let events = vec![Event::Journaled(step(1, "waits")), asked(1)];
    let task = fixture.apply(&task.id, Some(fence), events, 2).await.expect("it asks");
    (task, fence)
}

async fn suspend(fixture: &Fixture, name: &str, until: Option<i64>) -> Task {
    let (task, fence) = waiting(fixture, name).await;
    let end = suspended(&task, until);
    fixture
        .apply(&task.id, Some(fence), vec![end], 3)
        .await
        .expect("it ends")
}

/// An event between the worker's last read and the end of its attempt queues the task again at once.
pub async fn events_before_a_suspension_are_not_lost(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for (name, comes) in [("a", answered(1, "yes")), ("b", child_ended())] {
        let (seen, fence) = waiting(&fixture, name).await;
        fixture.apply(&seen.id, None, vec![comes], 3).await.expect("it comes");
        let end = vec![suspended(&seen, Some(1_000))];
        let task = fixture.apply(&seen.id, Some(fence), end, 4).await.expect("it ends");
        assert_eq!(
            (task.state, task.resume_at, task.attempts_used),
            (State::Queued, None, 0),
            "{name}"
        );
    }
    let (task, fence) = waiting(&fixture, "c").await;
    let late = vec![suspended(&task, Some(4))];
    let task = fixture.apply(&task.id, Some(fence), late, 4).await.expect("it ends");
    assert_eq!(
        (task.state, task.resume_at),
        (State::Queued, None),
        "its time has come meanwhile"
    );
    assert_eq!(claimed(&fixture, 4).await, ["a", "b", "c"].map(id));
}

/// When the system clock was set, suspended tasks must check the time again.
pub async fn timers_of_suspended_work_can_be_made_due_at_once(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    assert_eq!(fixture.store.newest_created_at().await, Ok(None));
    suspend(&fixture, "a", Some(1_000)).await;
    suspend(&fixture, "b", None).await;
    suspend(&fixture, "c", Some(20)).await;
    let (running, _) = fixture.running("d", 9).await;
    assert_eq!(fixture.store.newest_created_at().await, Ok(Some(running.created_at)));
    fixture
        .store
        .make_timers_due(UnixMillis(50))
        .await
        .expect("it is written");
    let due = fixture
        .store
        .find(TaskLookup::DueTimers(UnixMillis(50)), 10)
        .await
        .expect("a list");
    assert_eq!(
        due.iter()
            .map(|task| (task.id.clone(), task.resume_at))
            .collect::<Vec<_>>(),
        [(id("c"), Some(UnixMillis(20))), (id("a"), Some(UnixMillis(50)))]
    );
    assert_eq!(fixture.get_unscoped(&id("b")).await.task.resume_at, None);
}

/// An answer, a child's end and the time each queue it again; the question that was open stays open under its key.
pub async fn awaited_events_wake_suspended_work(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for name in ["a", "b", "c", "d"] {
        suspend(&fixture, name, Some(100)).await;
    }
    let fixture = fixture.restart().await;
    assert_eq!(claimed(&fixture, 99).await, []);
    let early = fixture.apply(&id("c"), None, vec![Event::TimerFired], 99).await;
    assert!(matches!(early, Err(ApplyError::Illegal(_))));
    fixture
        .apply(&id("a"), None, vec![answered(1, "yes")], 50)
        .await
        .expect("an answer");
    fixture
        .apply(&id("b"), None, vec![child_ended()], 50)
        .await
        .expect("a child");
    assert_eq!(fixture.store.next_wake().await, Ok(Some(UnixMillis(100))));
    let due = fixture
        .store
        .find(TaskLookup::DueTimers(UnixMillis(100)), 10)
        .await
        .expect("what is due");
    let mut due: Vec<_> = due.into_iter().map(|task| task.id.clone()).collect();
    due.sort();
    assert_eq!(due, ["c", "d"].map(id), "what was woken waits for no timer");
    let task = fixture.get_unscoped(&id("c")).await.task;
    let due = task.due(UnixMillis(100));
    assert_eq!(due, [Event::TimerFired]);
    fixture.apply(&id("c"), None, due, 100).await.expect("it is time");
    assert_eq!(claimed(&fixture, 100).await, ["a", "b", "c"].map(id));
    let open = fixture.get_unscoped(&id("c")).await;
    assert_eq!(open.inputs.len(), 1);
    assert_eq!(open.task.attempt.map(|attempt| attempt.epoch), Some(2));
    let again = fixture.apply(&id("c"), None, vec![answered(1, "late")], 101).await;
    assert!(again.expect("still open").open_inputs.is_empty());
}

/// It is in no queue, is no orphan, holds no fence, and is counted as suspended.
pub async fn suspended_work_holds_nothing(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let task = suspend(&fixture, "a", None).await;
    assert!(task.is_suspended());
    let old = task.attempt.as_ref().expect("the last attempt").fence();
    for event in [asked(2), Event::Journaled(step(2, "late")), finished("late")] {
        let refused = fixture.apply(&task.id, Some(old), vec![event], 4).await;
        assert_eq!(refused, Err(ApplyError::Stale));
    }
    assert_eq!(fixture.store.queued_tools().await, Ok(vec![]));
    let counts = Counts {
        suspended: 1,
        ..Counts::default()
    };
    assert_eq!(fixture.store.counts().await, Ok(counts));
    let before = fixture.get_unscoped(&task.id).await;
    let fixture = fixture.restart().await;
    assert_eq!(
        fixture.store.adopt(fixture.node, &host(), 10, UnixMillis(5)).await,
        Ok(vec![])
    );
    assert_eq!(fixture.get_unscoped(&task.id).await, before);
    assert_eq!(fixture.store.counts().await, Ok(counts));
    assert!(fixture.get("alice", &task.id).await.is_some());
}

async fn claimed(fixture: &Fixture, at: i64) -> Vec<TaskId> {
    let mut claimed: Vec<_> = fixture
        .claim("tool", 10, at)
        .await
        .into_iter()
        .map(|claimed| claimed.task.id.clone())
        .collect();
    claimed.sort();
    claimed
}
