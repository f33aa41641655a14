//! Nodes that only accept calls, nodes that only run tasks, and what crosses between them.

use crate::support::{CallOf, Runs, Script, World, settle, text, tool};
use longhaul_core::{
    AttemptState, BoxFuture, CancelMode, HostId, Json, LogLevel, StopReason, Store, StoreLayer, TaskId,
    store::{NodeRole, NodeStatus, StoreError},
};
use longhaul_runtime::{
    Artifact, ArtifactChunk, ArtifactList, AttemptExit, AttemptFilesError, Engine, Executor, LogChunk, LogError,
    LogRange, PastAttempt, PlainCallState, Provider, QueueWait, ToolMessage,
};
use longhaul_store::MemoryStore;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Notify;

const LEASE: u64 = 15_000;

/// Keeps a log on each host.
struct Logs(&'static str);

impl Provider for Logs {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn revive(&self, _: &Json) -> Result<Arc<dyn Executor>, String> {
        Err("no tool of the test is removed".to_owned())
    }

    fn attempts(&self, _: &TaskId, epoch: u32, _: u32, _: usize) -> BoxFuture<'_, Result<Vec<PastAttempt>, LogError>> {
        Box::pin(async move {
            Ok(vec![PastAttempt {
                epoch,
                began: None,
                ended: None,
                succeeded: false,
                timed_out: false,
                last_line: None,
                command: Vec::new(),
                pid: None,
                exit: Some(AttemptExit::Signal("TERM".to_owned())),
            }])
        })
    }

    fn read_log(&self, _: &TaskId, epoch: u32, range: LogRange) -> BoxFuture<'_, Result<Option<LogChunk>, LogError>> {
        Box::pin(async move {
            Ok(Some(LogChunk {
                text: format!("{} {epoch} {:?}", self.0, range.limit),
                offset: range.offset.unwrap_or_default(),
                next: 5,
                total: 7,
            }))
        })
    }

    fn artifacts(&self, _: &TaskId, _: u32) -> BoxFuture<'_, Result<Option<ArtifactList>, LogError>> {
        Box::pin(async move {
            Ok(Some(ArtifactList {
                kept: vec![artifact(self.0)],
                ..ArtifactList::default()
            }))
        })
    }

    fn read_artifact(
        &self,
        _: &TaskId,
        _: u32,
        name: &str,
        offset: u64,
        _: u64,
    ) -> BoxFuture<'_, Result<Option<ArtifactChunk>, LogError>> {
        let chunk = (name == self.0).then(|| ArtifactChunk {
            artifact: artifact(self.0),
            offset,
            bytes: vec![0xff, 0, 7],
        });
        Box::pin(async move { Ok(chunk) })
    }
}

fn artifact(name: &str) -> Artifact {
    Artifact {
        name: name.to_owned(),
        size: 9,
        sha256: "ab".to_owned(),
    }
}

async fn start(world: &World, host: &'static str, role: NodeRole, host_bound: bool) -> (Engine, Runs) {
    let mut world = world.clone();
    world.host = HostId(host.into());
    world.role = role;
    world.providers = vec![Arc::new(Logs(host))];
    let (engine, runs, _) = world.recovered(host_bound).await;
    (engine, runs)
}

fn shared() -> World {
    let mut world = World::in_memory();
    world.store = Arc::new(MemoryStore::of_many_nodes(world.clock.clone(), LEASE));
    world
}

/// A front runs nothing: a plain call is queued, a worker runs it, and its messages, questions and result come back.
#[tokio::test]
async fn a_call_of_a_front_runs_at_a_worker() {
    let world = shared();
    let (front, mut runs_here) = start(&world, "front", NodeRole::Front, false).await;
    let mut call = front.begin(front.call("a")).await.unwrap();
    world.pass(40_000).await;
    assert!(runs_here.started().is_none(), "it runs nothing, and waits for a worker");
    let (_worker, mut runs) = start(&world, "worker", NodeRole::Worker, false).await;
    let run = runs.next().await;
    run.cx.report(1.0, Some(4.0), Some("begun"));
    run.cx.log(LogLevel::Warning, Some("w"), Json::trusted("{\"a\": 1.50}"));
    settle().await;
    let (mut progress, mut log) = (None, None);
    while let Some(message) = call.try_next_message() {
        match message {
            ToolMessage::Progress { current, message, .. } => progress = Some((current, message)),
            ToolMessage::Log { level, data, .. } => log = Some((level, data.as_str().to_owned())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(progress, Some((1.0, Some("begun".into()))));
    assert_eq!(log, Some((LogLevel::Warning, "{\"a\": 1.50}".to_owned())));

    let mut answer = run.ask("who?");
    settle().await;
    let PlainCallState::Changed(record) = call.read().await.unwrap() else {
        panic!("it has not ended");
    };
    let key = record.inputs[0].key.clone();
    front
        .answer_question(call.id(), key, Json::trusted("7"), longhaul_core::AnsweredBy::Client)
        .await
        .unwrap();
    settle().await;
    assert_eq!(answer.try_recv().unwrap().unwrap().as_str(), "7");
    run.finish("done");
    assert_eq!(call.ended(|_| ()).await.unwrap(), text("done"));
    assert!(runs_here.started().is_none());
}

/// Leaving and cancelling reach the worker.
#[tokio::test]
async fn a_cancellation_at_a_front_reaches_the_worker() {
    let world = shared();
    let (front, _) = start(&world, "front", NodeRole::Front, false).await;
    let (_worker, mut runs) = start(&world, "worker", NodeRole::Worker, false).await;
    let call = front.begin(front.call("a")).await.unwrap();
    let run = runs.next().await;
    call.handle().leave();
    settle().await;
    assert_eq!(run.cx.stop_requested(), Some(StopReason::Cancel));
    let task = front.create(front.call("a")).await.unwrap();
    let run = runs.next().await;
    let scope = crate::support::scope();
    front.cancel(&scope, &task.id, CancelMode::Cooperative).await.unwrap();
    settle().await;
    assert_eq!(run.cx.stop_requested(), Some(StopReason::Cancel));
}

/// A front takes nothing over from a worker that dies; another worker does.
#[tokio::test]
async fn a_front_takes_over_from_nobody() {
    let world = shared();
    let (front, mut runs_here) = start(&world, "front", NodeRole::Front, false).await;
    let (worker, mut runs) = start(&world, "worker", NodeRole::Worker, false).await;
    let task = front.create(front.call("a")).await.unwrap();
    let _run = runs.next().await;
    worker.stop();
    world.pass(300_000).await;
    assert!(runs_here.started().is_none());
    assert_eq!(
        world.task(&task.id).await.attempt.unwrap().state,
        AttemptState::Starting,
        "nobody has touched it"
    );
    let roles: Vec<NodeRole> = front.nodes().await.unwrap().iter().map(|node| node.role).collect();
    assert_eq!(roles, [NodeRole::Front, NodeRole::Worker]);
    let (other, mut runs) = start(&world, "other", NodeRole::Both, false).await;
    let run = runs.next().await;
    assert!(run.resumed);
    run.finish("done");
    assert_eq!(world.outcome(&other, &task.id).await, text("done"));
}

/// Runs a command of an attempt that its host has forgotten, until it is told to end it, and may end.
struct Running {
    commands: Mutex<Vec<(TaskId, u32)>>,
    told: AtomicUsize,
    may_end: Notify,
}

impl Provider for Running {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn revive(&self, _: &Json) -> Result<Arc<dyn Executor>, String> {
        Err("no tool of the test is removed".to_owned())
    }

    fn running_outside(&self) -> BoxFuture<'_, Result<Vec<(TaskId, u32)>, LogError>> {
        Box::pin(async { Ok(self.commands.lock().unwrap().clone()) })
    }

    fn end_outside(&self, task: &TaskId, epoch: u32) -> BoxFuture<'_, ()> {
        let ended = (task.clone(), epoch);
        Box::pin(async move {
            self.told.fetch_add(1, Ordering::Relaxed);
            self.may_end.notified().await;
            self.commands.lock().unwrap().retain(|running| *running != ended);
        })
    }
}

/// A front on the host of a dead worker takes nothing back, and ends what was given up there.
#[tokio::test]
async fn a_front_ends_commands_of_its_host_that_were_given_up() {
    let world = shared();
    let (other, _) = start(&world, "other", NodeRole::Both, true).await;
    let (worker, mut runs) = start(&world, "here", NodeRole::Worker, true).await;
    let task = worker.create(worker.call("a")).await.unwrap();
    let run = runs.next().await;
    worker.end().await;
    let running = Arc::new(Running {
        commands: Mutex::new(vec![(task.id.clone(), run.attempt.epoch)]),
        told: AtomicUsize::new(0),
        may_end: Notify::new(),
    });
    let mut here = world.clone();
    (here.host, here.role) = (HostId("here".into()), NodeRole::Front);
    here.providers = vec![running.clone()];
    let (script, _) = Script::bound(true);
    let _front = here.start([tool("a", script)]).await;
    world.pass(120_000).await;
    assert_eq!(running.told.load(Ordering::Relaxed), 0, "it is not given up yet");
    other.give_up_host(worker.node_id()).await.unwrap();
    world.pass(300_000).await;
    assert_eq!(running.told.load(Ordering::Relaxed), 1, "it is told once");
    running.may_end.notify_one();
    settle().await;
    assert!(running.commands.lock().unwrap().is_empty());
    assert!(world.task(&task.id).await.is_done());
}

/// A log, and what is known of attempts, are read at the server of their host.
#[tokio::test]
async fn files_of_another_host_are_read_there() {
    let world = shared();
    let (front, _) = start(&world, "front", NodeRole::Front, true).await;
    let (worker, mut runs) = start(&world, "worker", NodeRole::Worker, true).await;
    let task = front.create(front.call("a")).await.unwrap();
    let _run = runs.next().await;
    let task = world.task(&task.id).await;
    let range = LogRange {
        offset: Some(3),
        limit: Some(9),
    };
    let log = front.read_log(&task, None, range).await.unwrap().unwrap();
    let expected = ("worker 1 Some(9)", 3, 5, 7);
    assert_eq!((&*log.text, log.offset, log.next, log.total), expected);
    let attempts = front.attempts(&task, 0, 9).await.unwrap();
    assert_eq!(attempts[0].exit, Some(AttemptExit::Signal("TERM".to_owned())));

    assert_eq!(
        front.artifacts(&task, None).await.unwrap().unwrap().kept,
        [artifact("worker")]
    );
    let chunk = front
        .read_artifact(&task, Some(1), "worker", 5, 3)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (&*chunk.bytes, chunk.next(), chunk.artifact),
        (&[0xff, 0, 7][..], 8, artifact("worker"))
    );
    assert_eq!(front.read_artifact(&task, None, "front", 0, 3).await, Ok(None));
    assert_eq!(front.artifacts(&task, Some(2)).await, Ok(None));

    // It lives for all the store knows, and does not answer.
    worker.stop();
    let reading = crate::support::beside({
        let (front, task) = (front.clone(), task.clone());
        async move { front.read_log(&task, None, range).await }
    });
    world.pass(6_000).await;
    let elsewhere = AttemptFilesError::OnHost(HostId("worker".into()));
    assert_eq!(reading.await.unwrap(), Err(elsewhere.clone()));
    world.pass(40_000).await;
    assert_eq!(front.read_log(&task, None, range).await, Err(elsewhere.clone()));
    assert_eq!(front.artifacts(&task, None).await, Err(elsewhere));
}

/// A host is given up when it is due, and not at the next look of every minute.
#[tokio::test]
async fn a_host_is_given_up_in_time() {
    let mut world = shared();
    world.lost_after = 90_000;
    let (gone, mut runs) = start(&world, "gone", NodeRole::Both, true).await;
    let task = gone.create(gone.call("a")).await.unwrap();
    let _run = runs.next().await;
    let (other, _) = start(&world, "other", NodeRole::Both, true).await;
    // The look of every minute is at another time than the one at which the host is due.
    world.pass(25_000).await;
    gone.stop();
    let is_dead = async || {
        let nodes = other.nodes().await.unwrap();
        nodes
            .iter()
            .any(|node| !matches!(node.lease, longhaul_core::store::LeaseStatus::Held(_)))
    };
    while !is_dead().await {
        world.pass(1_000).await;
    }
    world.pass(88_000).await;
    assert!(!world.task(&task.id).await.is_done(), "its host may come back");
    world.pass(4_000).await;
    let task = world.task(&task.id).await;
    assert!(task.is_done() || task.attempt.unwrap().host.is_none(), "it is given up");
}

/// Counts how often the nodes are read.
struct CountedNodes {
    inner: Arc<dyn Store>,
    read: AtomicUsize,
}

impl StoreLayer for CountedNodes {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeStatus>, StoreError>> {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.inner.nodes()
    }
}

/// Whoever follows a queued task at a front asks again and again.
#[tokio::test]
async fn a_front_does_not_read_the_nodes_for_each_reading_of_a_task() {
    let mut world = shared();
    let counted = Arc::new(CountedNodes {
        inner: Arc::clone(&world.store),
        read: AtomicUsize::new(0),
    });
    world.store = counted.clone();
    let (front, _) = start(&world, "front", NodeRole::Front, false).await;
    let task = front.create(front.call("a")).await.unwrap();
    let record = world.task(&task.id).await;
    let before = counted.read.load(Ordering::Relaxed);
    for _ in 0..20 {
        assert_eq!(front.queue_wait(&record).await.unwrap(), Some(QueueWait::NoWorker));
    }
    assert_eq!(counted.read.load(Ordering::Relaxed), before + 1);
    let (_worker, _) = start(&world, "worker", NodeRole::Worker, true).await;
    world.pass(4_000).await;
    assert_ne!(front.queue_wait(&record).await.unwrap(), Some(QueueWait::NoWorker));
}
