//! Work that asks its client, and holds no slot while it waits.

use crate::support::{CallOf, Run, Runs, Script, World, guarded, program, retry, scope, settle, text, tool};
use longhaul_core::{CancelMode, InputKey, Json, Outcome, RetryOn, State, StopReason, Task, TaskId, store::StoreError};
use longhaul_runtime::{AskError, Engine, EntryStatus, ExecutionEnd, Question, ToolSettings};
use std::{collections::BTreeMap, time::Duration};

fn key(nth: u32) -> InputKey {
    InputKey::nth(nth)
}

async fn answer(engine: &Engine, id: &TaskId, nth: u32, words: &str) {
    let answers = BTreeMap::from([(key(nth), Json::from(serde_json::json!(words)))]);
    assert_eq!(engine.answer(&scope(), id, answers).await, Ok(Some(())));
}

fn says(words: &str) -> Json {
    Json::from(serde_json::json!(words))
}

/// A world with one slot, and a task in it.
async fn one_slot() -> (World, Engine, Task, Run, Runs) {
    let world = World::in_memory().with_slots(1);
    let (engine, runs, task, run) = world.running().await;
    (world, engine, task, run, runs)
}

#[tokio::test]
async fn a_waiting_task_frees_its_slot_and_gets_one_back() {
    let (world, engine, task, run, mut runs) = one_slot().await;
    let mut asked = run.ask("sure?");
    world.asks(&engine, &task.id).await;
    let record = engine.get(&scope(), &task.id).await.unwrap().unwrap();
    assert_eq!(record.inputs[0].key, key(1));
    settle().await;
    let other = engine.create(engine.call("a")).await.unwrap();
    assert_eq!(other.state, State::Running, "the slot is free");
    let other_run = runs.next().await;
    let last = engine.create(engine.call("a")).await.unwrap();
    answer(&engine, &task.id, 1, "yes").await;
    settle().await;
    assert!(asked.try_recv().is_err(), "answered, but it has no slot");
    other_run.finish("done");
    assert_eq!(guarded("the answer", asked).await.unwrap(), Ok(says("yes")));
    assert_eq!(world.state(&task.id).await, State::Running);
    settle().await;
    // Work that has begun goes before work that has not.
    assert_eq!(world.state(&last.id).await, State::Queued);
    run.finish("done");
    assert_eq!(runs.next().await.attempt.task, last.id);
}

#[tokio::test]
async fn two_questions_at_once_are_answered_in_any_order() {
    for order in [[1, 2], [2, 1]] {
        let (world, engine, task, run, _runs) = one_slot().await;
        let (first, second) = (run.ask("name?"), run.ask("age?"));
        let open = world.until(&engine, &task.id, |task| task.open_inputs.len() == 2).await;
        assert_eq!((open.state, open.open_inputs), (State::Running, vec![key(1), key(2)]));
        for nth in order {
            answer(&engine, &task.id, nth, &nth.to_string()).await;
        }
        assert_eq!(guarded("the answer", first).await.unwrap(), Ok(says("1")));
        assert_eq!(guarded("the answer", second).await.unwrap(), Ok(says("2")));
        world.reaches(&engine, &task.id, State::Running).await;
        let third = run.ask("more?");
        world
            .until(&engine, &task.id, |task| task.open_inputs == [key(3)])
            .await;
        answer(&engine, &task.id, 3, "no").await;
        assert_eq!(guarded("the answer", third).await.unwrap(), Ok(says("no")));
        run.finish("done");
        assert_eq!(world.outcome(&engine, &task.id).await, text("done"));
    }
}

#[tokio::test]
async fn invariant_4_an_input_key_is_answered_once() {
    let (world, engine, task, run, mut runs) = one_slot().await;
    let asked = run.ask("sure?");
    world.asks(&engine, &task.id).await;
    // Whoever holds the slot keeps the question from being read before all answers have come.
    settle().await;
    engine.create(engine.call("a")).await.unwrap();
    let other = runs.next().await;
    answer(&engine, &task.id, 9, "to what?").await;
    answer(&engine, &task.id, 1, "first").await;
    answer(&engine, &task.id, 1, "second").await;
    other.finish("done");
    assert_eq!(guarded("the answer", asked).await.unwrap(), Ok(says("first")));
    answer(&engine, &task.id, 1, "third").await;
    assert_eq!(world.state(&task.id).await, State::Running);
}

/// Answered, it waits for a slot; cancelled, it needs none any more.
#[tokio::test]
async fn a_cancel_reaches_work_that_waits_for_its_slot() {
    let (world, engine, task, run, mut runs) = one_slot().await;
    let asked = run.ask("sure?");
    world.asks(&engine, &task.id).await;
    settle().await;
    engine.create(engine.call("a")).await.unwrap();
    let other = runs.next().await;
    answer(&engine, &task.id, 1, "yes").await;
    settle().await;
    let mode = CancelMode::Cooperative;
    engine.cancel(&scope(), &task.id, mode).await.unwrap();
    let answer = guarded("the question to end", asked).await.unwrap();
    assert_eq!(answer, Err(AskError::Stopped(StopReason::Cancel)));
    run.end(ExecutionEnd::Stopped(StopReason::Cancel));
    assert_eq!(world.outcome(&engine, &task.id).await, Outcome::Cancelled);
    let next = engine.create(engine.call("a")).await.unwrap();
    other.finish("done");
    assert_eq!(runs.next().await.attempt.task, next.id);
}

/// A tool may wait for an answer only so long and then go on by itself.
#[tokio::test]
async fn a_question_that_is_no_longer_waited_for_is_withdrawn() {
    let (world, engine, task, run, _runs) = one_slot().await;
    let ports = run.cx.ports().clone();
    let waited = ports.within(
        std::time::Duration::from_secs(5),
        run.cx.ask(Json::trusted(r#"{"method":"sure?"}"#)),
    );
    let patience = async {
        world.asks(&engine, &task.id).await;
        world.clock.sleeper(5_000).await;
        world.clock.advance(5_000);
    };
    let (answer, ()) = tokio::join!(waited, patience);
    assert_eq!(answer, None);
    world.until(&engine, &task.id, |task| task.open_inputs.is_empty()).await;
    let again = run.ask("sure now?");
    world
        .until(&engine, &task.id, |task| task.open_inputs == [key(2)])
        .await;
    self::answer(&engine, &task.id, 2, "yes").await;
    assert_eq!(guarded("the answer", again).await.unwrap(), Ok(says("yes")));
    run.finish("done");
    world.outcome(&engine, &task.id).await;
    let next = engine.create(engine.call("a")).await.unwrap();
    assert_eq!(next.state, State::Running, "the slot came back once");
}

#[tokio::test]
async fn a_question_that_is_open_when_the_attempt_ends_takes_no_slot() {
    let (world, engine, task, run, mut runs) = one_slot().await;
    let cx = run.cx.clone();
    let asked = run.ask("sure?");
    world.asks(&engine, &task.id).await;
    run.end(ExecutionEnd::Crashed);
    world.outcome(&engine, &task.id).await;
    assert!(guarded("the question to end", asked).await.unwrap().is_err());
    let late = guarded("a late question", cx.ask(Json::trusted("{}"))).await;
    assert!(matches!(late, Err(AskError::Task(_))), "{late:?}");
    settle().await;
    engine.create(engine.call("a")).await.unwrap();
    runs.next().await;
}

#[tokio::test]
async fn a_question_that_cannot_be_written_is_an_error_and_the_work_keeps_its_slot() {
    let (world, store) = World::faulty();
    let world = world.with_slots(1);
    let (engine, mut runs, task, run) = world.running().await;
    store.be_full_for("input_requested", 1);
    let asked = guarded("the error", run.ask("sure?")).await.unwrap();
    assert_eq!(asked, Err(AskError::from(StoreError::Full)));
    assert_eq!(world.state(&task.id).await, State::Running);
    let next = engine.create(engine.call("a")).await.unwrap();
    assert_eq!(next.state, State::Queued);
    let asked = run.ask("sure?");
    world
        .until(&engine, &task.id, |task| task.open_inputs == [key(1)])
        .await;
    let next = runs.next().await;
    next.finish("done");
    answer(&engine, &task.id, 1, "yes").await;
    assert_eq!(guarded("the answer", asked).await.unwrap(), Ok(says("yes")));
}

/// What a lost attempt asked can be answered at any time, also while nobody works on the task, and is told to the one that asks it again.
#[tokio::test]
async fn what_is_asked_again_is_asked_once() {
    let world = World::in_memory();
    let (script, mut runs) = Script::asking_again();
    let settings = ToolSettings {
        retry: retry(2, 1_000, [RetryOn::Crash]),
        ..tool("a", script)
    };
    let engine = world.start([settings]).await;
    let task = engine.create(engine.call("a")).await.unwrap();
    let lost = runs.next().await;
    let mut asked = Vec::new();
    for (nth, name) in (1..).zip(["before", "between", "after"]) {
        asked.push(lost.ask_named(name));
        world.until(&engine, &task.id, |task| task.inputs_asked == nth).await;
    }
    answer(&engine, &task.id, 1, "before").await;
    let expected = Ok(says("before"));
    assert_eq!(guarded("the answer", asked.remove(0)).await.unwrap(), expected);
    lost.end(ExecutionEnd::Crashed);
    let queued = world.reaches(&engine, &task.id, State::Queued).await;
    assert_eq!(queued.open_inputs, [key(2), key(3)]);
    answer(&engine, &task.id, 2, "between").await;

    world.clock.sleeper(1_000).await;
    world.clock.advance(1_000);
    let run = runs.next().await;
    for name in ["before", "between"] {
        let expected = Ok(says(name));
        assert_eq!(guarded("the answer", run.ask_named(name)).await.unwrap(), expected);
    }
    let after = run.ask_named("after");
    settle().await;
    answer(&engine, &task.id, 3, "after").await;
    assert_eq!(guarded("the answer", after).await.unwrap(), Ok(says("after")));
    assert_eq!(world.task(&task.id).await.inputs_asked, 3);
    let new = run.ask_named("new");
    world
        .until(&engine, &task.id, |task| task.open_inputs == [key(4)])
        .await;
    answer(&engine, &task.id, 4, "new").await;
    assert_eq!(guarded("the answer", new).await.unwrap(), Ok(says("new")));
    run.finish("done");
    assert_eq!(world.outcome(&engine, &task.id).await, text("done"));
}

/// Answered after five seconds, expired after three, taken back after two.
#[tokio::test]
async fn the_history_has_each_question_with_its_duration() {
    let world = World::in_memory();
    let tool = program("asks", |cx| async move {
        let question = |words: &str, within: Option<Duration>| Question {
            within,
            ..Question::new(Json::from(
                serde_json::json!({"method": "elicitation/create", "params": {"message": words}}),
            ))
        };
        cx.ask(question("Now?", None)).await?;
        let late = cx.ask(question("Soon?", Some(Duration::from_secs(3)))).await;
        assert_eq!(late, Err(AskError::Unanswered));
        tokio::select! {
            answer = cx.ask(question("Ever?", None)) => drop(answer?),
            () = cx.ports().clock.sleep(Duration::from_secs(2)) => {}
        }
        Ok(String::new())
    });
    let engine = world.start([tool]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    let asked = |nth: u32| move |task: &Task| task.open_inputs == [InputKey::nth(nth)];
    world.until(&engine, &task.id, asked(1)).await;
    world.clock.advance(5_000);
    answer(&engine, &task.id, 1, "yes").await;
    for (nth, wait) in [(2, 3_000), (3, 2_000)] {
        world.until(&engine, &task.id, asked(nth)).await;
        world.clock.sleeper(wait).await;
        world.clock.advance(wait);
    }
    world.until(&engine, &task.id, Task::is_done).await;
    let page = engine.history(&world.task(&task.id).await, 0, 100).await.unwrap();
    let seen = page.found.iter().map(|(_, summary)| {
        let question = summary.question.as_deref().unwrap();
        (question, &summary.status, summary.took.unwrap())
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("Now?", &EntryStatus::Done, 5_000),
            ("Soon?", &EntryStatus::Unanswered, 3_000),
            ("Ever?", &EntryStatus::Withdrawn, 2_000)
        ]
    );
}
