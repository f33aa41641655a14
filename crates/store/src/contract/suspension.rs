//! A suspended task holds nothing, and loses no wake-up.

use super::{Fresh, fixture::*};
use longhaul_core::{
    AttemptEnd, ChildEntry, Event, Fence, Outcome, State, Task, TaskId, UnixMillis,
    store::{ApplyError, Counts},
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

fn suspended(task: &Task, until: Option<i64>) -> Event {
    Event::AttemptEnded(AttemptEnd::Suspended {
        until: until.map(UnixMillis),
        woken: task.woken,
    })
}

/// A running task with an entry and an open question.
async fn waiting(bench: &Bench, name: &str) -> (Task, Fence) {
    let (task, fence) = bench.running(name, 1).await;
    let events = vec![Event::Journaled(step(1, "waits")), asked(1)];
    let task = bench.apply(&task.id, Some(fence), events, 2).await.expect("it asks");
    (task, fence)
}

async fn suspend(bench: &Bench, name: &str, until: Option<i64>) -> Task {
    let (task, fence) = waiting(bench, name).await;
    let end = suspended(&task, until);
    bench.apply(&task.id, Some(fence), vec![end], 3).await.expect("it ends")
}

/// An event between the worker's last read and the end of its attempt queues the task again at once.
pub async fn events_before_a_suspension_are_not_lost(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    for (name, comes) in [("a", answered(1, "yes")), ("b", child_ended())] {
        let (seen, fence) = waiting(&bench, name).await;
        bench.apply(&seen.id, None, vec![comes], 3).await.expect("it comes");
        let end = vec![suspended(&seen, Some(1_000))];
        let task = bench.apply(&seen.id, Some(fence), end, 4).await.expect("it ends");
        assert_eq!(
            (task.state, task.resume_at, task.attempts_used),
            (State::Queued, None, 0),
            "{name}"
        );
    }
    let (task, fence) = waiting(&bench, "c").await;
    let late = vec![suspended(&task, Some(4))];
    let task = bench.apply(&task.id, Some(fence), late, 4).await.expect("it ends");
    assert_eq!(
        (task.state, task.resume_at),
        (State::Queued, None),
        "its time has come meanwhile"
    );
    assert_eq!(claimed(&bench, 4).await, ["a", "b", "c"].map(id));
}

/// When the system clock was set, suspended tasks must check the time again.
pub async fn timers_of_suspended_work_can_be_made_due_at_once(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    assert_eq!(bench.store.newest().await, Ok(None));
    suspend(&bench, "a", Some(1_000)).await;
    suspend(&bench, "b", None).await;
    suspend(&bench, "c", Some(20)).await;
    let (running, _) = bench.running("d", 9).await;
    assert_eq!(bench.store.newest().await, Ok(Some(running.created_at)));
    bench
        .store
        .make_timers_due(UnixMillis(50))
        .await
        .expect("it is written");
    let due = bench.store.due(UnixMillis(50), 10).await.expect("a list");
    assert_eq!(
        due.iter()
            .map(|task| (task.id.clone(), task.resume_at))
            .collect::<Vec<_>>(),
        [(id("c"), Some(UnixMillis(20))), (id("a"), Some(UnixMillis(50)))]
    );
    assert_eq!(bench.get_unscoped(&id("b")).await.task.resume_at, None);
}

/// An answer, a child's end and the time each queue it again; the question that was open stays open under its key.
pub async fn awaited_events_wake_suspended_work(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    for name in ["a", "b", "c", "d"] {
        suspend(&bench, name, Some(100)).await;
    }
    let bench = bench.restart().await;
    assert_eq!(claimed(&bench, 99).await, []);
    let early = bench.apply(&id("c"), None, vec![Event::TimerFired], 99).await;
    assert!(matches!(early, Err(ApplyError::Illegal(_))));
    bench
        .apply(&id("a"), None, vec![answered(1, "yes")], 50)
        .await
        .expect("an answer");
    bench
        .apply(&id("b"), None, vec![child_ended()], 50)
        .await
        .expect("a child");
    assert_eq!(bench.store.next_wake().await, Ok(Some(UnixMillis(100))));
    let due = bench.store.due(UnixMillis(100), 10).await.expect("what is due");
    let mut due: Vec<_> = due.into_iter().map(|task| task.id.clone()).collect();
    due.sort();
    assert_eq!(due, ["c", "d"].map(id), "what was woken waits for no timer");
    let task = bench.get_unscoped(&id("c")).await.task;
    let due = task.due(UnixMillis(100));
    assert_eq!(due, [Event::TimerFired]);
    bench.apply(&id("c"), None, due, 100).await.expect("it is time");
    assert_eq!(claimed(&bench, 100).await, ["a", "b", "c"].map(id));
    let open = bench.get_unscoped(&id("c")).await;
    assert_eq!(open.inputs.len(), 1);
    assert_eq!(open.task.attempt.map(|attempt| attempt.epoch), Some(2));
    let again = bench.apply(&id("c"), None, vec![answered(1, "late")], 101).await;
    assert!(again.expect("still open").open_inputs.is_empty());
}

/// It is in no queue, is no orphan, holds no fence, and is counted as suspended.
pub async fn suspended_work_holds_nothing(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    let task = suspend(&bench, "a", None).await;
    assert!(task.is_suspended());
    let old = task.attempt.as_ref().expect("the last attempt").fence();
    for event in [asked(2), Event::Journaled(step(2, "late")), finished("late")] {
        let refused = bench.apply(&task.id, Some(old), vec![event], 4).await;
        assert_eq!(refused, Err(ApplyError::Stale));
    }
    assert_eq!(bench.store.queued_tools().await, Ok(vec![]));
    let counts = Counts {
        suspended: 1,
        ..Counts::default()
    };
    assert_eq!(bench.store.counts().await, Ok(counts));
    let before = bench.get_unscoped(&task.id).await;
    let bench = bench.restart().await;
    assert_eq!(
        bench.store.adopt(bench.node, &host(), 10, UnixMillis(5)).await,
        Ok(vec![])
    );
    assert_eq!(bench.get_unscoped(&task.id).await, before);
    assert_eq!(bench.store.counts().await, Ok(counts));
    assert!(bench.get("alice", &task.id).await.is_some());
}

async fn claimed(bench: &Bench, at: i64) -> Vec<TaskId> {
    let mut claimed: Vec<_> = bench
        .claim("tool", 10, at)
        .await
        .into_iter()
        .map(|claimed| claimed.task.id.clone())
        .collect();
    claimed.sort();
    claimed
}
