//! Durable tasks: steps, replay and children.

use crate::support::{CallOf, Effects, Fault, Process, World, failure, guarded, home, program, scope, settle, text};
use futures_util::future::join;
use longhaul_core::{InputKey, Json, OnNonDeterminism, Outcome, State, Task, TaskId, Verdict, store::TaskLookup};
use longhaul_runtime::{AskError, Engine, Question, StepPolicy, TaskContext, ToolSettings};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub(crate) const KEPT: i64 = 30_000;
pub(crate) const DAY: i64 = 24 * 60 * 60 * 1000;

pub(crate) async fn answer(engine: &Engine, id: &TaskId, nth: u32, words: &str) {
    let said = Json::from(serde_json::json!({"says": words}));
    let answers = BTreeMap::from([(InputKey::nth(nth), said)]);
    engine.answer(&scope(), id, answers).await.unwrap().unwrap();
}

pub(crate) async fn ask(cx: &TaskContext, words: &str) -> Result<String, AskError> {
    let question = Question::new(Json::from(serde_json::json!({"method": words})));
    Ok(cx.ask(question).await?.as_str().to_owned())
}

/// Waits until the task has nothing left in memory.
pub(crate) async fn suspended(world: &World, engine: &Engine, id: &TaskId) -> Task {
    world.clock.sleeper(KEPT).await;
    world.clock.advance(KEPT);
    world.until(engine, id, |task| task.state == State::Suspended).await
}

pub(crate) fn rpc_error(outcome: &Outcome) -> (&str, String) {
    let Outcome::RpcError(failure) = outcome else {
        panic!("an error, and not {outcome:?}");
    };
    let data = failure.data.as_ref().map(|data| data.as_str().to_owned());
    (&failure.message, data.unwrap_or_default())
}

/// Has tasks fail at once that would be blocked: `blocked.rs` is about those.
pub(crate) fn not_blocked(settings: ToolSettings) -> ToolSettings {
    ToolSettings {
        on_non_determinism: OnNonDeterminism::Fail,
        blocked_timeout: 0,
        ..settings
    }
}

pub(crate) fn asks_between_two_steps(effects: &Effects) -> ToolSettings {
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

/// Runs [`asks_between_two_steps`] until its question is open.
pub(crate) async fn until_it_asks(world: &World, effects: &Effects) -> (Engine, TaskId) {
    let engine = world.start([asks_between_two_steps(effects)]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    world.asks(&engine, &task.id).await;
    (engine, task.id.clone())
}

/// Answers the question of [`asks_between_two_steps`], whose second step runs then.
pub(crate) async fn answer_and_end(world: &World, engine: &Engine, id: &TaskId) {
    answer(engine, id, 1, "go").await;
    let outcome = guarded("the end", world.outcome(engine, id)).await;
    assert_eq!(outcome, text(r#"1 {"says":"go"} 2"#));
}

/// The process dies while the question is open and the code still in memory: the same question is asked, not another.
#[test]
fn invariant_10_a_journaled_step_is_never_run_again() {
    let (directory, clock) = home();
    let effects = Effects::default();
    let id = Process::run(directory.path(), &clock, async |world| {
        until_it_asks(&world, &effects).await.1
    });
    Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        let task = world.reaches(&engine, &id, State::Running).await;
        assert_eq!(task.open_inputs, [InputKey::nth(1)]);
        answer_and_end(&world, &engine, &id).await;
        assert_eq!(world.task(&id).await.inputs_asked, 1);
    });
}

#[tokio::test]
async fn a_failing_step_is_retried_and_its_last_error_stays() {
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
fn changed_code_gets_a_non_determinism_error_that_names_both_operations() {
    let (directory, clock) = home();
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
async fn a_child_runs_concurrently_and_ends_with_its_parent() {
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
            if let [child] = &world
                .store
                .find(TaskLookup::ChildrenOf(task.id.clone()), 9)
                .await
                .unwrap()[..]
            {
                return child.clone();
            }
            settle().await;
        }
    })
    .await;
    let lineage = child.lineage.clone().unwrap();
    let expected = (task.id.clone(), task.id.clone(), 1);
    assert_eq!((lineage.parent, lineage.root, lineage.depth), expected);
    world.asks(&engine, &child.id).await;
    answer(&engine, &child.id, 1, "fine").await;
    assert_eq!(world.outcome(&engine, &task.id).await, text("Succeeded"));

    let cancelled = engine.create(engine.call("calls")).await.unwrap();
    let child = guarded("the child", async {
        loop {
            if let [child] = &world
                .store
                .find(TaskLookup::ChildrenOf(cancelled.id.clone()), 9)
                .await
                .unwrap()[..]
            {
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
async fn invariant_10_a_step_that_is_being_written_is_kept_when_its_attempt_fails() {
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
