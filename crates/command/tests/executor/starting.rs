//! From a queued task to its running command.

use super::fixtures::{pids, until};
use super::support::{Server, becomes, create, outcome, scope, text};
use longhaul_core::{
    BoxFuture, CancelMode, Event, Outcome, Store, StoreLayer, Task,
    store::{ApplyError, Change, Record, StoreError, TaskStore},
};
use longhaul_store::MemoryStore;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// A store that has no room for the start of an attempt until `open`, and counts how often it was asked to write it.
struct NoRoomToStart {
    inner: MemoryStore,
    open: AtomicBool,
    asked: AtomicUsize,
}

impl StoreLayer for NoRoomToStart {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        if change.events.contains(&Event::Started) {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if !self.open.load(Ordering::SeqCst) {
                return Box::pin(async { Err(StoreError::Full.into()) });
            }
        }
        self.inner.apply(change)
    }
}

/// The start is committed between the folder and the command: the folder is there, and nothing runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_started_before_the_start_is_committed() {
    for (cancelled, restarted) in [(false, false), (true, false), (false, true)] {
        let mut server = Server::running("echo $$ >> pids; echo ran");
        let store = Arc::new(NoRoomToStart {
            inner: MemoryStore::new(),
            open: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
        });
        server.store = Arc::clone(&store) as Arc<dyn Store>;
        let mut engine = server.start().await;
        let id = create(&engine, json!({})).await.id.clone();
        until("the start was to be written, twice", || {
            (store.asked.load(Ordering::SeqCst) >= 2).then_some(())
        });
        let dir = server.attempts.dir(&id, 1);
        assert!(dir.path().join("spec").exists());
        assert!(!dir.path().join("started").exists(), "no supervisor has been there");
        if cancelled {
            engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
            assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
            assert!(!server.file("pids").exists());
            continue;
        }
        if restarted {
            engine.stop();
            std::fs::remove_dir_all(dir.path()).unwrap();
        }
        store.open.store(true, Ordering::SeqCst);
        if restarted {
            engine = server.start().await;
        }
        assert_eq!(text(&outcome(&engine, &id).await), ("ran\n".to_owned(), false));
        pids(&server.file("pids"), 1);
        let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
        assert_eq!(task.attempts_used, 1);
    }
}

/// No processes, no memory, no descriptors: nothing ran, so the task waits, at no cost, and leaves no folders behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_finds_no_descriptors_is_queued_again() {
    let server = Server::running("echo $$ >> pids; echo ran");
    std::fs::write(server.file("shortage"), "").unwrap();
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let third = |record: &Record| record.task.attempt.as_ref().is_some_and(|attempt| attempt.epoch >= 3);
    let waiting = becomes(&engine, &id, third).await.task;
    let folders = std::fs::read_dir(server.file("attempts").join(id.as_str()))
        .unwrap()
        .count();
    assert!(folders <= 1, "{folders} folders of attempts in which nothing ran");
    let status = waiting.status.unwrap();
    assert!(
        status.starts_with("not started yet: the command could not be started: Too many open files"),
        "{status}"
    );
    std::fs::remove_file(server.file("shortage")).unwrap();
    assert_eq!(text(&outcome(&engine, &id).await), ("ran\n".to_owned(), false));
    pids(&server.file("pids"), 1);
    let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
    assert_eq!(task.attempts_used, 1);
    let status = task.status.unwrap();
    assert!(!status.starts_with("not started"), "{status}");
}

/// The same when the server itself cannot start a supervisor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_finds_no_descriptors_queues_the_task_again() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let server = Server::running("echo $$ >> pids; echo ran");
    let engine = server.start().await;
    let before = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(open + 1),
            maximum: before.maximum,
        },
    )
    .unwrap();
    let id = create(&engine, json!({})).await.id.clone();
    let third = |record: &Record| record.task.attempt.as_ref().is_some_and(|attempt| attempt.epoch >= 3);
    let waiting = becomes(&engine, &id, third).await.task;
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(waiting.status.unwrap().contains("Too many open files"));
    let folders = std::fs::read_dir(server.file("attempts").join(id.as_str()))
        .unwrap()
        .count();
    assert!(folders <= 1, "{folders} folders of attempts in which nothing ran");
    assert_eq!(text(&outcome(&engine, &id).await), ("ran\n".to_owned(), false));
    pids(&server.file("pids"), 1);
}
