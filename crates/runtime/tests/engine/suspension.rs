//! Suspension: long waits hold nothing, and what is waited for resumes the task.

use crate::durable::{DAY, KEPT, answer, answer_and_end, ask, asks_between_two_steps, suspended, until_it_asks};
use crate::support::{CallOf, Effects, Process, World, beside, guarded, home, program, scope, settle, text};
use longhaul_core::{InputKey, Json, Outcome, State};
use longhaul_runtime::{AskError, Question, StepPolicy, TaskContext};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::sync::Notify;

#[tokio::test]
async fn a_long_wait_suspends_the_task_and_the_answer_replays_it() {
    let world = World::in_memory().with_slots(1);
    let effects = Effects::default();
    let engine = world.start([asks_between_two_steps(&effects)]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    let task_suspended = suspended(&world, &engine, &task.id).await;
    assert!(task_suspended.active_attempt().is_none());
    let expected = (vec![InputKey::nth(1)], 0);
    assert_eq!((task_suspended.open_inputs, engine.running()), expected);
    answer_and_end(&world, &engine, &task.id).await;
    assert_eq!(effects.count(), 2, "the first step is not repeated");
}

#[test]
fn an_answer_while_no_server_runs_is_found_at_the_next_start() {
    let (directory, clock) = home();
    let effects = Effects::default();
    let id = Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        let task = engine.create(engine.call("asks")).await.unwrap();
        suspended(&world, &engine, &task.id).await;
        task.id.clone()
    });
    Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        settle().await;
        assert_eq!(engine.running(), 0, "what waits is not run again by a restart");
        answer_and_end(&world, &engine, &id).await;
    });
    assert_eq!(effects.count(), 2);
}

/// Another wait of the code may end while the task is read to check whether it can be suspended.
#[tokio::test]
async fn code_that_continues_during_the_suspension_check_is_not_dropped() {
    let (world, store) = World::faulty();
    let effects = Effects::default();
    let (come, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let tool = {
        let (effects, come, done) = (effects.clone(), come.clone(), done.clone());
        program("waits", move |cx| {
            let (effects, come, done) = (effects.clone(), come.clone(), done.clone());
            async move {
                let mut asked = std::pin::pin!(ask(&cx, "well?"));
                tokio::select! {
                    _ = &mut asked => {}
                    () = come.notified() => {}
                }
                let work = || async {
                    let effect = effects.happen();
                    done.notified().await;
                    Ok(Json::trusted(effect.to_string()))
                };
                let effect = cx.step("effect", &StepPolicy::default(), work).await?;
                Ok(effect.as_str().to_owned())
            }
        })
    };
    let engine = world.start([tool]).await;
    let task = engine.create(engine.call("waits")).await.unwrap();
    world.clock.sleeper(KEPT).await;
    store.hold_get_unscoped.send_replace(true);
    world.clock.advance(KEPT);
    settle().await;
    come.notify_one();
    settle().await;
    assert_eq!(effects.count(), 1, "it has gone on");
    store.hold_get_unscoped.send_replace(false);
    settle().await;
    done.notify_one();
    assert_eq!(guarded("the end", world.outcome(&engine, &task.id)).await, text("1"));
    assert_eq!(effects.count(), 1, "and was not cut off at it");
}

#[tokio::test]
async fn a_suspended_timer_fires_on_time() {
    let world = World::in_memory().with_slots(1);
    let naps = |cx: TaskContext| async move {
        cx.sleep(Duration::from_secs(3 * 24 * 60 * 60)).await?;
        Ok("rested".to_owned())
    };
    let engine = world.start([program("naps", naps)]).await;
    let task = engine.create(engine.call("naps")).await.unwrap();
    suspended(&world, &engine, &task.id).await;
    let other = engine.create(engine.call("naps")).await.unwrap();
    assert_eq!(other.state, State::Running, "the slot is free");
    settle().await;
    world.clock.advance(3 * DAY);
    assert_eq!(world.outcome(&engine, &task.id).await, text("rested"));
}

#[tokio::test]
async fn an_unanswered_question_times_out() {
    let world = World::in_memory();
    let asks = |cx: TaskContext| async move {
        match ask(&cx, "anyone?").await {
            Err(AskError::Unanswered) => Ok("nobody".to_owned()),
            other => Ok(format!("{other:?}")),
        }
    };
    let engine = world.start([program("asks", asks)]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    suspended(&world, &engine, &task.id).await;
    world.clock.advance(7 * DAY);
    assert_eq!(world.outcome(&engine, &task.id).await, text("nobody"));
    assert!(world.record(&task.id).await.inputs.is_empty());
}

#[tokio::test]
async fn beyond_a_thousand_the_oldest_waiting_task_is_suspended_at_once() {
    let world = World::in_memory();
    let asks = |cx: TaskContext| async move { Ok(ask(&cx, "well?").await?) };
    let engine = world.start([program("asks", asks)]).await;
    let first = engine.create(engine.call("asks")).await.unwrap();
    world.asks(&engine, &first.id).await;
    for _ in 0..1_000 {
        engine.create(engine.call("asks")).await.unwrap();
    }
    world.reaches(&engine, &first.id, State::Suspended).await;
    settle().await;
    assert_eq!(engine.running(), 1_000);
}

#[test]
fn an_announced_stop_costs_no_attempt() {
    let (directory, clock) = home();
    let effects = Effects::default();
    let id = Process::run(directory.path(), &clock, async |world| {
        let (engine, id) = until_it_asks(&world, &effects).await;
        engine.release(Duration::from_secs(5)).await;
        engine.stop();
        let left = world.task(&id).await;
        assert_eq!((left.state, left.attempts_used), (State::Queued, 0));
        id
    });
    Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        answer_and_end(&world, &engine, &id).await;
    });
}

/// What is released is queued for the next process, also while the scheduler goes round the queues.
#[tokio::test]
async fn nothing_is_claimed_once_the_engine_is_released() {
    let (world, store) = World::faulty();
    let world = world.with_slots(2);
    let go = Arc::new(Notify::new());
    let tool = {
        let go = Arc::clone(&go);
        program("waits", move |_| {
            let go = Arc::clone(&go);
            async move {
                go.notified().await;
                Ok("done".to_owned())
            }
        })
    };
    let engine = world.start([tool]).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(engine.create(engine.call("waits")).await.unwrap().id.clone());
    }
    settle().await;
    store.hold_claimed.send_replace(true);
    go.notify_waiters();
    settle().await;
    let claims = store.claims.load(Ordering::SeqCst);
    let released = beside({
        let engine = engine.clone();
        async move { engine.release(Duration::from_secs(5)).await }
    });
    settle().await;
    store.hold_claimed.send_replace(false);
    settle().await;
    guarded("the release", released).await.unwrap();
    for queued in &tasks[2..] {
        assert_eq!(world.state(queued).await, State::Queued);
    }
    // It is claimed by the next process.
    assert_eq!(store.claims.load(Ordering::SeqCst), claims);
}

/// The answer is committed, and its sender leaves before the acknowledgement: the task must still resume.
#[tokio::test]
async fn an_answer_whose_sender_leaves_after_the_commit_resumes_suspended_work() {
    let (world, store) = World::faulty();
    let effects = Effects::default();
    let engine = world.start([asks_between_two_steps(&effects)]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    suspended(&world, &engine, &task.id).await;
    store.hold_applied.send_replace(true);
    let answering = beside({
        let (engine, id) = (engine.clone(), task.id.clone());
        async move { answer(&engine, &id, 1, "go").await }
    });
    world
        .until(&engine, &task.id, |task| task.state != State::Suspended)
        .await;
    answering.abort();
    assert!(answering.await.unwrap_err().is_cancelled());
    store.hold_applied.send_replace(false);
    let outcome = guarded("the end", world.outcome(&engine, &task.id)).await;
    assert_eq!(outcome, text(r#"1 {"says":"go"} 2"#));
}

/// The timeout does not run while the store fails.
#[tokio::test]
async fn the_timeout_of_a_question_starts_when_it_is_written() {
    let (world, store) = World::faulty();
    let engine = world
        .start([program("asks", async |cx| {
            let question = Question {
                within: Some(Duration::from_secs(10)),
                ..Question::new(Json::trusted(r#"{"method":"elicitation/create","params":{}}"#))
            };
            Ok(cx.ask(question).await?.as_str().to_owned())
        })])
        .await;
    store.be_full_for("input_requested", 1);
    let task = engine.create(engine.call("asks")).await.unwrap();
    // The store has room again after longer than that.
    world.clock.sleeper(50).await;
    world.clock.advance(60_000);
    world.asks(&engine, &task.id).await;
    settle().await;
    world.clock.advance(9_999);
    settle().await;
    let record = engine.get(&scope(), &task.id).await.unwrap().unwrap();
    assert_eq!(record.task.open_inputs.len(), 1, "{record:?}");
    world.clock.advance(1);
    let Outcome::Result { json, is_error: true } = guarded("the end", world.outcome(&engine, &task.id)).await else {
        panic!("nobody has answered");
    };
    assert!(
        json.as_str().contains("no answer") || json.as_str().contains("nobody"),
        "{json:?}"
    );
}
