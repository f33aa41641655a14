//! Work that keeps a journal: let go while it waits, run again from its start, blocked when it comes no further.

use crate::support::{
    CallOf, Effects, Fault, ManualClock, Process, World, beside, failure, guarded, program, scope, settle, text,
};
use futures_util::future::join;
use longhaul_core::{Clock, EndedBy, InputKey, Json, OnNonDeterminism, Outcome, RetryOn, State, Task, TaskId, Verdict};
use longhaul_runtime::{AskError, Engine, JournalError, Pace, Polled, Question, StepPolicy, TaskContext, ToolSettings};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

const KEPT: i64 = 30_000;
const DAY: i64 = 24 * 60 * 60 * 1000;

async fn answer(engine: &Engine, id: &TaskId, nth: u32, words: &str) {
    let said = Json::from(serde_json::json!({"says": words}));
    let answers = BTreeMap::from([(InputKey::nth(nth), said)]);
    engine.answer(&scope(), id, answers).await.unwrap().unwrap();
}

async fn ask(cx: &TaskContext, words: &str) -> Result<String, AskError> {
    let question = Question::new(Json::from(serde_json::json!({"method": words})));
    Ok(cx.ask(question).await?.as_str().to_owned())
}

/// Waits until the task has nothing left in memory.
async fn suspended(world: &World, engine: &Engine, id: &TaskId) -> Task {
    world.clock.sleeper(KEPT).await;
    world.clock.advance(KEPT);
    world.until(engine, id, |task| task.state == State::Suspended).await
}

fn rpc_error(outcome: &Outcome) -> (&str, String) {
    let Outcome::RpcError(failure) = outcome else {
        panic!("an error, and not {outcome:?}");
    };
    let data = failure.data.as_ref().map(|data| data.as_str().to_owned());
    (&failure.message, data.unwrap_or_default())
}

/// Has tasks fail at once that would be blocked: `blocked.rs` is about those.
fn not_blocked(settings: ToolSettings) -> ToolSettings {
    ToolSettings {
        on_non_determinism: OnNonDeterminism::Fail,
        blocked_timeout: 0,
        ..settings
    }
}

fn asks_between_two_steps(effects: &Effects) -> ToolSettings {
    let effects = effects.clone();
    program("asks", move |cx| {
        let effects = effects.clone();
        async move {
            let before = effects.step(&cx, "before").await?;
            let said = ask(&cx, "well?").await?;
            let after = effects.step(&cx, "after").await?;
            Ok(format!("{before} {said} {after}"))
        }
    })
}

#[tokio::test]
async fn code_that_waits_long_is_let_go_and_run_again_by_the_answer() {
    let world = World::in_memory().with_slots(1);
    let effects = Effects::default();
    let engine = world.start([asks_between_two_steps(&effects)]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    let parked = suspended(&world, &engine, &task.id).await;
    assert!(parked.active_attempt().is_none());
    assert_eq!((parked.open_inputs, engine.running()), (vec![InputKey::nth(1)], 0));
    answer(&engine, &task.id, 1, "go").await;
    let outcome = guarded("the end", world.outcome(&engine, &task.id)).await;
    assert_eq!(outcome, text(r#"1 {"says":"go"} 2"#));
    assert_eq!(effects.count(), 2, "the first step is not repeated");
}

#[test]
fn an_answer_while_nobody_runs_is_found_by_the_next_process() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new());
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
        answer(&engine, &id, 1, "go").await;
        assert_eq!(world.outcome(&engine, &id).await, text(r#"1 {"says":"go"} 2"#));
    });
    assert_eq!(effects.count(), 2);
}

/// The process dies while the question is open and the code still in memory: the same question is asked, not another.
#[test]
fn invariant_10_a_journaled_step_is_never_run_again() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new());
    let effects = Effects::default();
    let id = Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        let task = engine.create(engine.call("asks")).await.unwrap();
        world
            .until(&engine, &task.id, |task| !task.open_inputs.is_empty())
            .await;
        task.id.clone()
    });
    Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        let task = world.until(&engine, &id, |task| task.state == State::Running).await;
        assert_eq!(task.open_inputs, [InputKey::nth(1)]);
        answer(&engine, &id, 1, "go").await;
        assert_eq!(world.outcome(&engine, &id).await, text(r#"1 {"says":"go"} 2"#));
        assert_eq!(world.task(&id).await.inputs_asked, 1);
    });
}

/// What code waits for besides may come while its task is read, to see whether the code can be let go.
#[tokio::test]
async fn code_that_goes_on_while_it_is_looked_at_is_not_let_go() {
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
    store.hold_peeked.send_replace(true);
    world.clock.advance(KEPT);
    settle().await;
    come.notify_one();
    settle().await;
    assert_eq!(effects.count(), 1, "it has gone on");
    store.hold_peeked.send_replace(false);
    settle().await;
    done.notify_one();
    assert_eq!(guarded("the end", world.outcome(&engine, &task.id)).await, text("1"));
    assert_eq!(effects.count(), 1, "and was not cut off at it");
}

#[tokio::test]
async fn a_timer_holds_nothing_and_fires_when_its_time_has_come() {
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
async fn a_question_nobody_answers_ends_after_its_time() {
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
async fn beyond_a_thousand_the_oldest_is_let_go_at_once() {
    let world = World::in_memory();
    let asks = |cx: TaskContext| async move { Ok(ask(&cx, "well?").await?) };
    let engine = world.start([program("asks", asks)]).await;
    let first = engine.create(engine.call("asks")).await.unwrap();
    world
        .until(&engine, &first.id, |task| !task.open_inputs.is_empty())
        .await;
    for _ in 0..1_000 {
        engine.create(engine.call("asks")).await.unwrap();
    }
    world
        .until(&engine, &first.id, |task| task.state == State::Suspended)
        .await;
    settle().await;
    assert_eq!(engine.running(), 1_000);
}

#[test]
fn an_announced_stop_costs_no_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new());
    let effects = Effects::default();
    let id = Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        let task = engine.create(engine.call("asks")).await.unwrap();
        world
            .until(&engine, &task.id, |task| !task.open_inputs.is_empty())
            .await;
        engine.release(Duration::from_secs(5)).await;
        engine.stop();
        let left = world.task(&task.id).await;
        assert_eq!((left.state, left.attempts_used), (State::Queued, 0));
        task.id.clone()
    });
    Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        answer(&engine, &id, 1, "go").await;
        assert_eq!(world.outcome(&engine, &id).await, text(r#"1 {"says":"go"} 2"#));
    });
}

#[tokio::test]
async fn what_panics_at_the_same_point_each_time_is_blocked_with_its_history() {
    let world = World::in_memory();
    let effects = Effects::default();
    let counted = effects.clone();
    let engine = world
        .start([not_blocked(program("bad", move |cx| {
            let counted = counted.clone();
            async move {
                counted.step(&cx, "good").await?;
                counted.happen();
                panic!("always here")
            }
        }))])
        .await;
    let task = engine.create(engine.call("bad")).await.unwrap();
    let outcome = world.outcome(&engine, &task.id).await;
    let (message, data) = rpc_error(&outcome);
    assert!(message.starts_with("5 attempts failed"), "{message}");
    assert!(
        data.contains(r#""reason":"poisoned""#) && data.matches(r#"step \"good\""#).count() >= 4,
        "{data}"
    );
    assert_eq!(effects.count(), 1 + 5, "the step once, and five tries after it");
    assert_eq!(engine.running(), 0);
}

#[test]
fn a_history_says_when_each_attempt_failed_and_what_ended_it() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new());
    let effects = Effects::default();
    let bad = || {
        let effects = effects.clone();
        let mut bad = program("bad", move |cx| {
            let effects = effects.clone();
            async move {
                effects.step(&cx, "good").await?;
                match effects.happen() {
                    2 => {
                        cx.status("stays here");
                        std::future::pending().await
                    }
                    3 => Err(JournalError::OutputTooLarge { bytes: 7 }.into()),
                    _ => panic!("here"),
                }
            }
        });
        bad.blocked_timeout = 0;
        bad.retry.attempts = 3;
        bad.retry.on = vec![RetryOn::Crash, RetryOn::Error];
        bad
    };
    let id = Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([bad()]).await;
        let task = engine.create(engine.call("bad")).await.unwrap();
        world.until(&engine, &task.id, |_| effects.count() == 2).await;
        task.id.clone()
    });
    clock.advance(1_000);
    Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([bad()]).await;
        let outcome = world.outcome(&engine, &id).await;
        let (message, data) = rpc_error(&outcome);
        let data: serde_json::Value = serde_json::from_str(&data).unwrap();
        let history = data["history"].as_array().unwrap();
        let told = |member: &str| -> Vec<String> {
            history
                .iter()
                .map(|one| one[member].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(told("by"), ["crash", "error", "panic"], "{data}");
        assert!(
            told("why").iter().all(|why| why.contains(r#"after step "good""#)),
            "{data}"
        );
        assert!(told("why")[1].contains("7 bytes"), "{data}");
        assert!(
            message.ends_with(r#"it panicked after step "good": here"#),
            "the panic's own message: {message}"
        );
        // The journal has the same, the last one too.
        let page = engine.history(&world.task(&id).await, 0, 100).await.unwrap();
        let kept = page
            .found
            .iter()
            .filter_map(|(_, summary)| Some((summary.at, summary.ended_by?)));
        let now = clock.now();
        let all = [EndedBy::Crash, EndedBy::Error, EndedBy::Panic].map(|by| (now, by));
        assert_eq!(kept.collect::<Vec<_>>(), all);
    });
}

#[tokio::test]
async fn what_comes_further_each_time_is_never_blocked() {
    let world = World::in_memory();
    let effects = Effects::default();
    let counted = effects.clone();
    let engine = world
        .start([program("slow", move |cx| {
            let counted = counted.clone();
            async move {
                for step in 0..12 {
                    let done = counted.count();
                    counted.step(&cx, &step.to_string()).await?;
                    assert_eq!(done, counted.count(), "the process dies after each step");
                }
                Ok("there".to_owned())
            }
        })])
        .await;
    let task = engine.create(engine.call("slow")).await.unwrap();
    assert_eq!(world.outcome(&engine, &task.id).await, text("there"));
    assert_eq!(effects.count(), 12);
}

/// A tool whose every attempt looks `looks` times at something that is ready after the tenth look, and crashes at the next look.
fn looks_and_crashes(looks: u32, effects: &Effects) -> ToolSettings {
    let effects = effects.clone();
    program("looks", move |cx| {
        let effects = effects.clone();
        async move {
            let pace = Pace {
                first: 0,
                ..Pace::default()
            };
            let mut left = looks;
            let look = || {
                let crashes = left == 0;
                left = left.saturating_sub(1);
                let count = if crashes { 0 } else { effects.happen() };
                async move {
                    assert!(!crashes, "the process dies here");
                    let ready = || Polled::Ready(Json::trusted(count.to_string()));
                    Ok(if count < 10 { Polled::Pending(None) } else { ready() })
                }
            };
            let seen = cx.poll_until("job", pace, look).await?;
            Ok(seen.as_str().to_owned())
        }
    })
}

/// Each of its attempts writes the one entry of its poll again, and comes no further by that.
#[tokio::test]
async fn what_crashes_after_one_look_each_time_is_blocked() {
    let world = World::in_memory();
    let effects = Effects::default();
    let engine = world.start([not_blocked(looks_and_crashes(1, &effects))]).await;
    let task = engine.create(engine.call("looks")).await.unwrap();
    let outcome = guarded("the end", world.outcome(&engine, &task.id)).await;
    assert!(rpc_error(&outcome).0.starts_with("5 attempts failed"), "{outcome:?}");
    assert_eq!(effects.count(), 5, "one look in each attempt");
}

/// A job may run for days, and servers die meanwhile: who has looked on since is not at fault.
#[tokio::test]
async fn what_looks_on_after_each_crash_is_never_blocked() {
    let world = World::in_memory();
    let effects = Effects::default();
    let mut tool = looks_and_crashes(2, &effects);
    tool.retry.attempts = 2;
    let engine = world.start([tool]).await;
    let task = engine.create(engine.call("looks")).await.unwrap();
    assert_eq!(guarded("the end", world.outcome(&engine, &task.id)).await, text("10"));
}

#[tokio::test]
async fn a_failing_step_is_tried_again_and_its_last_words_stay() {
    let world = World::in_memory();
    let effects = Effects::default();
    let counted = effects.clone();
    let engine = world
        .start([program("fails", move |cx| {
            let counted = counted.clone();
            async move {
                let policy = StepPolicy {
                    attempts: 3,
                    ..StepPolicy::default()
                };
                let work = || async { Err(failure(&format!("try {}", counted.happen()))) };
                let first = cx.step("fails", &policy, work).await.unwrap_err().to_string();
                Ok(first)
            }
        })])
        .await;
    let task = engine.create(engine.call("fails")).await.unwrap();
    let outcome = guarded("the end", async {
        loop {
            settle().await;
            world.clock.advance(2_000);
            if let Some(outcome) = world.record(&task.id).await.outcome {
                return outcome;
            }
        }
    })
    .await;
    assert_eq!((outcome, effects.count()), (text("try 3"), 3));
}

#[test]
fn code_that_was_changed_is_told_where_it_differs() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new());
    let effects = Effects::default();
    let version = |effects: &Effects, steps: &'static [&'static str]| {
        let effects = effects.clone();
        not_blocked(program("changes", move |cx| {
            let effects = effects.clone();
            async move {
                for step in steps {
                    effects.step(&cx, step).await?;
                }
                Ok::<_, Fault>(ask(&cx, "well?").await?)
            }
        }))
    };
    let begin = |steps: &'static [&'static str]| {
        Process::run(directory.path(), &clock, async |world| {
            let engine = world.start([version(&effects, steps)]).await;
            let task = engine.create(engine.call("changes")).await.unwrap();
            suspended(&world, &engine, &task.id).await;
            task.id.clone()
        })
    };
    let end = |id: &TaskId, steps: &'static [&'static str]| {
        Process::run(directory.path(), &clock, async |world| {
            let engine = world.start([version(&effects, steps)]).await;
            answer(&engine, id, 1, "go").await;
            world.outcome(&engine, id).await
        })
    };
    let outcome = end(&begin(&["build", "ship"]), &["compile", "ship"]);
    let (message, data) = rpc_error(&outcome);
    assert!(
        message.contains(r#"asked for step "compile""#) && message.contains(r#"step "build" before"#),
        "{message}"
    );
    assert!(data.contains("diverged"), "{data}");
    // One thing less: the question is asked while the journal still has a step.
    let outcome = end(&begin(&["build", "ship"]), &["build"]);
    assert!(rpc_error(&outcome).0.contains(r#"step "ship""#), "{outcome:?}");
    assert_eq!(effects.count(), 4, "nothing new was done");
}

#[tokio::test]
async fn a_child_runs_beside_its_parent_and_ends_with_it() {
    let world = World::in_memory().with_slots(1);
    let calls = |cx: TaskContext| async move {
        let child = cx.call("child", Json::trusted("{}")).await?;
        Ok(format!("{:?}", child.outcome.verdict()))
    };
    let child = |cx: TaskContext| async move { Ok(ask(&cx, "well?").await?) };
    let engine = world.start([program("calls", calls), program("child", child)]).await;
    let task = engine.create(engine.call("calls")).await.unwrap();
    let child = guarded("the child", async {
        loop {
            if let [child] = &world.store.children(&task.id, 9).await.unwrap()[..] {
                return child.clone();
            }
            settle().await;
        }
    })
    .await;
    let lineage = child.lineage.clone().unwrap();
    assert_eq!(
        (lineage.parent, lineage.root, lineage.depth),
        (task.id.clone(), task.id.clone(), 1)
    );
    world
        .until(&engine, &child.id, |task| !task.open_inputs.is_empty())
        .await;
    answer(&engine, &child.id, 1, "fine").await;
    assert_eq!(world.outcome(&engine, &task.id).await, text("Succeeded"));

    let cancelled = engine.create(engine.call("calls")).await.unwrap();
    let child = guarded("the child", async {
        loop {
            if let [child] = &world.store.children(&cancelled.id, 9).await.unwrap()[..] {
                return child.id.clone();
            }
            settle().await;
        }
    })
    .await;
    let mode = longhaul_core::CancelMode::Cooperative;
    engine.cancel(&scope(), &cancelled.id, mode).await.unwrap();
    let ended = world.until(&engine, &child, Task::is_done).await;
    assert_eq!(ended.state, State::Done(Verdict::Cancelled));
}

/// Found by the simulation: the entry that says how an attempt failed took the place of a step's that was still on its way, and wrote it over.
#[tokio::test]
async fn invariant_10_a_step_whose_entry_is_on_its_way_is_journaled_though_its_attempt_fails() {
    let (world, store) = World::faulty();
    let effects = Effects::default();
    let (done, clock, first) = (effects.clone(), world.clock.clone(), Arc::new(AtomicBool::new(true)));
    let tool = program("fails", move |cx| {
        let (done, clock, first) = (done.clone(), clock.clone(), first.clone());
        async move {
            let beside = async {
                if first.swap(false, Ordering::SeqCst) {
                    // The step is done, and the store has no room for its entry.
                    clock.sleeper(50).await;
                    panic!("as the test says");
                }
            };
            let (step, ()) = join(done.step(&cx, "once"), beside).await;
            Ok(step?.to_string())
        }
    });
    let engine = world.start([tool]).await;
    store.be_full_for("journaled", 1);
    let task = engine.create(engine.call("fails")).await.unwrap();
    world.clock.sleeper(50).await;
    settle().await;
    world.clock.advance(50);
    assert_eq!(guarded("the end", world.outcome(&engine, &task.id)).await, text("1"));
    assert_eq!(effects.count(), 1, "what was journaled is not repeated");
}

/// The answer is committed, and whoever gave it leaves before it is told so: the work must still go on.
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
    world.until(&engine, &task.id, |task| task.state == State::Queued).await;
    answering.abort();
    assert!(answering.await.unwrap_err().is_cancelled());
    store.hold_applied.send_replace(false);
    let outcome = guarded("the end", world.outcome(&engine, &task.id)).await;
    assert_eq!(outcome, text(r#"1 {"says":"go"} 2"#));
}

/// The time to answer does not run while the question cannot be written.
#[tokio::test]
async fn a_question_that_had_to_wait_for_the_store_waits_its_whole_time_for_an_answer() {
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
    world
        .until(&engine, &task.id, |task| !task.open_inputs.is_empty())
        .await;
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
