//! Deadlines count from the creation, over queueing and all attempts.

use crate::support::{CallOf, Process, Script, World, guarded, home, retry, settle, text, tool};
use longhaul_core::{Outcome, RetryOn, State, StopReason};
use longhaul_runtime::{ExecutionEnd, ToolSettings};

const DEADLINE: u64 = 60_000;

fn with_deadline(tool: &mut ToolSettings) {
    tool.deadline = Some(DEADLINE);
}

fn passed() -> Outcome {
    Outcome::deadline_passed(DEADLINE)
}

#[tokio::test]
async fn a_deadline_stops_running_work_and_ends_the_task_as_the_work_does() {
    let world = World::in_memory();
    let (engine, mut runs) = world.playing(with_deadline).await;
    let task = engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    world.clock.sleeper(60_000).await;
    world.clock.advance(59_999);
    settle().await;
    assert_eq!(run.cx.stop_requested(), None);
    world.clock.advance(1);
    assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Deadline);
    assert_eq!(world.state(&task.id).await, State::Running, "the work still stops");
    run.end(ExecutionEnd::Stopped(StopReason::Deadline));
    assert_eq!(world.outcome(&engine, &task.id).await, passed());
}

#[tokio::test]
async fn work_that_finishes_over_its_deadline_keeps_its_answer() {
    let world = World::in_memory();
    let (engine, mut runs) = world.playing(with_deadline).await;
    let task = engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    world.clock.sleeper(60_000).await;
    world.clock.advance(60_000);
    guarded("the stop", run.cx.stopped()).await;
    run.finish("just made it");
    assert_eq!(world.outcome(&engine, &task.id).await, text("just made it"));
}

#[tokio::test]
async fn a_deadline_ends_queued_work_without_starting_it() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.playing(with_deadline).await;
    engine.create(engine.call("a")).await.unwrap();
    let held = runs.next().await;
    world.clock.advance(1);
    let queued = engine.create(engine.call("a")).await.unwrap();
    world.clock.sleeper(59_999).await;
    world.clock.advance(59_999);
    guarded("the stop", held.cx.stopped()).await;
    world.clock.sleeper(1).await;
    world.clock.advance(1);
    assert_eq!(world.outcome(&engine, &queued.id).await, passed());
    held.finish("done");
    settle().await;
    assert!(runs.started().is_none());
}

/// The timers are not the only ones who look: a slot that comes free at the very moment starts nothing that is too late.
#[tokio::test]
async fn work_whose_deadline_has_passed_is_not_begun() {
    let (world, store) = World::faulty();
    let world = world.with_slots(1);
    let (engine, mut runs) = world.playing(with_deadline).await;
    engine.create(engine.call("a")).await.unwrap();
    let queued = engine.create(engine.call("a")).await.unwrap();
    store.be_full_for("deadline_passed", usize::MAX);
    world.clock.sleeper(60_000).await;
    world.clock.advance(60_000);
    runs.next().await.finish("done");
    assert_eq!(world.outcome(&engine, &queued.id).await, passed());
    assert!(runs.started().is_none());
}

#[tokio::test]
async fn nothing_is_retried_once_the_deadline_has_passed_or_would_have() {
    for (advance, backoff) in [(60_000, 1_000), (59_000, 1_000), (1_000, 100_000)] {
        let world = World::in_memory();
        let retry = retry(5, backoff, [RetryOn::Error]);
        let change = |tool: &mut ToolSettings| (tool.deadline, tool.retry) = (Some(DEADLINE), retry);
        let (engine, mut runs) = world.playing(change).await;
        let task = engine.create(engine.call("a")).await.unwrap();
        let run = runs.next().await;
        world.clock.advance(advance);
        settle().await;
        run.end(ExecutionEnd::Errored(Outcome::tool_error("failed")));
        let outcome = world.outcome(&engine, &task.id).await;
        let expected = if advance == 60_000 {
            passed()
        } else {
            // Who reads the result would wonder where the other attempts are.
            Outcome::tool_error("failed")
                .with_note("Attempt 1 of 5: no time was left for another one before the deadline.")
        };
        assert_eq!(outcome, expected);
    }
}

/// A task with an early deadline wakes timers that sleep for a later one.
#[tokio::test]
async fn an_earlier_deadline_than_all_others_is_not_slept_through() {
    let world = World::in_memory();
    let ((slow, _slow_runs), (quick, mut quick_runs)) = (Script::new(), Script::new());
    let until = |deadline, tool| ToolSettings {
        deadline: Some(deadline),
        ..tool
    };
    let tools = [until(DEADLINE, tool("a", slow)), until(5_000, tool("quick", quick))];
    let engine = world.start(tools).await;
    engine.create(engine.call("a")).await.unwrap();
    world.clock.sleeper(60_000).await;
    engine.create(engine.call("quick")).await.unwrap();
    world.clock.sleeper(5_000).await;
    world.clock.advance(5_000);
    let run = quick_runs.next().await;
    assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Deadline);
}

/// Nor is one that is written at the very moment the timers look.
#[tokio::test]
async fn a_deadline_that_is_set_while_timers_are_read_is_not_missed() {
    let (world, store) = World::faulty();
    store.hold_next_wake.send_replace(true);
    // Shorter than the timers ever sleep, whatever they know.
    let engine = world.playing(|tool| tool.deadline = Some(10_000));
    let released = async {
        // The first look, at the start.
        settle().await;
        store.hold_next_wake.send_replace(false);
    };
    let ((engine, mut runs), ()) = tokio::join!(engine, released);
    engine.create(engine.call("a")).await.unwrap();
    let first = runs.next().await;
    world.clock.sleeper(10_000).await;
    store.hold_next_wake.send_replace(true);
    world.clock.advance(10_000);
    guarded("the stop", first.cx.stopped()).await;
    // The timers look for the next moment, have found one an hour away, and are not told yet.
    settle().await;
    engine.create(engine.call("a")).await.unwrap();
    let second = runs.next().await;
    store.hold_next_wake.send_replace(false);
    world.clock.sleeper(10_000).await;
    settle().await;
    world.clock.advance(10_000);
    guarded("the stop", second.cx.stopped()).await;
}

#[test]
fn deadlines_pass_also_while_the_server_is_down() {
    let (directory, clock) = home();
    let (running, queued) = Process::run(directory.path(), &clock, async |world| {
        let world = world.with_slots(1);
        let (engine, mut runs, _) = world.recovering(true, with_deadline).await;
        let running = engine.create(engine.call("a")).await.unwrap().id.clone();
        let queued = engine.create(engine.call("a")).await.unwrap().id.clone();
        runs.next().await;
        (running, queued)
    });
    clock.advance(60_000);
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs, recovered) = world.recovering(true, with_deadline).await;
        assert_eq!(recovered.attempts, 1);
        assert_eq!(world.outcome(&engine, &queued).await, passed());
        let run = runs.next().await;
        assert!(run.resumed);
        run.stops(StopReason::Deadline).await;
        assert_eq!(world.outcome(&engine, &running).await, passed());
        assert!(runs.started().is_none());
    });
}
