//! The same call, made again under its idempotency key.

use crate::support::{CallOf, ManualClock, Process, World, beside, guarded, scope, settle, text};
use longhaul_core::{Json, Outcome, State, StopReason, TaskId, store::CreateError};
use longhaul_runtime::{Call, Engine, Promotion, Requestor};
use std::sync::Arc;

fn keyed(engine: &Engine, arguments: &str) -> Call {
    Call {
        arguments: Json::trusted(arguments),
        idempotency_key: Some("key".into()),
        ..engine.call("a")
    }
}

async fn list(engine: &Engine) -> Vec<TaskId> {
    let page = engine.list(&scope(), None, 10).await.unwrap();
    page.tasks.into_iter().map(|task| task.id.clone()).collect()
}

/// However the arguments are written. The repeat holds no slot, and gets the task also when it is over.
#[tokio::test]
async fn the_same_call_is_started_once() {
    let world = World::in_memory().with_slots(2);
    let (engine, mut runs) = world.scripted().await;
    let first = engine.create(keyed(&engine, r#"{"a":1,"b":[2]}"#)).await.unwrap();
    let again = engine
        .create(keyed(&engine, r#"{ "b": [2.0], "a": 1 }"#))
        .await
        .unwrap();
    assert_eq!(again.id, first.id);
    let other = engine.create(engine.call("a")).await.unwrap();
    assert_eq!(other.state, State::Running, "the repeat took no slot");
    let run = runs.next().await;
    assert_eq!(run.attempt.task, first.id);
    assert_eq!(runs.next().await.attempt.task, other.id);
    run.finish("done");
    world.outcome(&engine, &first.id).await;
    let late = engine.create(keyed(&engine, r#"{"a":1,"b":[2]}"#)).await.unwrap();
    let expected = (first.id.clone(), world.task(&again.id).await.state);
    assert_eq!((late.id.clone(), late.state), expected);
    settle().await;
    assert!(runs.started().is_none());
}

#[tokio::test]
async fn a_key_with_other_arguments_is_refused_and_nothing_starts() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let first = engine.create(keyed(&engine, r#"{"a":1}"#)).await.unwrap();
    runs.next().await;
    let refused = engine.create(keyed(&engine, r#"{"a":2}"#)).await;
    assert_eq!(refused, Err(CreateError::IdempotencyKeyConflict));
    let refused = engine.begin(keyed(&engine, r#"{"a":2}"#)).await.map(|_| ());
    assert_eq!(refused, Err(CreateError::IdempotencyKeyConflict));
    let outcome = Outcome::tool_error("bad");
    let refused = engine.create_ended(keyed(&engine, r#"{"a":2}"#), outcome).await;
    assert_eq!(refused, Err(CreateError::IdempotencyKeyConflict));
    settle().await;
    assert!(runs.started().is_none());
    assert_eq!(list(&engine).await, std::slice::from_ref(&first.id));
}

/// As when a client that saw no answer tries again at once.
#[tokio::test]
async fn of_calls_at_the_same_time_one_is_started() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let engine = engine.clone();
            beside(async move { engine.create(keyed(&engine, "{}")).await.unwrap().id.clone() })
        })
        .collect();
    let mut ids = Vec::new();
    for call in calls {
        ids.push(guarded("a create", call).await.unwrap());
    }
    let run = runs.next().await;
    assert!(ids.iter().all(|id| *id == run.attempt.task));
    settle().await;
    assert!(runs.started().is_none());
}

/// The repeat of a call that is waited for waits for the same end; that the first client leaves is not the end of it.
#[tokio::test]
async fn a_repeat_of_a_plain_call_waits_for_the_same_end() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let first = engine.begin(keyed(&engine, "{}")).await.unwrap();
    let run = runs.next().await;
    let mut again = engine.begin(keyed(&engine, "{}")).await.unwrap();
    assert_eq!(again.id(), first.id());
    first.handle().leave();
    settle().await;
    assert_eq!(run.cx.stop_requested(), None);
    assert!(list(&engine).await.is_empty(), "nobody was told an id");
    run.cx.progress(1.0, None);
    assert!(guarded("progress", again.next_message()).await.is_some());
    run.finish("done");
    assert_eq!(guarded("the end", again.ended(|_| ())).await.unwrap(), text("done"));
    let mut late = engine.begin(keyed(&engine, "{}")).await.unwrap();
    assert_eq!(guarded("the end", late.ended(|_| ())).await.unwrap(), text("done"));
    settle().await;
    assert!(runs.started().is_none());
}

/// Without a key nobody can come back for it.
#[tokio::test]
async fn a_plain_call_without_a_key_is_cancelled_when_its_client_leaves() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let waiting = engine.begin(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    waiting.handle().leave();
    assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Cancel);
}

/// What was only waited for is a task from then on, while it runs and when it is over.
#[tokio::test]
async fn a_repeat_that_asks_for_a_task_promotes() {
    for over in [false, true] {
        let world = World::in_memory();
        let (engine, mut runs) = world.scripted().await;
        let first = engine.begin(keyed(&engine, "{}")).await.unwrap();
        let run = runs.next().await;
        let mut run = Some(run);
        if over {
            run.take().unwrap().finish("done");
            world.outcome(&engine, first.id()).await;
        }
        let task = engine.create(keyed(&engine, "{}")).await.unwrap();
        assert_eq!((&task.id, task.announced), (first.id(), true));
        assert_eq!(list(&engine).await, std::slice::from_ref(&task.id));
        if let Some(run) = run {
            run.finish("done");
        }
        world.outcome(&engine, &task.id).await;
        let record = engine.get(&scope(), &task.id).await.unwrap().unwrap();
        assert_eq!(record.outcome, Some(text("done")));
    }
}

/// `after`: the repeat waits a while, and then gets the task that the call has been all along.
#[tokio::test]
async fn a_repeat_that_has_waited_long_enough_gets_the_task() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let task = engine.create(keyed(&engine, "{}")).await.unwrap();
    let run = runs.next().await;
    let mut again = engine.begin(keyed(&engine, "{}")).await.unwrap();
    let Promotion::Task(same) = guarded("the task", again.promote()).await.unwrap() else {
        panic!("it still runs")
    };
    assert_eq!(same.id, task.id);
    run.finish("done");
    world.outcome(&engine, &task.id).await;
    let mut late = engine.begin(keyed(&engine, "{}")).await.unwrap();
    let promotion = guarded("the end", late.promote()).await.unwrap();
    assert!(matches!(promotion, Promotion::Ended(outcome) if outcome == text("done")));
}

/// The caller can come back, so a call with a key is not cancelled when its caller leaves before it was told.
#[tokio::test]
async fn a_call_with_a_key_outlives_a_caller_that_left_before_the_acknowledgement() {
    let (world, store) = World::faulty();
    let (engine, mut runs) = world.scripted().await;
    store.hold_created.send_replace(true);
    let create = beside({
        let (engine, call) = (engine.clone(), keyed(&engine, "{}"));
        async move { drop(engine.create(call).await) }
    });
    settle().await;
    create.abort();
    settle().await;
    store.hold_created.send_replace(false);
    let run = runs.next().await;
    settle().await;
    assert_eq!(run.cx.stop_requested(), None);
    let again = engine.create(keyed(&engine, "{}")).await.unwrap();
    assert_eq!(again.id, run.attempt.task);
}

/// A client that has changed its mind says so, and a key does not keep the call from being cancelled.
#[tokio::test]
async fn a_call_with_a_key_can_be_called_off() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let waiting = engine.begin(keyed(&engine, "{}")).await.unwrap();
    let run = runs.next().await;
    waiting.handle().abandon();
    run.stops(StopReason::Cancel).await;
    let again = engine.create(keyed(&engine, "{}")).await.unwrap();
    assert_eq!(world.outcome(&engine, &again.id).await, Outcome::Cancelled);
}

/// The next process goes on with it, knows who called, and tells whoever comes back.
#[test]
fn a_plain_call_with_a_key_survives_a_restart() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::new()));
    let from = Requestor {
        version: "2026-07-28".into(),
        progress_token: Some(Json::trusted("\"token\"")),
        ..Requestor::default()
    };
    let id = Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.bound().await;
        let call = Call {
            requestor: from.clone().into(),
            ..keyed(&engine, "{}")
        };
        let waiting = engine.begin(call).await.unwrap();
        assert_eq!(**runs.next().await.cx.requestor(), from);
        waiting.id().clone()
    });
    clock.advance(1);
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs, recovered) = world.recovered(true).await;
        assert_eq!((recovered.orphaned_calls, recovered.attempts), (0, 1));
        let mut again = engine.begin(keyed(&engine, "{}")).await.unwrap();
        assert_eq!(*again.id(), id);
        let run = runs.next().await;
        assert_eq!(**run.cx.requestor(), from);
        run.finish("went on");
        assert_eq!(guarded("the end", again.ended(|_| ())).await.unwrap(), text("went on"));
    });
}
