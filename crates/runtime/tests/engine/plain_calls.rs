//! Plain calls that the store keeps in memory: their attempts run in the task that waits for them.

use crate::support::{
    CallOf, FaultyStore, ManualClock, Process, Script, World, beside, guarded, scope, settle, text, tool,
};
use futures_util::FutureExt;
use longhaul_core::{
    Outcome, StopReason, Store,
    store::{Record, StoreError},
};
use longhaul_runtime::{Call, CallState, Engine, Promotion, Waiting};
use longhaul_store::{MemoryStore, PlainCallStore};
use std::sync::Arc;

/// A world that keeps plain calls in memory, and the store behind them.
fn world() -> (World, Arc<FaultyStore>) {
    let disk = FaultyStore::over(Arc::new(MemoryStore::new()));
    (in_front_of(World::over(disk.clone())), disk)
}

fn in_front_of(mut world: World) -> World {
    world.store = Arc::new(PlainCallStore::in_front_of(world.store));
    world
}

async fn begin(engine: &Engine) -> Waiting {
    let call: Call = engine.call("a");
    engine.begin(call).await.unwrap()
}

async fn on_disk(disk: &FaultyStore, waiting: &Waiting) -> Option<Record> {
    disk.peek(waiting.id()).await.unwrap()
}

/// Lets the attempt run until it waits.
fn run_a_little(waiting: &mut Waiting) {
    assert!(waiting.changed().now_or_never().is_none());
}

#[tokio::test]
async fn an_attempt_runs_where_it_is_waited_for_and_writes_nothing() {
    let (world, disk) = world();
    let (script, mut runs) = Script::new();
    let engine = world.start([tool("a", script)]).await;
    let mut waiting = begin(&engine).await;
    settle().await;
    assert!(runs.started().is_none(), "nobody waits yet");
    run_a_little(&mut waiting);
    let run = runs.started().expect("it runs in the wait");
    assert_eq!(engine.store().counts().await.unwrap().running, 1);
    run.finish("done");
    assert_eq!(guarded("the end", waiting.ended(|_| ())).await.unwrap(), text("done"));
    assert_eq!(on_disk(&disk, &waiting).await, None);
    assert_eq!(engine.store().counts().await.unwrap().running, 0);
    assert_eq!(engine.running(), 0);
}

#[tokio::test]
async fn a_panic_is_the_calls_end_and_not_the_waits() {
    let (world, _) = world();
    let (script, mut runs) = Script::new();
    let engine = world.start([tool("a", script)]).await;
    let mut waiting = begin(&engine).await;
    run_a_little(&mut waiting);
    runs.next().await.panic();
    let ended = guarded("the end", waiting.ended(|_| ())).await.unwrap();
    assert!(matches!(ended, Outcome::RpcError(failure) if failure.message.contains("as the script says")));
}

#[tokio::test]
async fn an_attempt_whose_wait_is_dropped_runs_on() {
    let (world, _) = world();
    let (script, mut runs) = Script::new();
    let engine = world.start([tool("a", script)]).await;
    let never_polled = begin(&engine).await;
    drop(never_polled);
    runs.next().await.finish("done");
    let mut polled = begin(&engine).await;
    run_a_little(&mut polled);
    let run = runs.next().await;
    drop(polled);
    settle().await;
    assert_eq!(run.cx.stop_requested(), None);
    run.finish("done");
    settle().await;
    assert_eq!(engine.running(), 0);
}

#[tokio::test]
async fn an_abandoned_attempt_hears_of_it_before_its_wait_is_gone() {
    let (world, _) = world();
    let (script, mut runs) = Script::new();
    let engine = world.start([tool("a", script)]).await;
    let mut waiting = begin(&engine).await;
    run_a_little(&mut waiting);
    let run = runs.next().await;
    waiting.begun().abandon();
    drop(waiting);
    assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Cancel);
    run.finish("cleaned up");
    settle().await;
    assert_eq!(
        (engine.running(), engine.store().counts().await.unwrap().running),
        (0, 0)
    );
}

#[tokio::test]
async fn a_client_that_is_slow_to_take_messages_does_not_slow_the_attempt() {
    let (world, _) = world();
    let (script, mut runs) = Script::new();
    let engine = world.start([tool("a", script)]).await;
    let mut waiting = begin(&engine).await;
    run_a_little(&mut waiting);
    let run = runs.next().await;
    run.cx.report(1.0, None, None);
    assert!(guarded("progress", waiting.next()).await.is_some());
    run.finish("done");
    // Nobody polls the wait.
    settle().await;
    assert_eq!(engine.running(), 0);
    assert_eq!(guarded("the end", waiting.ended(|_| ())).await.unwrap(), text("done"));
}

#[tokio::test]
async fn a_call_that_asks_is_written_and_runs_on_its_own() {
    let (world, disk) = world();
    let (script, mut runs) = Script::new();
    let engine = world.start([tool("a", script)]).await;
    let mut waiting = begin(&engine).await;
    run_a_little(&mut waiting);
    let run = runs.next().await;
    let _answer = run.ask("elicitation/create");
    guarded("the question", async {
        loop {
            if let CallState::Changed(record) = waiting.look().await.unwrap()
                && !record.inputs.is_empty()
            {
                return;
            }
            waiting.changed().await;
        }
    })
    .await;
    assert_eq!(on_disk(&disk, &waiting).await.unwrap().inputs.len(), 1);
    run.finish("done");
    settle().await;
    assert_eq!(engine.running(), 0, "nobody polls the wait");
}

#[tokio::test]
async fn a_promotion_that_cannot_be_written_leaves_the_call_as_it_was() {
    let (world, disk) = world();
    let (script, mut runs) = Script::new();
    let engine = world.start([tool("a", script)]).await;
    let mut waiting = begin(&engine).await;
    run_a_little(&mut waiting);
    let run = runs.next().await;
    disk.be_full_for("promoted", 1);
    assert_eq!(waiting.promote().await.unwrap_err(), StoreError::Full);
    assert_eq!(on_disk(&disk, &waiting).await, None);
    let Promotion::Task(task) = waiting.promote().await.unwrap() else {
        panic!("it still runs")
    };
    assert!(engine.get(&scope(), &task.id).await.unwrap().is_some());
    drop(waiting);
    run.finish("done");
    assert_eq!(world.outcome(&engine, &task.id).await, text("done"));
}

/// The end and the promotion at once: whichever comes first, the client has the outcome or a task that has it.
#[tokio::test]
async fn a_promotion_races_with_the_end() {
    for hold in [false, true] {
        let (world, disk) = world();
        let (script, mut runs) = Script::new();
        let engine = world.start([tool("a", script)]).await;
        let mut waiting = begin(&engine).await;
        run_a_little(&mut waiting);
        let run = runs.next().await;
        disk.hold_applied.send_replace(hold);
        let promotion = beside(async move { (waiting.promote().await.unwrap(), waiting) });
        if hold {
            // The promotion is written, and not acknowledged yet.
            settle().await;
        }
        run.finish("done");
        settle().await;
        disk.hold_applied.send_replace(false);
        match guarded("the promotion", promotion).await.unwrap() {
            (Promotion::Ended(outcome), _) => assert_eq!(outcome, text("done")),
            (Promotion::Task(task), _) => assert_eq!(world.outcome(&engine, &task.id).await, text("done")),
        }
    }
}

/// `kill -9` on both sides of the commit that promotes: before it nobody knows of the call and nothing is left of it; after it the task is there.
#[test]
fn a_call_is_lost_with_the_process_until_it_is_promoted() {
    let clock = Arc::new(ManualClock::new());
    for promotes in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let id = Process::run(directory.path(), &clock, async |world| {
            let (script, mut runs) = Script::new();
            let engine = in_front_of(world).start([tool("a", script)]).await;
            let mut waiting = begin(&engine).await;
            run_a_little(&mut waiting);
            runs.next().await;
            if promotes {
                assert!(matches!(waiting.promote().await.unwrap(), Promotion::Task(_)));
            }
            waiting.id().clone()
        });
        Process::run(directory.path(), &clock, async |world| {
            let (script, _runs) = Script::new();
            let (engine, recovered) = in_front_of(world.clone()).start_and_recover([tool("a", script)]).await;
            assert_eq!(
                (recovered.attempts, recovered.orphaned_calls),
                (u64::from(promotes).try_into().unwrap(), 0)
            );
            let found = engine.get(&scope(), &id).await.unwrap();
            assert_eq!(found.is_some(), promotes);
            assert_eq!(world.store.peek(&id).await.unwrap().is_some(), promotes);
        });
    }
}
