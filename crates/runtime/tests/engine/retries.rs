//! What is run again, when, and how often.

use crate::support::{CallOf, Run, Script, World, retry, settle, text, tool};
use longhaul_core::{CancelMode, Failure, Outcome, RetryOn, State, StopReason};
use longhaul_runtime::{ExecutionEnd, ToolSettings};

fn retrying(on: impl Into<Vec<RetryOn>>) -> impl FnOnce(&mut ToolSettings) {
    let retry = retry(3, 10_000, on);
    |tool| tool.retry = retry
}

fn errored() -> ExecutionEnd {
    ExecutionEnd::Errored(Outcome::tool_error("exit 1"))
}

fn exited() -> ExecutionEnd {
    ExecutionEnd::Exited(75, Outcome::tool_error("exit 75"))
}

fn timed_out() -> ExecutionEnd {
    ExecutionEnd::TimedOut(Outcome::tool_error("too long"))
}

fn unknown() -> ExecutionEnd {
    ExecutionEnd::OutcomeUnknown(Outcome::tool_error("nobody knows"))
}

#[tokio::test]
async fn a_failed_attempt_is_run_again_after_a_growing_wait_as_often_as_allowed() {
    for (on, fail, last) in [
        (
            RetryOn::Crash,
            (|| ExecutionEnd::Crashed) as fn() -> ExecutionEnd,
            Outcome::from(Failure::AttemptsUsedUp { attempts: 3 }),
        ),
        (RetryOn::Error, errored, Outcome::tool_error("exit 1")),
        (RetryOn::Error, exited, Outcome::tool_error("exit 75")),
        (RetryOn::Exit(75), exited, Outcome::tool_error("exit 75")),
        (RetryOn::Timeout, timed_out, Outcome::tool_error("too long")),
        (RetryOn::Crash, unknown, Outcome::tool_error("nobody knows")),
    ] {
        let world = World::in_memory();
        let (engine, mut runs) = world.playing(retrying([on])).await;
        let task = engine.create(engine.call("a")).await.unwrap();
        for (epoch, wait) in [(1, 10_000), (2, 20_000)] {
            let run = runs.next().await;
            assert_eq!(run.attempt.epoch, epoch);
            run.end(fail());
            world.reaches(&engine, &task.id, State::Queued).await;
            world.clock.sleeper(wait).await;
            world.clock.advance(wait - 1);
            settle().await;
            assert!(runs.started().is_none(), "not before its time");
            world.clock.advance(1);
        }
        runs.next().await.end(fail());
        assert_eq!(world.outcome(&engine, &task.id).await, last);
    }
}

#[tokio::test]
async fn what_the_policy_does_not_name_is_not_run_again() {
    for (on, end, outcome) in [
        (vec![], ExecutionEnd::Crashed, Outcome::from(Failure::Interrupted)),
        (
            vec![RetryOn::Error],
            ExecutionEnd::Crashed,
            Outcome::from(Failure::Interrupted),
        ),
        (vec![RetryOn::Crash], errored(), Outcome::tool_error("exit 1")),
        (
            vec![RetryOn::Exit(74), RetryOn::Timeout],
            exited(),
            Outcome::tool_error("exit 75"),
        ),
        (
            vec![RetryOn::Error, RetryOn::Crash],
            timed_out(),
            Outcome::tool_error("too long"),
        ),
        (
            vec![RetryOn::Crash, RetryOn::Error],
            ExecutionEnd::Finished(Outcome::tool_error("no")),
            Outcome::tool_error("no"),
        ),
    ] {
        let world = World::in_memory();
        let (engine, mut runs) = world.playing(retrying(on)).await;
        let task = engine.create(engine.call("a")).await.unwrap();
        runs.next().await.end(end);
        assert_eq!(world.outcome(&engine, &task.id).await, outcome);
    }
}

#[tokio::test]
async fn a_later_attempt_can_still_succeed() {
    let world = World::in_memory();
    let (engine, mut runs) = world.playing(retrying([RetryOn::Error])).await;
    let task = engine.create(engine.call("a")).await.unwrap();
    runs.next().await.panic();
    world.clock.sleeper(10_000).await;
    world.clock.advance(10_000);
    runs.next().await.finish("second time lucky");
    assert_eq!(world.outcome(&engine, &task.id).await, text("second time lucky"));
}

#[tokio::test]
async fn nothing_is_run_again_after_a_cancel() {
    for fail in [
        |run: Run| run.end(ExecutionEnd::Crashed),
        |run: Run| run.end(errored()),
        Run::panic,
    ] {
        let world = World::in_memory();
        let (engine, mut runs) = world.playing(retrying([RetryOn::Crash, RetryOn::Error])).await;
        let task = engine.create(engine.call("a")).await.unwrap();
        let run = runs.next().await;
        engine
            .cancel(&crate::support::scope(), &task.id, CancelMode::Cooperative)
            .await
            .unwrap();
        assert_eq!(run.cx.stop_requested(), Some(StopReason::Cancel));
        fail(run);
        assert_eq!(world.outcome(&engine, &task.id).await, Outcome::Cancelled);
        settle().await;
        assert!(runs.started().is_none());
    }
}

/// A task that waits for its next attempt waits for a slot too, and its queue timeout counts from when it is ready.
#[tokio::test]
async fn a_task_that_is_queued_again_can_time_out_there() {
    let world = World::in_memory().with_slots(1);
    let (script, mut runs) = Script::new();
    let settings = ToolSettings {
        queue_timeout: Some(5_000),
        retry: retry(3, 10_000, [RetryOn::Crash]),
        ..tool("a", script)
    };
    let (other, mut other_runs) = Script::new();
    let engine = world.start([settings, tool("other", other)]).await;
    let task = engine.create(engine.call("a")).await.unwrap();
    runs.next().await.end(ExecutionEnd::Crashed);
    world.reaches(&engine, &task.id, State::Queued).await;
    engine.create(engine.call("other")).await.unwrap();
    let _held = other_runs.next().await;
    world.clock.sleeper(15_000).await;
    world.clock.advance(15_000);
    let expected = Outcome::from(Failure::QueueTimeout);
    assert_eq!(world.outcome(&engine, &task.id).await, expected);
}
