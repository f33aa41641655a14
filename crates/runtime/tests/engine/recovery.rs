//! What the next process finds.

use crate::durable::rpc_error;
use crate::support::{CallOf, Process, World, home, retry, settle, text};
use longhaul_core::{Failure, Outcome, RetryOn, SessionKey, State, StopReason, TaskId, store::Counts};
use longhaul_runtime::{ExecutionEnd, ToolSettings};

/// A plain call's caller is gone with the process: its work is stopped, not awaited.
#[test]
fn orphaned_calls_are_cancelled_and_their_work_is_stopped() {
    let (directory, clock) = home();
    let (running, queued, announced) = Process::run(directory.path(), &clock, async |world| {
        let world = world.with_slots(2);
        let (engine, mut runs) = world.bound().await;
        let announced = engine.create(engine.call("a")).await.unwrap().id.clone();
        let running = engine.begin(engine.call("a")).await.unwrap();
        let queued = engine.begin(engine.call("a")).await.unwrap();
        runs.next().await;
        runs.next().await;
        (running.id().clone(), queued.id().clone(), announced)
    });
    clock.advance(1);
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs, recovered) = world.recovered(true).await;
        assert_eq!((recovered.orphaned_calls, recovered.attempts), (2, 2));
        let live = Counts {
            running: 1,
            ..Counts::default()
        };
        assert_eq!(recovered.live, live);
        for id in [&running, &queued] {
            assert_eq!(world.outcome(&engine, id).await, Outcome::Cancelled);
        }
        for _ in 0..2 {
            let run = runs.next().await;
            assert!(run.resumed);
            if run.attempt.task == announced {
                assert_eq!(run.cx.stop_requested(), None);
                run.finish("went on");
            } else {
                run.stops(StopReason::Cancel).await;
            }
        }
        assert_eq!(world.outcome(&engine, &announced).await, text("went on"));
        world.rests(&engine, &running).await;
    });
}

/// A client with a session beyond its connection may come back, and does not have to be waited for long.
#[test]
fn orphaned_calls_of_clients_that_may_return_are_kept_for_a_minute() {
    let (directory, clock) = home();
    let id = Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.bound().await;
        let mut call = engine.call("a");
        call.owner.session = Some(SessionKey::named("0a"));
        let id = engine.begin(call).await.unwrap().id().clone();
        let mut left = engine.call("a");
        left.owner.session = Some(SessionKey::of_connection("0b"));
        engine.begin(left).await.unwrap();
        runs.next().await;
        id
    });
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs, recovered) = world.recovered(true).await;
        assert_eq!((recovered.orphaned_calls, recovered.live.running), (1, 1));
        let run = loop {
            let run = runs.next().await;
            if run.attempt.task == id {
                break run;
            }
        };
        assert!(run.resumed);
        clock.advance(59_000);
        settle().await;
        assert_eq!(run.cx.stop_requested(), None);
        clock.advance(1_000);
        run.stops(StopReason::Cancel).await;
        world.rests(&engine, &id).await;
    });
}

#[test]
fn work_that_died_with_the_process_is_retried_or_ends_interrupted() {
    for (attempts, expected) in [(1, Outcome::from(Failure::Interrupted)), (2, text("second"))] {
        let (directory, clock) = home();
        let settings = |tool: &mut ToolSettings| tool.retry = retry(attempts, 0, [RetryOn::Crash]);
        let id = Process::run(directory.path(), &clock, async |world| {
            let (engine, mut runs) = world.playing(settings).await;
            let task = engine.create(engine.call("a")).await.unwrap();
            runs.next().await;
            task.id.clone()
        });
        clock.advance(1);
        Process::run(directory.path(), &clock, async |world| {
            let (engine, mut runs, recovered) = world.recovering(false, settings).await;
            assert_eq!(recovered.attempts, 1);
            runs.next().await.end(ExecutionEnd::Crashed);
            if attempts == 2 {
                let run = runs.next().await;
                assert_eq!((run.attempt.epoch, run.resumed), (2, false));
                run.finish("second");
            }
            assert_eq!(world.outcome(&engine, &id).await, expected);
        });
    }
}

/// What was voided before it began goes back to its queue at no cost and without a pause.
#[test]
fn what_never_started_is_started_by_the_next_process() {
    let (directory, clock) = home();
    let id = Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.bound().await;
        let task = engine.create(engine.call("a")).await.unwrap();
        runs.next().await;
        task.id.clone()
    });
    clock.advance(1);
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.bound().await;
        runs.next().await.end(ExecutionEnd::NeverStarted("voided".to_owned()));
        let run = runs.next().await;
        assert_eq!((run.attempt.epoch, run.resumed), (2, false));
        run.finish("done");
        assert_eq!(world.outcome(&engine, &id).await, text("done"));
        assert_eq!(world.task(&id).await.attempts_used, 1);
    });
}

/// Resumed work is counted beyond the limit, and nothing new begins until it is below again.
#[test]
fn resumed_work_counts_against_the_slots() {
    let (directory, clock) = home();
    let queued: TaskId = Process::run(directory.path(), &clock, async |world| {
        let world = world.with_slots(3);
        let (engine, mut runs) = world.bound().await;
        for _ in 0..3 {
            engine.create(engine.call("a")).await.unwrap();
            runs.next().await;
        }
        engine.create(engine.call("a")).await.unwrap().id.clone()
    });
    clock.advance(1);
    Process::run(directory.path(), &clock, async |world| {
        let world = world.with_slots(1);
        let (engine, mut runs, recovered) = world.recovered(true).await;
        assert_eq!((recovered.attempts, recovered.live.queued), (3, 1));
        for _ in 0..3 {
            assert_eq!(world.state(&queued).await, State::Queued);
            let run = runs.next().await;
            assert!(run.resumed);
            let id = run.attempt.task.clone();
            run.finish("done");
            world.outcome(&engine, &id).await;
        }
        let run = runs.next().await;
        assert_eq!((run.attempt.task, run.resumed), (queued, false));
    });
}

/// A wait for a slot runs out also while nobody could give one; what is too late is not begun at the start.
#[test]
fn queue_timeouts_pass_while_the_server_is_down() {
    let (directory, clock) = home();
    let settings = |tool: &mut ToolSettings| tool.queue_timeout = Some(10_000);
    let queued = Process::run(directory.path(), &clock, async |world| {
        let world = world.with_slots(1);
        let (engine, mut runs) = world.playing(settings).await;
        engine.create(engine.call("a")).await.unwrap();
        runs.next().await;
        engine.create(engine.call("a")).await.unwrap().id.clone()
    });
    clock.advance(10_000);
    Process::run(directory.path(), &clock, async |world| {
        let (engine, _runs, recovered) = world.recovering(false, settings).await;
        assert_eq!((recovered.attempts, recovered.live.queued), (1, 0));
        let outcome = world.outcome(&engine, &queued).await;
        assert_eq!(outcome, Outcome::from(Failure::QueueTimeout));
    });
}

/// A task keeps the definition it was created with; a tool that is gone lets its tasks end in plain words.
#[tokio::test]
async fn a_tool_that_nothing_can_run_any_more_ends_its_tasks() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    let queued = engine.create(engine.call("a")).await.unwrap();
    let _held = runs.next().await;
    engine.stop();
    let engine = world.start([]).await;
    let outcome = world.outcome(&engine, &queued.id).await;
    assert_eq!(rpc_error(&outcome).1, r#"{"reason":"unavailable"}"#);
}
