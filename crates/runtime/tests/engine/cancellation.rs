//! Both ways to cancel, in every state, and against every race.

use crate::support::{CallOf, Process, World, beside, guarded, home, scope, settle};
use longhaul_core::{AttemptState, CancelMode, Outcome, Principal, Scope, State, StopReason, Verdict};
use longhaul_runtime::{CancelError, ExecutionEnd};

const MODES: [CancelMode; 2] = [CancelMode::AtOnce, CancelMode::Cooperative];

#[tokio::test]
async fn a_queued_task_ends_at_once_and_never_starts() {
    for mode in MODES {
        let world = World::in_memory().with_slots(1);
        let (engine, mut runs) = world.scripted().await;
        engine.create(engine.call("a")).await.unwrap();
        let queued = engine.create(engine.call("a")).await.unwrap();
        let cancelled = engine.cancel(&scope(), &queued.id, mode).await.unwrap();
        assert_eq!(cancelled.state, State::Done(Verdict::Cancelled));
        runs.next().await.finish("done");
        settle().await;
        assert!(runs.started().is_none());
    }
}

#[tokio::test]
async fn running_work_is_asked_to_stop() {
    for mode in MODES {
        let world = World::in_memory().with_slots(1);
        let (engine, mut runs, task, run) = world.running().await;
        let cancelled = engine.cancel(&scope(), &task.id, mode).await.unwrap();
        assert_eq!(cancelled.is_done(), mode == CancelMode::AtOnce);
        assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Cancel);
        let next = engine.create(engine.call("a")).await.unwrap();
        settle().await;
        assert!(runs.started().is_none(), "the slot is the attempt's, which still stops");
        run.end(ExecutionEnd::Stopped(StopReason::Cancel));
        assert_eq!(world.outcome(&engine, &task.id).await, Outcome::Cancelled);
        assert_eq!(runs.next().await.attempt.task, next.id);
    }
}

#[tokio::test]
async fn work_that_finishes_all_the_same_keeps_its_answer_only_if_the_cancel_was_a_request() {
    for (mode, verdict) in [
        (CancelMode::AtOnce, Verdict::Cancelled),
        (CancelMode::Cooperative, Verdict::Succeeded),
    ] {
        let world = World::in_memory();
        let (engine, _runs, task, run) = world.running().await;
        engine.cancel(&scope(), &task.id, mode).await.unwrap();
        run.finish("too late");
        let ended = |task: &longhaul_core::Task| task.is_done() && task.active_attempt().is_none();
        assert_eq!(world.until(&engine, &task.id, ended).await.state, State::Done(verdict));
    }
}

#[tokio::test]
async fn a_waiting_task_needs_no_slot_to_stop() {
    for mode in MODES {
        let world = World::in_memory().with_slots(1);
        let (engine, mut runs, task, run) = world.running().await;
        let asked = run.ask("sure?");
        world.asks(&engine, &task.id).await;
        settle().await;
        engine.create(engine.call("a")).await.unwrap();
        let _holds_the_slot = runs.next().await;
        engine.cancel(&scope(), &task.id, mode).await.unwrap();
        let answer = guarded("the question to end", asked).await.unwrap();
        assert!(answer.is_err(), "nobody will answer");
        run.end(ExecutionEnd::Stopped(StopReason::Cancel));
        assert_eq!(world.outcome(&engine, &task.id).await, Outcome::Cancelled);
        let ended = world.rests(&engine, &task.id).await;
        assert!(ended.open_inputs.is_empty());
    }
}

#[tokio::test]
async fn cancelling_a_finished_task_is_refused() {
    for mode in MODES {
        let world = World::in_memory();
        let (engine, mut runs) = world.scripted().await;
        let task = engine.create(engine.call("a")).await.unwrap();
        runs.next().await.finish("done");
        world.outcome(&engine, &task.id).await;
        let refused = engine.cancel(&scope(), &task.id, mode).await.unwrap_err();
        assert!(matches!(refused, CancelError::Done(task) if task.state == State::Done(Verdict::Succeeded)));
    }
}

#[tokio::test]
async fn invariant_5_a_foreign_task_is_an_unknown_one_for_cancel_and_answer() {
    let world = World::in_memory();
    let (engine, _runs, task, run) = world.running().await;
    let stranger = Scope::of(Principal::named("stranger"));
    for id in [&task.id, &"unknown".parse().unwrap()] {
        for mode in MODES {
            let refused = engine.cancel(&stranger, id, mode).await.unwrap_err();
            assert_eq!(refused, CancelError::NotFound);
        }
        assert_eq!(engine.answer(&stranger, id, Default::default()).await.unwrap(), None);
        assert_eq!(engine.get(&stranger, id).await.unwrap(), None);
    }
    assert_eq!(run.cx.stop_requested(), None);
}

/// The task is committed and claimed, and its attempt is not known to this node yet: the stop must still arrive.
#[tokio::test]
async fn a_cancel_between_create_and_start_is_not_lost() {
    for mode in MODES {
        let (world, store) = World::faulty();
        let (engine, mut runs) = world.scripted().await;
        store.hold_created.send_replace(true);
        let create = beside({
            let engine = engine.clone();
            async move { engine.create(engine.call("a")).await }
        });
        let id = guarded("the commit", async {
            loop {
                let page = engine.list(&scope(), None, 1).await.unwrap();
                if let Some(task) = page.tasks.first() {
                    return task.id.clone();
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        engine.cancel(&scope(), &id, mode).await.unwrap();
        store.hold_created.send_replace(false);
        create.await.unwrap().unwrap();
        assert_eq!(world.outcome(&engine, &id).await, Outcome::Cancelled);
        world.rests(&engine, &id).await;
        assert!(runs.started().is_none(), "work that is to stop is not begun");
    }
}

#[tokio::test]
async fn a_cancel_between_claim_and_start_is_not_lost() {
    for mode in MODES {
        let (world, store) = World::faulty();
        let world = world.with_slots(1);
        let (engine, mut runs) = world.scripted().await;
        engine.create(engine.call("a")).await.unwrap();
        let queued = engine.create(engine.call("a")).await.unwrap();
        store.hold_claimed.send_replace(true);
        runs.next().await.finish("done");
        world.reaches(&engine, &queued.id, State::Running).await;
        engine.cancel(&scope(), &queued.id, mode).await.unwrap();
        store.hold_claimed.send_replace(false);
        assert_eq!(world.outcome(&engine, &queued.id).await, Outcome::Cancelled);
        world.rests(&engine, &queued.id).await;
        assert!(runs.started().is_none(), "work that is to stop is not begun");
    }
}

/// The cancel is committed, and whoever asked for it leaves before it is told so: the stop must still arrive.
#[tokio::test]
async fn a_cancel_whose_caller_leaves_after_the_commit_is_not_lost() {
    for mode in MODES {
        let (world, store) = World::faulty();
        let (engine, _runs, task, run) = world.running().await;
        store.hold_applied.send_replace(true);
        let cancel = beside({
            let (engine, id) = (engine.clone(), task.id.clone());
            async move { engine.cancel(&scope(), &id, mode).await }
        });
        world.until(&engine, &task.id, |task| task.stop.is_some()).await;
        cancel.abort();
        assert!(cancel.await.unwrap_err().is_cancelled());
        store.hold_applied.send_replace(false);
        run.stops(StopReason::Cancel).await;
        assert_eq!(world.outcome(&engine, &task.id).await, Outcome::Cancelled);
    }
}

/// Legacy cancel ends the task at once; that its work was still stopping when the server died must not save it.
#[test]
fn work_that_was_stopping_when_the_server_died_is_stopped_by_the_next() {
    for mode in MODES {
        let (directory, clock) = home();
        let id = Process::run(directory.path(), &clock, async |world| {
            let (engine, mut runs) = world.bound().await;
            let task = engine.create(engine.call("a")).await.unwrap();
            let run = runs.next().await;
            engine.cancel(&scope(), &task.id, mode).await.unwrap();
            guarded("the stop", run.cx.stopped()).await;
            task.id.clone()
        });
        clock.advance(1);
        Process::run(directory.path(), &clock, async |world| {
            assert_eq!(world.task(&id).await.is_done(), mode == CancelMode::AtOnce);
            let (engine, mut runs, recovered) = world.recovered(true).await;
            assert_eq!(recovered.attempts, 1);
            let run = runs.next().await;
            assert!(run.resumed);
            run.stops(StopReason::Cancel).await;
            let ended = world.rests(&engine, &id).await;
            assert_eq!(ended.state, State::Done(Verdict::Cancelled));
            assert_eq!(ended.attempt.unwrap().state, AttemptState::Ended);
        });
    }
}
