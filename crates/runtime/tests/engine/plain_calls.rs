//! Plain calls that the store keeps in memory: their attempts run in the task that waits for them.

use crate::support::{
    CallOf, FaultyStore, ManualClock, Process, Run, Runs, World, beside, guarded, scope, settle, text,
};
use futures_util::FutureExt;
use longhaul_core::{
    BoxFuture, Outcome, State, StopReason, Store, Task,
    store::{ApplyError, Change, Record, StoreError, TaskStore, UnwrittenCall},
};
use longhaul_runtime::{Call, Engine, PlainCall, PlainCallState, Promotion};
use longhaul_store::{MemoryStore, PlainCallStore};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A world that keeps plain calls in memory, and the store behind them.
fn world() -> (World, Arc<FaultyStore>) {
    let disk = FaultyStore::over(Arc::new(MemoryStore::new()));
    (in_front_of(World::over(disk.clone())), disk)
}

fn in_front_of(mut world: World) -> World {
    world.store = Arc::new(PlainCallStore::in_front_of(world.store));
    world
}

/// A server with one tool, whose runs the test plays.
struct Server {
    world: World,
    disk: Arc<FaultyStore>,
    engine: Engine,
    runs: Runs,
}

impl Server {
    async fn start() -> Self {
        let (world, disk) = world();
        let (engine, runs) = world.scripted().await;
        Self {
            world,
            disk,
            engine,
            runs,
        }
    }

    /// A call whose attempt runs in its wait.
    async fn running_call(&mut self) -> (PlainCall, Run) {
        running_call(&self.engine, &mut self.runs).await
    }

    async fn running(&self) -> (usize, u64) {
        let stored = self.engine.store().counts().await.unwrap().running;
        (self.engine.running(), stored)
    }
}

async fn begin(engine: &Engine) -> PlainCall {
    let call: Call = engine.call("a");
    engine.begin(call).await.unwrap()
}

async fn running_call(engine: &Engine, runs: &mut Runs) -> (PlainCall, Run) {
    let mut waiting = begin(engine).await;
    run_a_little(&mut waiting);
    (waiting, runs.next().await)
}

async fn on_disk(disk: &FaultyStore, waiting: &PlainCall) -> Option<Record> {
    disk.get_unscoped(waiting.id()).await.unwrap()
}

/// Lets the attempt run until it waits.
fn run_a_little(waiting: &mut PlainCall) {
    assert!(waiting.changed().now_or_never().is_none());
}

#[tokio::test]
async fn an_attempt_runs_where_it_is_waited_for_and_writes_nothing() {
    let mut server = Server::start().await;
    let mut waiting = begin(&server.engine).await;
    settle().await;
    assert!(server.runs.started().is_none(), "nobody waits yet");
    run_a_little(&mut waiting);
    let run = server.runs.started().expect("it runs in the wait");
    assert_eq!(server.running().await, (1, 1));
    run.finish("done");
    assert_eq!(guarded("the end", waiting.ended(|_| ())).await.unwrap(), text("done"));
    assert_eq!(on_disk(&server.disk, &waiting).await, None);
    assert_eq!(server.running().await, (0, 0));
}

#[tokio::test]
async fn a_panic_is_the_calls_end_and_not_the_waits() {
    let mut server = Server::start().await;
    let (mut waiting, run) = server.running_call().await;
    run.panic();
    let ended = guarded("the end", waiting.ended(|_| ())).await.unwrap();
    assert!(matches!(ended, Outcome::RpcError(failure) if failure.message.contains("as the script says")));
}

#[tokio::test]
async fn an_attempt_whose_wait_is_dropped_runs_on() {
    let mut server = Server::start().await;
    let never_polled = begin(&server.engine).await;
    drop(never_polled);
    server.runs.next().await.finish("done");
    let (polled, run) = server.running_call().await;
    drop(polled);
    settle().await;
    assert_eq!(run.cx.stop_requested(), None);
    run.finish("done");
    settle().await;
    assert_eq!(server.engine.running(), 0);
}

#[tokio::test]
async fn an_attempt_without_a_client_is_asked_to_stop_before_its_wait_is_dropped() {
    let mut server = Server::start().await;
    let (waiting, run) = server.running_call().await;
    waiting.handle().abandon();
    drop(waiting);
    assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Cancel);
    run.finish("cleaned up");
    settle().await;
    assert_eq!(server.running().await, (0, 0));
}

#[tokio::test]
async fn a_client_that_is_slow_to_take_messages_does_not_slow_the_attempt() {
    let mut server = Server::start().await;
    let (mut waiting, run) = server.running_call().await;
    run.cx.report(1.0, None, None);
    assert!(guarded("progress", waiting.next_message()).await.is_some());
    run.finish("done");
    // Nobody polls the wait.
    settle().await;
    assert_eq!(server.engine.running(), 0);
    assert_eq!(guarded("the end", waiting.ended(|_| ())).await.unwrap(), text("done"));
}

#[tokio::test]
async fn a_call_that_asks_is_written_and_runs_on_its_own() {
    let mut server = Server::start().await;
    let (mut waiting, run) = server.running_call().await;
    let _answer = run.ask("elicitation/create");
    guarded("the question", async {
        loop {
            if let PlainCallState::Changed(record) = waiting.read().await.unwrap()
                && !record.inputs.is_empty()
            {
                return;
            }
            waiting.changed().await;
        }
    })
    .await;
    assert_eq!(on_disk(&server.disk, &waiting).await.unwrap().inputs.len(), 1);
    run.finish("done");
    settle().await;
    assert_eq!(server.engine.running(), 0, "nobody polls the wait");
}

#[tokio::test]
async fn a_promotion_that_cannot_be_written_leaves_the_call_as_it_was() {
    let mut server = Server::start().await;
    let (mut waiting, run) = server.running_call().await;
    server.disk.be_full_for("promoted", 1);
    assert_eq!(waiting.promote().await.unwrap_err(), StoreError::Full);
    assert_eq!(on_disk(&server.disk, &waiting).await, None);
    let Promotion::Task(task) = waiting.promote().await.unwrap() else {
        panic!("it still runs")
    };
    assert!(server.engine.get(&scope(), &task.id).await.unwrap().is_some());
    drop(waiting);
    run.finish("done");
    assert_eq!(server.world.outcome(&server.engine, &task.id).await, text("done"));
}

/// The end and the promotion at once: whichever comes first, the client has the outcome or a task that has it.
#[tokio::test]
async fn a_promotion_races_with_the_end() {
    for hold in [false, true] {
        let mut server = Server::start().await;
        let (mut waiting, run) = server.running_call().await;
        server.disk.hold_applied.send_replace(hold);
        let promotion = beside(async move { (waiting.promote().await.unwrap(), waiting) });
        if hold {
            // The promotion is written, and not acknowledged yet.
            settle().await;
        }
        run.finish("done");
        settle().await;
        server.disk.hold_applied.send_replace(false);
        match guarded("the promotion", promotion).await.unwrap() {
            (Promotion::Ended(outcome), _) => assert_eq!(outcome, text("done")),
            (Promotion::Task(task), _) => {
                assert_eq!(server.world.outcome(&server.engine, &task.id).await, text("done"))
            }
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
            let (engine, mut runs) = in_front_of(world).scripted().await;
            let (mut waiting, _) = running_call(&engine, &mut runs).await;
            if promotes {
                assert!(matches!(waiting.promote().await.unwrap(), Promotion::Task(_)));
            }
            waiting.id().clone()
        });
        Process::run(directory.path(), &clock, async |world| {
            let (engine, _runs, recovered) = in_front_of(world.clone()).recovered(false).await;
            let expected = (u64::from(promotes).try_into().unwrap(), 0);
            assert_eq!((recovered.attempts, recovered.orphaned_calls), expected);
            let found = engine.get(&scope(), &id).await.unwrap();
            assert_eq!(found.is_some(), promotes);
            assert_eq!(world.store.get_unscoped(&id).await.unwrap().is_some(), promotes);
        });
    }
}

/// A store that answers a write of a call only when there is a permit, after the change was told.
struct LateAnswers {
    inner: Arc<dyn Store>,
    answers: Semaphore,
}

impl longhaul_core::StoreLayer for LateAnswers {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let written = self.inner.write_call(call, change);
        Box::pin(async move {
            let written = written.await;
            self.answers.acquire().await.unwrap().forget();
            written
        })
    }
}

/// Whoever waits for it learns that at once, and another node can find it.
#[tokio::test]
async fn a_call_whose_attempt_must_not_begin_is_queued_in_the_store_and_does_not_run_here_any_more() {
    let disk = Arc::new(LateAnswers {
        inner: Arc::new(MemoryStore::new()),
        answers: Semaphore::new(0),
    });
    let world = in_front_of(World::over(disk.clone()));
    let (engine, mut runs) = world.scripted().await;
    let (mut waiting, run) = running_call(&engine, &mut runs).await;
    assert!(run.cx.end_unless_it_may_begin().is_none());
    engine.set_paused("a", true).await.unwrap();
    let end = run.cx.end_unless_it_may_begin().expect("its tool is paused");
    assert!(waiting.has_begun().await.unwrap() && waiting.is_in_memory() && waiting.runs_here());
    run.end(end);
    guarded("the change", waiting.changed()).await;
    let PlainCallState::Changed(record) = waiting.read().await.unwrap() else {
        panic!("it has ended")
    };
    assert_eq!((record.task.state, record.task.attempts_used), (State::Queued, 0));
    assert_eq!(disk.get_unscoped(waiting.id()).await.unwrap(), Some(*record));
    assert!(!waiting.has_begun().await.unwrap() && !waiting.is_in_memory() && !waiting.runs_here());
    disk.answers.add_permits(1);
    engine.set_paused("a", false).await.unwrap();
    runs.next().await.finish("done");
    assert_eq!(guarded("the end", waiting.ended(|_| ())).await.unwrap(), text("done"));
}
