//! What happens to the folders of expired tasks, and to a database from before their removal.

use super::fixtures::{children, launcher, pids, until, until_exists};
use super::support::{Server, create, outcome, scope};
use longhaul_command::CommandProvider;
use longhaul_core::{BoxFuture, Clock, Store, UnixMillis};
use longhaul_runtime::{LogRange, Ports, Provider};
use longhaul_store::{Disagreement, MemoryStore, ReadOnlyStore, SqliteOptions, SqliteStore};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_go_with_their_task() {
    let server = Server::running("echo x");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    outcome(&engine, &id).await;
    until("the supervisor is reaped", || children().is_empty().then_some(()));
    let provider = CommandProvider::new(server.attempts.clone(), launcher(), Ports::system());
    assert!(provider.bytes_held().await.unwrap() > 0);
    provider.forget(&id).await.unwrap();
    provider.forget(&id).await.unwrap();
    assert_eq!(provider.bytes_held().await.unwrap(), 0);
    assert_eq!(provider.read_log(&id, 1, LogRange::default()).await, Ok(None));
    until_exists(&server.file("attempts"));
}

/// The system's clock, which a test can advance.
struct ShiftedClock {
    system: Arc<dyn Clock>,
    ahead_ms: AtomicU64,
}

impl Clock for ShiftedClock {
    fn now(&self) -> UnixMillis {
        self.system.now().plus(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.system.sleep(duration)
    }
}

/// Two tasks: one that runs and one that waits for it. The copy of the database is taken then. Both run and expire, and their folders are
/// removed; then the same process ends, and the copy takes the place of its database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_from_before_folders_were_removed_runs_no_command_again() {
    let mut server = Server::running("echo $$ >> pids; until [ -e go ]; do sleep 0.01; done");
    let clock = Arc::new(ShiftedClock {
        system: Arc::clone(&server.ports.clock),
        ahead_ms: AtomicU64::new(0),
    });
    server.ports.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    server.max_running = Some(1);
    let (data, copy) = (server.file("data"), server.file("copy.db"));
    let open = |accept_restored| {
        let options = SqliteOptions {
            accept_restored,
            ..SqliteOptions::default()
        };
        Arc::new(SqliteStore::open(&data, options).unwrap())
    };
    let store = open(false);
    server.store = Arc::clone(&store) as Arc<dyn Store>;
    let engine = server.start().await;
    let running = create(&engine, json!({})).await.id.clone();
    pids(&server.file("pids"), 1);
    let queued = create(&engine, json!({})).await.id.clone();
    store.backup_to(&copy).await.unwrap();
    std::fs::write(server.file("go"), "").unwrap();
    outcome(&engine, &running).await;
    outcome(&engine, &queued).await;
    pids(&server.file("pids"), 2);
    clock.ahead_ms.store(365 * 86_400_000, Ordering::SeqCst);
    until("retention has removed both folders", || {
        server.attempts.tasks().unwrap().is_empty().then_some(())
    });
    engine.stop();
    drop((
        engine,
        std::mem::replace(&mut server.store, Arc::new(MemoryStore::new())),
    ));
    until("the engine has ended", || {
        (Arc::strong_count(&store) == 1).then_some(())
    });
    drop(store);
    for name in ["longhaul.db-wal", "longhaul.db-shm"] {
        let _ = std::fs::remove_file(data.join(name));
    }
    std::fs::copy(&copy, data.join("longhaul.db")).unwrap();

    let store = open(false);
    let found = store.disagreement().cloned();
    assert!(
        matches!(found, Some(Disagreement::DatabaseOlderThanRemovals { database: 0, .. })),
        "{found:?}"
    );
    server.store = ReadOnlyStore::unless_accepted(Arc::clone(&store));
    let engine = server.start().await;
    for id in [&running, &queued] {
        assert!(!engine.get(&scope(), id).await.unwrap().unwrap().task.is_done());
    }
    pids(&server.file("pids"), 2);
}
