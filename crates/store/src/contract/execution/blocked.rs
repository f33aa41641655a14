//! A blocked task holds nothing, records what happens to it, and loses nothing.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    BlockReason, CancelMode, ChildEntry, Entry, Event, Fence, InputState, Json, Outcome, State, Task, TaskId,
    UnixMillis,
    store::{ApplyError, Counts, TaskLookup},
};

/// A task that has an entry and an open question, blocked until 1,000 and tried again at 100.
async fn blocked(fixture: &Fixture, name: &str) -> (Task, Fence) {
    let (task, fence) = fixture.running(name, 1).await;
    let events = vec![Event::Journaled(step(1, "before")), asked(1), block("v2", 100, 1_000)];
    let task = fixture
        .apply(&task.id, Some(fence), events, 3)
        .await
        .expect("it is blocked");
    (task, fence)
}

fn ids(tasks: Vec<Task>) -> Vec<TaskId> {
    tasks.into_iter().map(|task| task.id.clone()).collect()
}

/// Events that it waits for are recorded, and do not queue it.
pub async fn blocked_work_records_events_and_is_not_woken(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, _) = blocked(&fixture, "a").await;
    let ended = ChildEntry {
        task: id("child"),
        outcome: Some(Outcome::Cancelled),
    };
    let child = Event::ChildEnded {
        entry: 1,
        value: ended.to_json(),
    };
    for comes in [answered(1, "yes"), child] {
        let after = fixture
            .apply(&task.id, None, vec![comes], 4)
            .await
            .expect("it is recorded");
        assert_eq!((after.state, &after.blocked), (State::Blocked, &task.blocked));
    }
    let fixture = fixture.restart().await;
    let question = fixture.input(&task.id, 1).await.expect("the question");
    assert!(matches!(question.state, InputState::Answered(_)));
    assert_eq!(fixture.journal(&task.id).await[0].value, ended.to_json());
    assert_eq!(fixture.claim("tool", 10, 99).await, []);
    // At its retry time it is tried again.
    assert_eq!(fixture.store.next_wake().await, Ok(Some(UnixMillis(100))));
    let due = fixture.get_unscoped(&task.id).await.task.due(UnixMillis(100));
    assert_eq!(due, [Event::TimerFired]);
    fixture.apply(&task.id, None, due, 100).await.expect("it is time");
    let claimed = fixture.claim("tool", 10, 100).await.pop().expect("it is queued");
    assert_eq!((claimed.task.attempts_used, claimed.task.woken), (1, 2));
}

/// It is in no queue, is no orphan, holds no fence, is counted as blocked, and is unchanged after a restart.
pub async fn blocked_work_holds_nothing(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = blocked(&fixture, "a").await;
    let why = task.block().expect("it has a reason");
    assert_eq!(
        (why.reason, why.since, why.tries),
        (BlockReason::NonDeterminism, UnixMillis(3), 0)
    );
    assert!(task.active_attempt().is_none());
    for event in [asked(2), Event::Journaled(step(2, "late")), finished("late")] {
        let refused = fixture.apply(&task.id, Some(fence), vec![event], 4).await;
        assert_eq!(refused, Err(ApplyError::Stale));
    }
    assert_eq!(fixture.store.queued_tools().await, Ok(vec![]));
    let counts = Counts {
        blocked: 1,
        ..Counts::default()
    };
    assert_eq!(fixture.store.counts().await, Ok(counts));
    let usage = fixture.store.usage(None).await.expect("usage");
    assert_eq!(usage.live, 1);
    let before = fixture.get_unscoped(&task.id).await;
    let fixture = fixture.restart().await;
    let adopted = fixture.store.adopt(fixture.node, &host(), 10, UnixMillis(5)).await;
    assert_eq!(adopted, Ok(vec![]));
    assert_eq!(fixture.get_unscoped(&task.id).await, before);
    assert_eq!(fixture.get("alice", &task.id).await, Some(before));
    assert_eq!(
        (fixture.store.counts().await, fixture.store.usage(None).await),
        (Ok(counts), Ok(usage))
    );
}

/// Tried again and blocked again, it is the same block; an entry of the attempt in between ends it, and so does the end of the task.
pub async fn a_block_lasts_until_an_entry(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, _) = blocked(&fixture, "a").await;
    let try_again = async |at: i64, events: Vec<Event>| {
        let unblocked = Event::Unblocked {
            ready_at: UnixMillis(at),
        };
        let queued = fixture
            .apply(&task.id, None, vec![unblocked], at)
            .await
            .expect("unblocked");
        assert_eq!((queued.state, queued.blocked.is_some()), (State::Queued, true));
        let claimed = fixture.claim("tool", 1, at).await.pop().expect("it is queued").task;
        let fence = claimed.active_attempt().expect("claimed").fence();
        fixture
            .apply(&task.id, Some(fence), events, at)
            .await
            .expect("blocked again")
    };
    let again = try_again(10, vec![block("v3", 200, 9_000)]).await;
    let why = again.block().expect("it has a reason");
    assert_eq!((why.since, why.until, why.tries), (UnixMillis(3), UnixMillis(1_000), 1));
    assert!(why.is_known_for("v2") && why.is_known_for("v3"));
    let entry = Entry {
        epoch: 3,
        ..step(2, "further")
    };
    let anew = try_again(20, vec![Event::Journaled(entry), block("v4", 200, 9_000)]).await;
    let why = anew.block().expect("it has a reason");
    assert_eq!(
        (why.since, why.until, why.tries),
        (UnixMillis(20), UnixMillis(9_000), 0)
    );
    assert!(!why.is_known_for("v2"));
    let early = fixture.apply(&task.id, None, vec![Event::BlockedTimedOut], 8_999).await;
    assert!(matches!(early, Err(ApplyError::Illegal(_))));
    let due = anew.due(UnixMillis(9_000));
    assert_eq!(due, [Event::BlockedTimedOut]);
    let over = fixture.apply(&task.id, None, due, 9_000).await.expect("it is time");
    assert_eq!((over.is_done(), over.blocked), (true, None));
    let outcome = fixture.get_unscoped(&task.id).await.outcome;
    assert_eq!(outcome, Some(Outcome::RpcError(why.failure.clone())));
}

/// By their ids, and none that is not blocked any more.
pub async fn blocked_tasks_are_found_in_order(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    assert_eq!(fixture.store.find(TaskLookup::BlockedAfter(None), 10).await, Ok(vec![]));
    for name in ["d", "b", "a", "c", "e"] {
        blocked(&fixture, name).await;
    }
    fixture.create(new_task("f", fixture.node, 1)).await;
    let cancel = vec![Event::CancelRequested(CancelMode::Cooperative)];
    let over = fixture.apply(&id("b"), None, cancel, 5).await.expect("cancelled");
    assert!(over.is_done(), "no attempt is left to stop");
    let unblocked = vec![Event::Unblocked {
        ready_at: UnixMillis(5),
    }];
    fixture.apply(&id("d"), None, unblocked, 5).await.expect("unblocked");
    let fixture = fixture.restart().await;
    let after = async |after: Option<&str>, limit| {
        let after = after.map(id);
        ids(fixture
            .store
            .find(TaskLookup::BlockedAfter(after.clone()), limit)
            .await
            .expect("read"))
    };
    assert_eq!(after(None, 10).await, ["a", "c", "e"].map(id));
    assert_eq!(after(None, 2).await, ["a", "c"].map(id));
    assert_eq!(after(Some("a"), 10).await, ["c", "e"].map(id));
    assert_eq!(after(Some("b"), 1).await, [id("c")]);
    assert_eq!(after(Some("e"), 1).await, []);
}

/// An entry that is rewritten belongs to the attempt that rewrote it; a child's end belongs to no attempt.
pub async fn an_entry_records_its_attempt(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, _) = blocked(&fixture, "a").await;
    let unblocked = vec![Event::Unblocked {
        ready_at: UnixMillis(5),
    }];
    fixture.apply(&task.id, None, unblocked, 5).await.expect("unblocked");
    let claimed = fixture.claim("tool", 1, 5).await.pop().expect("it is queued").task;
    let fence = claimed.active_attempt().expect("claimed").fence();
    assert_eq!(fence.epoch, 2);
    let of = |seq, epoch| {
        Event::Journaled(Entry {
            epoch,
            ..step(seq, "x")
        })
    };
    for not_mine in [1, 3, 0] {
        let refused = fixture.apply(&task.id, Some(fence), vec![of(2, not_mine)], 6).await;
        assert_eq!(refused, Err(ApplyError::Stale), "an entry of attempt {not_mine}");
    }
    let child = Event::ChildEnded {
        entry: 3,
        value: Json::trusted("7"),
    };
    let events = vec![of(2, 2), of(3, 2), of(1, 2), child];
    fixture.apply(&task.id, Some(fence), events, 6).await.expect("entries");
    let fixture = fixture.restart().await;
    let epochs: Vec<_> = fixture
        .journal(&task.id)
        .await
        .iter()
        .map(|entry| entry.epoch)
        .collect();
    assert_eq!(epochs, [2, 2, 2]);
}
