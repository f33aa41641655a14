//! Work outside of the process is found again by what its attempt has stored.

use crate::support::{
    CallOf, FaultyStore, Process, Script, World, beside, guarded, home, program, retry, settle, text, tool,
};
use longhaul_core::{Json, MAX_ENTRY_BYTES, Outcome, RetryOn, StopReason};
use longhaul_runtime::{ExecutionEnd, JournalError, ToolSettings};
use longhaul_store::{MemoryStore, PlainCallStore};
use std::sync::Arc;

fn json(number: u32) -> Json {
    Json::from(serde_json::json!({"job": number}))
}

/// The latest checkpoint counts, in any number of processes after the one that has stored it. What an earlier attempt has stored is that of other work.
#[test]
fn an_adopted_attempt_gets_its_latest_checkpoint_and_no_other_attempt_does() {
    let (directory, clock) = home();
    let settings = |tool: &mut ToolSettings| tool.retry = retry(2, 0, [RetryOn::Crash]);
    let id = Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.playing(settings).await;
        let task = engine.create(engine.call("a")).await.unwrap();
        let run = runs.next().await;
        assert_eq!(run.attempt.checkpoint, None);
        for job in 1..=2 {
            guarded("a checkpoint", run.cx.checkpoint(json(job))).await.unwrap();
        }
        task.id.clone()
    });
    for _ in 0..2 {
        clock.advance(1);
        Process::run(directory.path(), &clock, async |world| {
            let (_engine, mut runs) = world.playing(settings).await;
            let run = runs.next().await;
            assert!(run.resumed);
            assert_eq!(run.attempt.checkpoint, Some(json(2)));
        });
    }
    clock.advance(1);
    Process::run(directory.path(), &clock, async |world| {
        let (_engine, mut runs) = world.playing(settings).await;
        runs.next().await.end(ExecutionEnd::Crashed);
        let second = runs.next().await;
        assert_eq!((second.attempt.epoch, second.resumed), (2, false));
        assert_eq!(second.attempt.checkpoint, None);
    });
    clock.advance(1);
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.playing(settings).await;
        let second = runs.next().await;
        assert!(second.resumed);
        // The first attempt's is not its own.
        assert_eq!(second.attempt.checkpoint, None);
        guarded("a checkpoint", second.cx.checkpoint(json(3))).await.unwrap();
        second.finish("done");
        assert_eq!(world.outcome(&engine, &id).await, text("done"));
    });
}

/// Nobody waits for a plain call after a restart, but the work that it has started elsewhere is stopped.
#[test]
fn a_plain_call_is_written_by_its_checkpoint_and_the_next_process_can_stop_its_work() {
    let (directory, clock) = home();
    let id = Process::run(directory.path(), &clock, async |mut world| {
        world.store = Arc::new(PlainCallStore::in_front_of(world.store));
        let (script, mut runs) = Script::asking_again();
        let engine = world.start([tool("a", script)]).await;
        let mut call = engine.begin(engine.call("a")).await.unwrap();
        let id = call.id().clone();
        let played = async {
            let run = runs.next().await;
            run.cx.checkpoint(json(1)).await.unwrap();
        };
        tokio::select! {
            () = played => {}
            _ = call.ended(|_| {}) => panic!("it does not end"),
        }
        id
    });
    clock.advance(1);
    Process::run(directory.path(), &clock, async |world| {
        let (script, mut runs) = Script::asking_again();
        let (engine, recovered) = world.start_and_recover([tool("a", script)]).await;
        assert_eq!((recovered.orphaned_calls, recovered.attempts), (1, 1));
        let run = runs.next().await;
        assert_eq!(run.attempt.checkpoint, Some(json(1)));
        run.stops(StopReason::Cancel).await;
        assert_eq!(world.outcome(&engine, &id).await, Outcome::Cancelled);
    });
}

/// It is on disk before the work goes on.
#[tokio::test]
async fn a_checkpoint_is_written_again_while_the_store_is_full() {
    let disk = FaultyStore::over(Arc::new(MemoryStore::new()));
    let world = World::over(disk.clone());
    let (engine, mut runs) = world.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    disk.be_full_for("journaled", 2);
    let cx = run.cx.clone();
    let written = beside(async move { cx.checkpoint(json(1)).await });
    for pause in [50, 100] {
        world.clock.sleeper(pause).await;
        settle().await;
        assert!(!written.is_finished());
        world.clock.advance(pause);
    }
    guarded("a checkpoint", written).await.unwrap().unwrap();
    let entries = world.store.journal(&run.attempt.task, 0, 10).await.unwrap();
    assert_eq!(
        entries.into_iter().map(|entry| entry.value).collect::<Vec<_>>(),
        [json(1)]
    );
}

#[tokio::test]
async fn what_cannot_be_a_checkpoint_is_refused() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    let long = Json::from(serde_json::json!("x".repeat(MAX_ENTRY_BYTES)));
    let refused = run.cx.checkpoint(long).await.unwrap_err();
    assert!(matches!(refused, JournalError::TooLarge { .. }), "{refused}");

    let durable = program("d", |cx| async move {
        let refused = cx.checkpoint(json(1)).await.unwrap_err();
        Ok(refused.to_string())
    });
    let engine = world.start([durable]).await;
    let task = engine.create(engine.call("d")).await.unwrap();
    let end = world.outcome(&engine, &task.id).await;
    let expected = text("a durable tool keeps a journal: it records the result of a step in place of a checkpoint");
    assert_eq!(end, expected);
}
