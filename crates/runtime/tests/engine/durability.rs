//! What is told is kept, and what must be kept is insisted on.

use crate::support::{
    CallOf, Effects, FaultyCreate, FaultyStore, Process, World, beside, guarded, home, program, scope, settle, text,
};
use futures_util::FutureExt;
use longhaul_core::{Json, Outcome, State, StopReason, TaskId};
use longhaul_runtime::{Call, Engine, TaskContext, ToolSettings};
use std::sync::Arc;
use tokio::task::JoinHandle;

fn create_beside(engine: &Engine, call: Call) -> JoinHandle<()> {
    let engine = engine.clone();
    beside(async move { drop(engine.create(call).await.unwrap()) })
}

async fn the_task(world: &World, engine: &Engine) -> TaskId {
    let page = engine.list(&scope(), None, 2).await.unwrap();
    assert_eq!(page.tasks.len(), 1);
    world.task(&page.tasks[0].id).await.id.clone()
}

#[tokio::test]
async fn invariant_1_nothing_is_announced_before_it_is_durable() {
    let (world, store) = World::faulty();
    let (engine, mut runs) = world.scripted().await;
    store.hold_created.send_replace(true);
    let create = create_beside(&engine, engine.call("a"));
    settle().await;
    assert!(!create.is_finished(), "its commit is not acknowledged");
    assert!(runs.started().is_none(), "nor does anything start before");
    store.hold_created.send_replace(false);
    guarded("the create", create).await.unwrap();
    let run = runs.next().await;
    assert_eq!(run.attempt.task, the_task(&world, &engine).await);
}

#[tokio::test]
async fn invariant_9_a_dropped_connection_never_cancels_an_announced_task() {
    for held in ["before", "after", "not"] {
        let (world, store) = World::faulty();
        let (engine, mut runs) = world.scripted().await;
        hold(&store, held, true);
        let call = Call {
            ttl: None,
            priority: None,
            cancel_if_caller_leaves: false,
            ..engine.call("a")
        };
        let create = create_beside(&engine, call);
        settle().await;
        create.abort();
        settle().await;
        hold(&store, held, false);
        let run = runs.next().await;
        settle().await;
        assert_eq!(run.cx.stop_requested(), None);
        run.finish("done");
        let id = the_task(&world, &engine).await;
        assert_eq!(world.outcome(&engine, &id).await, text("done"));
    }
}

/// Wherever the caller leaves before it is told: before the commit, or after it.
#[tokio::test]
async fn a_call_whose_caller_left_before_the_acknowledgement_is_cancelled_and_kept() {
    for held in ["before", "after"] {
        let (world, store) = World::faulty();
        let (engine, mut runs) = world.scripted().await;
        hold(&store, held, true);
        let create = create_beside(&engine, engine.call("a"));
        settle().await;
        create.abort();
        settle().await;
        hold(&store, held, false);
        settle().await;
        let id = the_task(&world, &engine).await;
        if let Some(run) = runs.started() {
            run.stops(StopReason::Cancel).await;
        }
        assert_eq!(world.outcome(&engine, &id).await, Outcome::Cancelled);
    }
}

/// The news is on its way to the caller, and the caller leaves without reading it.
#[tokio::test]
async fn an_unread_acknowledgement_does_not_count() {
    let (world, store) = World::faulty();
    let (engine, mut runs) = world.scripted().await;
    store.hold_created.send_replace(true);
    let mut create = Box::pin(engine.create(engine.call("a")));
    assert!((&mut create).now_or_never().is_none());
    settle().await;
    store.hold_created.send_replace(false);
    settle().await;
    drop(create);
    let run = runs.next().await;
    run.stops(StopReason::Cancel).await;
    let expected = Outcome::Cancelled;
    assert_eq!(world.outcome(&engine, &the_task(&world, &engine).await).await, expected);
}

/// A cancel that nobody waits for is insisted on, or a command would run on for no one.
#[tokio::test]
async fn a_call_whose_caller_left_is_cancelled_also_when_the_store_is_full() {
    let (world, store) = World::faulty();
    let (engine, mut runs) = world.scripted().await;
    store.be_full_for("cancel_requested", 3);
    let waiting = engine.begin(engine.call("a")).await.unwrap();
    let id = waiting.id().clone();
    waiting.handle().abandon();
    for pause in [50, 100, 200] {
        world.clock.sleeper(pause).await;
        world.clock.advance(pause);
    }
    let run = runs.next().await;
    assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Cancel);
    assert_eq!(world.outcome(&engine, &id).await, Outcome::Cancelled);
}

#[tokio::test]
async fn an_outcome_is_written_however_often_the_store_was_full() {
    let (world, store) = World::faulty();
    let world = world.with_slots(1);
    let (engine, mut runs) = world.scripted().await;
    let task = engine.create(engine.call("a")).await.unwrap();
    store.be_full_for("attempt_ended", 10);
    runs.next().await.finish("worth keeping");
    for pause in [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000] {
        world.clock.sleeper(pause).await;
        settle().await;
        assert_eq!(world.state(&task.id).await, State::Running);
        world.clock.advance(pause);
    }
    assert_eq!(world.outcome(&engine, &task.id).await, text("worth keeping"));
}

/// No attempt is spent on it either: the caller is held until there is room.
#[tokio::test]
async fn a_child_is_started_however_often_the_store_was_full() {
    let (world, store) = World::faulty();
    let ran = Effects::default();
    let child = move |_: TaskContext| {
        let nth = ran.happen();
        async move { Ok(format!("run {nth}")) }
    };
    let child = ToolSettings {
        deadline: Some(1_000),
        ..program("child", child)
    };
    let attempts = Effects::default();
    let calls = move |cx: TaskContext| {
        let nth = attempts.happen();
        async move {
            let child = cx.call("child", Json::trusted("{}")).await?;
            let as_told = child.outcome == text("run 1");
            Ok(format!("{as_told} in attempt {nth}"))
        }
    };
    let engine = world.start([program("calls", calls), child]).await;
    store.fail_creates("child", &[FaultyCreate::Full; 8]);
    let task = engine.create(engine.call("calls")).await.unwrap();
    for pause in [50, 100, 200, 400, 800, 1_600, 3_200, 5_000] {
        world.clock.sleeper(pause).await;
        settle().await;
        assert_eq!(world.state(&task.id).await, State::Running);
        world.clock.advance(pause);
    }
    assert_eq!(world.outcome(&engine, &task.id).await, text("true in attempt 1"));
}

/// What a store has kept although it said that it failed is not made again, and not left lying.
#[tokio::test]
async fn a_child_whose_start_was_kept_all_the_same_is_run_once() {
    let (world, store) = World::faulty();
    let ran = Effects::default();
    let child = move |_: TaskContext| {
        let nth = ran.happen();
        async move { Ok(format!("run {nth}")) }
    };
    let calls = |cx: TaskContext| async move {
        let first = cx.call("child", Json::trusted("{}")).await?;
        let second = cx.call("child", Json::trusted("{}")).await?;
        let as_told = (first.outcome, second.outcome) == (text("run 1"), text("run 2"));
        Ok(format!("{as_told}"))
    };
    let engine = world.start([program("calls", calls), program("child", child)]).await;
    store.fail_creates("child", &[FaultyCreate::Unsure; 2]);
    let task = engine.create(engine.call("calls")).await.unwrap();
    assert_eq!(world.outcome(&engine, &task.id).await, text("true"));
}

#[test]
fn invariant_11_an_acknowledged_task_is_done_by_the_next_process() {
    let (directory, clock) = home();
    let tasks = Process::run(directory.path(), &clock, async |world| {
        let world = world.with_slots(1);
        let (engine, mut runs) = world.scripted().await;
        let mut tasks = Vec::new();
        for _ in 0..4 {
            tasks.push(engine.create(engine.call("a")).await.unwrap().id.clone());
        }
        runs.next().await.finish("before the end");
        world.outcome(&engine, &tasks[0]).await;
        runs.next().await;
        tasks
    });
    clock.advance(1);
    Process::run(directory.path(), &clock, async |world| {
        let world = world.with_slots(1);
        let (engine, mut runs, recovered) = world.recovered(false).await;
        assert_eq!(world.outcome(&engine, &tasks[0]).await, text("before the end"));
        assert_eq!((recovered.attempts, recovered.orphaned_calls), (1, 0));
        let resumed = runs.next().await;
        assert!(resumed.resumed && resumed.attempt.task == tasks[1] && resumed.attempt.epoch == 1);
        resumed.finish("adopted");
        assert_eq!(world.outcome(&engine, &tasks[1]).await, text("adopted"));
        for id in &tasks[2..] {
            let run = runs.next().await;
            // The queue goes on in its order.
            assert_eq!((&run.attempt.task, run.resumed), (id, false));
            run.finish("after the end");
            assert_eq!(world.outcome(&engine, id).await, text("after the end"));
        }
    });
}

/// A stopped engine begins nothing more and tells no one that it did.
#[tokio::test]
async fn a_stopped_engine_refuses_calls() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    engine.stop();
    let refused = guarded("a refusal", engine.create(engine.call("a"))).await;
    assert_eq!(refused, Err(longhaul_core::store::StoreError::Closed.into()));
    settle().await;
    assert!(runs.started().is_none());
    assert_eq!(world.store.counts().await.unwrap(), Default::default());
}

fn hold(store: &Arc<FaultyStore>, held: &str, hold: bool) {
    match held {
        "before" => drop(store.hold_creates.send_replace(hold)),
        "after" => drop(store.hold_created.send_replace(hold)),
        _ => {}
    }
}
