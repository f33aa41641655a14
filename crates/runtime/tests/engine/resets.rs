//! An operator resets a durable task: a new one goes on from an earlier point of its journal.

use crate::{
    durable::{answer, answer_and_end, ask, asks_between_two_steps, suspended, until_it_asks},
    support::{
        CallOf, Effects, Fault, FaultyCreate, Process, Script, World, guarded, home, program, settle, text, tool,
    },
};
use futures_util::future::join;
use longhaul_core::{EntryKind, InputKey, InputState, Outcome, State, TaskId, Verdict, store::StoreError};
use longhaul_runtime::{Engine, OperatorError, Requestor, ToolSettings};

async fn requestor(world: &World, id: &TaskId) -> Requestor {
    Requestor::from_json(&world.store.requestor(id).await.unwrap().unwrap())
}

/// The process dies as soon as the reset is acknowledged. What is kept is not run again, and the answer not asked for again.
#[test]
fn a_reset_goes_on_from_the_journal_before_an_entry() {
    let (directory, clock) = home();
    let effects = Effects::default();
    let (id, reset) = Process::run(directory.path(), &clock, async |world| {
        let (engine, id) = until_it_asks(&world, &effects).await;
        answer_and_end(&world, &engine, &id).await;
        let reset = engine.reset_any(&id, 3).await.unwrap();
        (id, reset.id.clone())
    });
    Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([asks_between_two_steps(&effects)]).await;
        let outcome = guarded("the end", world.outcome(&engine, &reset)).await;
        let Outcome::Result { json, .. } = outcome else {
            panic!("a result, and not {outcome:?}");
        };
        // The last step may have run before the process died, too.
        assert!(json.as_str().contains(r#"1 {\"says\":\"go\"} "#), "{}", json.as_str());
        // It is as it was.
        assert_eq!(world.outcome(&engine, &id).await, text(r#"1 {"says":"go"} 2"#));
        assert_eq!(world.task(&reset).await.inputs_asked, 1, "nothing was asked again");
        let asked = world.store.input(&reset, &InputKey::nth(1)).await.unwrap().unwrap();
        assert!(matches!(asked.state, InputState::Answered(_)));
        let requestor = requestor(&world, &reset).await;
        let expected = (Some(id.to_string()), Some(3));
        assert_eq!((requestor.retry_of, requestor.reset_before), expected);

        assert_eq!(engine.reset_any(&id, 3).await.unwrap().id, reset, "once");
        let other = OperatorError::ResetBefore {
            task: reset.clone(),
            before: 3,
        };
        assert_eq!(engine.reset_any(&id, 1).await, Err(other));
        let again = engine.reset_any(&reset, 1).await.unwrap();
        world.asks(&engine, &again.id).await;
    });
}

/// The cancellation and the new task are one write. While it is unknown whether that was made, it is looked for.
#[tokio::test]
async fn a_task_is_not_cancelled_without_a_successor() {
    let (world, store) = World::faulty();
    let effects = Effects::default();
    let (engine, id) = until_it_asks(&world, &effects).await;
    suspended(&world, &engine, &id).await;
    let before = world.record(&id).await;
    store.fail_creates("asks", &[FaultyCreate::Full]);
    let full = OperatorError::Create(StoreError::Full.into());
    assert_eq!(engine.reset_any(&id, 2).await, Err(full));
    assert_eq!(world.record(&id).await, before, "nothing was changed");
    store.fail_creates("asks", &[FaultyCreate::Unsure]);
    let reset = engine.reset_any(&id, 2).await.unwrap().id.clone();
    assert_eq!(world.state(&id).await, State::Done(Verdict::Cancelled));
    assert_eq!(engine.reset_any(&id, 2).await.unwrap().id, reset, "once");
    world.asks(&engine, &reset).await;
}

fn asks_beside_a_step(effects: &Effects) -> ToolSettings {
    let effects = effects.clone();
    program("beside", move |cx| {
        let effects = effects.clone();
        async move {
            let (said, step) = join(ask(&cx, "well?"), async { effects.step(&cx, "beside").await }).await;
            Ok::<_, Fault>(format!("{} {}", said?, step?))
        }
    })
}

/// It is asked again under a key that was not used before, so that a late answer to the old question cannot be taken for the new one.
#[tokio::test]
async fn a_waiting_task_is_cancelled_and_its_question_asked_again() {
    let world = World::in_memory();
    let effects = Effects::default();
    let (engine, id) = until_it_asks(&world, &effects).await;
    let expected = Err(OperatorError::NotNow("the task is running: cancel it first"));
    assert_eq!(engine.reset_any(&id, 2).await, expected);
    suspended(&world, &engine, &id).await;
    for before in [0, 3] {
        let none = OperatorError::NoEntry { before, entries: 2 };
        assert_eq!(engine.reset_any(&id, before).await, Err(none));
    }
    assert_eq!(world.state(&id).await, State::Suspended, "nothing was changed");
    let reset = engine.reset_any(&id, 2).await.unwrap();
    assert_eq!(world.state(&id).await, State::Done(Verdict::Cancelled));
    let asks = world.asks(&engine, &reset.id).await;
    assert_eq!(asks.open_inputs, [InputKey::nth(2)]);
    let was_reset = OperatorError::WasReset { task: reset.id.clone() };
    assert_eq!(engine.retry_any(&id).await, Err(was_reset), "it goes on already");
    answer(&engine, &reset.id, 2, "go").await;
    let outcome = guarded("the end", world.outcome(&engine, &reset.id)).await;
    assert_eq!(outcome, text(r#"1 {"says":"go"} 2"#));
}

#[tokio::test]
async fn what_is_kept_has_results() {
    let world = World::in_memory();
    let effects = Effects::default();
    let engine = world.start([asks_beside_a_step(&effects)]).await;
    let id = engine.create(engine.call("beside")).await.unwrap().id.clone();
    world.until(&engine, &id, |task| task.journaled == 2).await;
    suspended(&world, &engine, &id).await;
    let journal = world.store.journal(&id, 0, 10).await.unwrap();
    let question = journal.iter().find(|entry| entry.key.kind == EntryKind::Input);
    let question = question.unwrap();
    let refused = engine.reset_any(&id, 2).await;
    match question.seq {
        1 => assert_eq!(
            refused,
            Err(OperatorError::Unsettled {
                position: 1,
                entry: question.key.clone()
            })
        ),
        _ => panic!("the question is written first"),
    }
    assert_eq!(world.state(&id).await, State::Suspended, "nothing was changed");
    // Its end withdraws the question, and gives it no result either.
    engine.cancel_any(&id).await.unwrap();
    assert!(matches!(
        engine.reset_any(&id, 2).await,
        Err(OperatorError::Unsettled { .. })
    ));
    engine.reset_any(&id, 1).await.unwrap();
}

/// Builds, and then checks as this version does.
fn ship(effects: &Effects, second: &'static str) -> ToolSettings {
    let effects = effects.clone();
    program("ship", move |cx| {
        let effects = effects.clone();
        async move {
            let build = effects.step(&cx, "build").await?;
            let second = effects.step(&cx, second).await?;
            let said = ask(&cx, "well?").await?;
            Ok::<_, Fault>(format!("{build} {second} {said}"))
        }
    })
}

/// The new code goes on from where the two versions agree.
#[test]
fn a_task_that_new_code_has_blocked_is_reset_to_where_it_agrees() {
    let (directory, clock) = home();
    let effects = Effects::default();
    let life = |build: &str, second, life: &dyn Fn(World, Engine) -> _| {
        Process::run(directory.path(), &clock, async |mut world| {
            world.build = build.to_owned();
            let engine = world.start([ship(&effects, second)]).await;
            let life: std::pin::Pin<Box<dyn Future<Output = Option<TaskId>>>> = life(world, engine);
            life.await
        })
    };
    let id = life("1", "test", &|world, engine| {
        Box::pin(async move {
            let id = engine.create(engine.call("ship")).await.unwrap().id.clone();
            world.asks(&engine, &id).await;
            Some(id)
        })
    })
    .unwrap();
    life("2", "check", &|world, engine| {
        let id = id.clone();
        Box::pin(async move {
            world.reaches(&engine, &id, State::Blocked).await;
            let reset = engine.reset_any(&id, 2).await.unwrap().id.clone();
            assert_eq!(world.state(&id).await, State::Done(Verdict::Cancelled));
            world.asks(&engine, &reset).await;
            answer(&engine, &reset, 2, "go").await;
            let outcome = guarded("the end", world.outcome(&engine, &reset)).await;
            assert_eq!(outcome, text(r#"1 3 {"says":"go"}"#));
            None
        })
    });
}

#[tokio::test]
async fn only_durable_tasks_are_reset() {
    let world = World::in_memory();
    let (script, mut runs) = Script::new();
    let engine = world.start([tool("plain", script)]).await;
    let id = engine.create(engine.call("plain")).await.unwrap().id.clone();
    runs.next().await.finish("done");
    world.until(&engine, &id, |task| task.is_done()).await;
    settle().await;
    let refused = engine.reset_any(&id, 1).await;
    assert_eq!(
        refused,
        Err(OperatorError::NotNow(
            "its tool is, as it is now, not a durable tool in Rust, which alone can be reset: cancel the task and retry it"
        ))
    );
    let unknown: TaskId = "nobody".parse().unwrap();
    assert_eq!(engine.reset_any(&unknown, 1).await, Err(OperatorError::NotFound));
}
