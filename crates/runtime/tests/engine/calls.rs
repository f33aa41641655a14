//! Calls that are waited for, and calls that become tasks on the way.

use crate::support::{CallOf, World, beside, guarded, scope, settle, text};
use longhaul_core::{Outcome, State, StopReason};
use longhaul_runtime::{PlainCallState, Promotion};

#[tokio::test]
async fn a_plain_call_is_visible_only_to_its_caller() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let mut waiting = engine.begin(engine.call("a")).await.unwrap();
    assert_eq!(engine.get(&scope(), waiting.id()).await.unwrap(), None);
    assert!(engine.list(&scope(), None, 10).await.unwrap().tasks.is_empty());
    let run = runs.next().await;
    run.cx.status("half way");
    guarded("news", async {
        loop {
            waiting.changed().await;
            match waiting.read().await.unwrap() {
                PlainCallState::Changed(record) if record.task.status.is_some() => break,
                step => assert!(matches!(step, PlainCallState::Changed(_))),
            }
        }
    })
    .await;
    run.finish("done");
    let ended = guarded("the end", waiting.ended(|_| ())).await.unwrap();
    assert_eq!(ended, text("done"));
}

#[tokio::test]
async fn plain_calls_take_slots_too() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.scripted().await;
    let _task = engine.create(engine.call("a")).await.unwrap();
    let waiting = engine.begin(engine.call("a")).await.unwrap();
    assert_eq!(world.state(waiting.id()).await, State::Queued);
    runs.next().await.finish("done");
    assert_eq!(&runs.next().await.attempt.task, waiting.id());
}

#[tokio::test]
async fn a_wait_that_is_dropped_changes_nothing_and_one_that_is_abandoned_cancels() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let dropped = engine.begin(engine.call("a")).await.unwrap();
    let dropped_id = dropped.id().clone();
    drop(dropped);
    let abandoned = engine.begin(engine.call("a")).await.unwrap();
    let abandoned_id = abandoned.id().clone();
    abandoned.handle().abandon();
    let (first, second) = (runs.next().await, runs.next().await);
    assert_eq!(guarded("the stop", second.cx.stopped()).await, StopReason::Cancel);
    assert_eq!(world.outcome(&engine, &abandoned_id).await, Outcome::Cancelled);
    settle().await;
    assert_eq!(first.cx.stop_requested(), None);
    first.finish("done");
    assert_eq!(world.outcome(&engine, &dropped_id).await, text("done"));
}

#[tokio::test]
async fn a_promoted_call_is_a_task_like_any_other() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let mut waiting = engine.begin(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    let Promotion::Task(task) = waiting.promote().await.unwrap() else {
        panic!("it still runs")
    };
    drop(waiting);
    settle().await;
    assert_eq!(run.cx.stop_requested(), None);
    run.finish("done");
    world.outcome(&engine, &task.id).await;
    let record = engine.get(&scope(), &task.id).await.unwrap().unwrap();
    assert_eq!(record.outcome, Some(text("done")));
}

/// Whoever is first wins, and the client gets one of the two whole.
#[tokio::test]
async fn a_promotion_after_the_end_returns_the_outcome() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    for stop in [false, true] {
        let mut waiting = engine.begin(engine.call("a")).await.unwrap();
        let run = runs.next().await;
        let id = waiting.id().clone();
        if stop {
            // It is being stopped: promised to nobody, but not over yet.
            let cancel = longhaul_core::Event::CancelRequested(longhaul_core::CancelMode::Cooperative);
            let at = longhaul_core::Clock::now(&*world.clock);
            let change = longhaul_core::store::Change::of(&id, cancel, at);
            world.store.apply(change).await.unwrap();
            let promotion = beside(async move { waiting.promote().await.unwrap() });
            settle().await;
            run.end(longhaul_runtime::ExecutionEnd::Stopped(StopReason::Cancel));
            let promotion = guarded("the end", promotion).await.unwrap();
            assert!(matches!(promotion, Promotion::Ended(Outcome::Cancelled)));
        } else {
            run.finish("done");
            world.outcome(&engine, &id).await;
            let promotion = waiting.promote().await.unwrap();
            assert!(matches!(promotion, Promotion::Ended(outcome) if outcome == text("done")));
        }
        assert_eq!(engine.get(&scope(), &id).await.unwrap(), None, "it was never announced");
    }
}

/// A legacy call with arguments that can never run is owed a task all the same.
#[tokio::test]
async fn a_call_can_be_over_from_its_beginning() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.scripted().await;
    let outcome = Outcome::tool_error("the path is missing");
    let task = engine.create_ended(engine.call("a"), outcome.clone()).await.unwrap();
    assert!(task.is_done());
    let expected = Some(outcome);
    assert_eq!(engine.get(&scope(), &task.id).await.unwrap().unwrap().outcome, expected);
    settle().await;
    assert!(runs.started().is_none());
    // It took no slot.
    assert_eq!(engine.create(engine.call("a")).await.unwrap().state, State::Running);
}
