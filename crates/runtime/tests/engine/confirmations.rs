//! Calls that somebody confirms before they run.

use crate::support::{CallOf, Process, World, guarded, home, retry, scope, settle, text};
use longhaul_core::{
    AnsweredBy, CancelMode, ConfirmBy, Failure, InputKey, Json, Outcome, RetryOn, State, Task, Verdict,
};
use longhaul_runtime::{Call, ConfirmSettings, Engine, ExecutionEnd, OperatorError, QuestionLookup, ToolSettings};
use std::{collections::BTreeMap, sync::Arc};

const TIMEOUT: u64 = 60_000;

fn asked_of(by: ConfirmBy) -> impl FnOnce(&mut ToolSettings) {
    move |tool| {
        tool.confirm = Some(ConfirmSettings {
            request: Arc::new(|arguments| {
                Json::trusted(format!(r#"{{"asks":{arguments}}}"#, arguments = arguments.as_str()))
            }),
            by,
        });
        tool.input_timeout = TIMEOUT;
        tool.queue_timeout = Some(10_000);
        tool.retry = retry(3, 1_000, [RetryOn::Crash, RetryOn::Error]);
    }
}

fn action(action: &str) -> Json {
    Json::from(serde_json::json!({ "action": action }))
}

async fn answer(engine: &Engine, task: &Task, words: &str) {
    let answers = BTreeMap::from([(InputKey::nth(1), action(words))]);
    assert_eq!(engine.answer(&scope(), &task.id, answers).await, Ok(Some(())));
}

/// Asked once, also if the first attempt fails; and it takes its slot only then.
#[tokio::test]
async fn a_confirmed_call_runs_and_a_retry_asks_nothing() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.playing(asked_of(ConfirmBy::Client)).await;
    let first = engine.create(engine.call("a")).await.unwrap();
    let second = engine.create(engine.call("a")).await.unwrap();
    settle().await;
    assert!(runs.started().is_none());
    assert_eq!(engine.slots().taken, 0);
    let record = engine.get(&scope(), &first.id).await.unwrap().unwrap();
    assert_eq!((record.task.state, record.inputs.len()), (State::Suspended, 1));
    // Longer than a call may be queued.
    world.pass(20_000).await;
    answer(&engine, &second, "accept").await;
    let run = runs.next().await;
    assert_eq!(run.attempt.task, second.id);
    answer(&engine, &second, "decline").await;
    run.end(ExecutionEnd::Errored(Outcome::tool_error("exit 1")));
    world.reaches(&engine, &second.id, State::Queued).await;
    world.pass(1_000).await;
    let again = runs.next().await;
    assert_eq!(
        (again.attempt.task.clone(), again.attempt.epoch),
        (second.id.clone(), 2)
    );
    again.finish("deployed");
    assert_eq!(world.outcome(&engine, &second.id).await, text("deployed"));
    let inputs = world.store.inputs(&second.id, 9).await.unwrap();
    assert_eq!(inputs.len(), 1, "asked once");
    assert_eq!(inputs[0].answered_by, Some(AnsweredBy::Client));
    assert!(world.task(&first.id).await.awaits_confirmation());
}

#[tokio::test]
async fn what_nobody_confirms_fails_and_never_begins() {
    let world = World::in_memory();
    let (engine, mut runs) = world.playing(asked_of(ConfirmBy::Client)).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(engine.create(engine.call("a")).await.unwrap());
    }
    answer(&engine, &tasks[0], "decline").await;
    answer(&engine, &tasks[1], "cancel").await;
    engine
        .cancel(&scope(), &tasks[2].id, CancelMode::Cooperative)
        .await
        .unwrap();
    world.pass(TIMEOUT as i64).await;
    let by = "the client's user";
    let unconfirmed = |why: &str| Failure::Unconfirmed { why: why.to_owned() }.into();
    for (task, outcome) in tasks.iter().zip([
        Failure::Declined { by }.into(),
        unconfirmed("the question was dismissed"),
        Outcome::Cancelled,
        unconfirmed("nobody answered in time"),
    ]) {
        assert_eq!(world.outcome(&engine, &task.id).await, outcome);
        assert_eq!(world.task(&task.id).await.attempt, None);
    }
    settle().await;
    assert!(runs.started().is_none());
}

/// A client is neither shown the question nor believed, whichever way its answer comes.
#[tokio::test]
async fn a_client_cannot_answer_for_an_operator() {
    let world = World::in_memory();
    let (engine, mut runs) = world.playing(asked_of(ConfirmBy::Operator)).await;
    let task = engine.create(engine.call("a")).await.unwrap();
    let seen = engine.get(&scope(), &task.id).await.unwrap().unwrap();
    assert_eq!((seen.inputs, &seen.task.open_inputs[..]), (Vec::new(), &[][..]));
    assert_eq!(seen.task.status.as_deref(), Some("waits for an operator to confirm it"));
    let listed = engine.list(&scope(), None, 9).await.unwrap();
    assert!(listed.tasks[0].open_inputs.is_empty());
    let key = InputKey::nth(1);
    let found = engine.open_question(&task.owner.principal, &task.id, &key).await;
    assert_eq!(found, Ok(QuestionLookup::NotOpen));
    answer(&engine, &task, "accept").await;
    // Who passes by all of that is refused by the store.
    let forced = engine.answer_question(&task.id, key.clone(), action("accept"), AnsweredBy::Client);
    forced.await.unwrap();
    settle().await;
    assert!(world.task(&task.id).await.awaits_confirmation() && runs.started().is_none());

    engine
        .answer_any(&task.id, key.clone(), action("accept"))
        .await
        .unwrap();
    runs.next().await.finish("deployed");
    assert_eq!(world.outcome(&engine, &task.id).await, text("deployed"));
    let late = engine.answer_any(&task.id, key.clone(), action("decline")).await;
    assert!(matches!(late, Err(OperatorError::NotNow(_))));

    let second = engine.create(engine.call("a")).await.unwrap();
    engine.answer_any(&second.id, key, action("decline")).await.unwrap();
    let by = "an operator";
    assert_eq!(
        world.outcome(&engine, &second.id).await,
        Failure::Declined { by }.into()
    );
    assert_eq!(world.state(&second.id).await, State::Done(Verdict::RpcError));
    // Another call, which is asked anew.
    let again = engine.retry_any(&second.id).await.unwrap();
    assert!(again.awaits_confirmation());
}

/// It is never only in memory; under a key the same task is found.
#[tokio::test]
async fn a_plain_call_waits_in_the_store() {
    let world = World::in_memory();
    let (engine, mut runs) = world.playing(asked_of(ConfirmBy::Client)).await;
    let mut waiting = engine.begin(engine.call("a")).await.unwrap();
    assert!(world.task(waiting.id()).await.awaits_confirmation());
    let task = world.task(waiting.id()).await;
    engine
        .answer_any(&task.id, InputKey::nth(1), action("accept"))
        .await
        .unwrap();
    runs.next().await.finish("deployed");
    assert_eq!(guarded("the end", waiting.ended(|_| ())).await, Ok(text("deployed")));
    let keyed = || Call {
        idempotency_key: Some("once".into()),
        ..engine.call("a")
    };
    let first = engine.create(keyed()).await.unwrap();
    assert_eq!(engine.create(keyed()).await.unwrap(), first);
    assert!(first.awaits_confirmation());
}

/// `kill -9` before the answer, and after it.
#[test]
fn a_confirmation_survives_the_process() {
    let (directory, clock) = home();
    let asked = Process::run(directory.path(), &clock, async |world| {
        let (engine, _runs) = world.playing(asked_of(ConfirmBy::Client)).await;
        engine.create(engine.call("a")).await.unwrap()
    });
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.playing(asked_of(ConfirmBy::Client)).await;
        settle().await;
        assert!(world.task(&asked.id).await.awaits_confirmation() && runs.started().is_none());
        // The system's clock is set, which wakes all that waits for a time.
        clock.jump(-5_000);
        world.pass(30_000).await;
        assert!(world.task(&asked.id).await.awaits_confirmation());
        answer(&engine, &asked, "accept").await;
    });
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.playing(asked_of(ConfirmBy::Client)).await;
        // Its attempt may have begun before the process ended: then it is tried again.
        world.pass(2_000).await;
        runs.next().await.finish("deployed");
        assert_eq!(world.outcome(&engine, &asked.id).await, text("deployed"));
        let inputs = world.store.inputs(&asked.id, 9).await.unwrap();
        assert_eq!((inputs.len(), inputs[0].answered_by), (1, Some(AnsweredBy::Client)));
    });
}
