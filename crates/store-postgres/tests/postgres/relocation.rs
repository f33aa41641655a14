//! Tasks of a data directory are moved here.

use crate::server::{Schema, Server};
use longhaul_core::{
    BoxFuture, HostId, Store, UnixMillis,
    store::{Claim, LeaseStore, QueueStore, TaskStore},
};
use longhaul_store::{
    Relocation, SqliteOpenError, SqliteOptions, SqliteStore,
    contract::{Subject, differential},
};
use longhaul_store_postgres::{MoveError, PostgresStore, abandon_move, move_tasks};
use std::{
    path::Path,
    sync::{Arc, OnceLock},
};
use tempfile::TempDir;

static SERVER: OnceLock<Server> = OnceLock::new();

/// A data directory that is moved before the last comparison.
struct Moved {
    store: Option<Arc<dyn Store>>,
    directory: TempDir,
    schema: Schema,
}

fn open(directory: &Path) -> Result<SqliteStore, SqliteOpenError> {
    SqliteStore::open(directory, SqliteOptions::default())
}

impl Subject for Moved {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn reopen(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            drop(self.store.take());
            self.store = Some(Arc::new(open(self.directory.path()).unwrap()));
        })
    }

    fn before_last_comparison(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            drop(self.store.take());
            let source = Relocation::open(self.directory.path(), "there").unwrap();
            let options = self.schema.options();
            move_tasks(source, &self.schema.address, &options, UnixMillis(1), |_| {})
                .await
                .unwrap();
            self.counts_agree().await;
            self.store = Some(Arc::new(self.schema.open().await));
        })
    }
}

impl Moved {
    /// A deletion takes away what its task has counted.
    async fn counts_agree(&self) {
        let (client, connection) = tokio_postgres::connect(&self.schema.address, tokio_postgres::NoTls)
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        let sql = format!(
            "SELECT (SELECT coalesce(sum(bytes), 0) FROM {0}.tasks)::bigint, (SELECT coalesce(sum(bytes), 0) FROM {0}.usage_in_all)::bigint",
            self.schema.name
        );
        let row = client.query_one(&sql, &[]).await.unwrap();
        let (of_tasks, in_all): (i64, i64) = (row.get(0), row.get(1));
        assert!(of_tasks > 0 && of_tasks == in_all, "{of_tasks} {in_all}");
        connection.abort();
    }
}

fn moved() -> BoxFuture<'static, Box<dyn Subject>> {
    Box::pin(async {
        let mut subject = Moved {
            store: None,
            directory: tempfile::tempdir().unwrap(),
            schema: Schema::new(SERVER.get().unwrap()),
        };
        subject.reopen().await;
        Box::new(subject) as Box<dyn Subject>
    })
}

/// Whatever a data directory has, the database has after the move.
#[tokio::test]
async fn everything_is_moved() {
    assert!(SERVER.set(Server::find().await).is_ok());
    for seed in [1, 2, 3] {
        differential::run_for(moved, seed, 1_000).await;
    }
}

/// A data directory with one task, and where it goes.
struct Case {
    directory: TempDir,
    schema: Schema,
}

impl Case {
    async fn new(server: &Server) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path()).unwrap();
        let node = crate::tasks::open_node(&store, "here").await;
        store.create(crate::tasks::new_task("one", node)).await.unwrap();
        Self {
            directory,
            schema: Schema::new(server),
        }
    }

    fn source(&self) -> Relocation {
        Relocation::open(self.directory.path(), "there").unwrap()
    }

    async fn move_tasks(&self) -> Result<u64, MoveError> {
        let options = self.schema.options();
        let moved = move_tasks(self.source(), &self.schema.address, &options, UnixMillis(5), |_| {}).await?;
        Ok(moved.tasks)
    }

    async fn has_task(&self, store: &PostgresStore) -> bool {
        store.get_unscoped(&crate::tasks::id("one")).await.unwrap().is_some()
    }
}

#[tokio::test]
async fn no_server_starts_on_a_directory_whose_tasks_were_moved() {
    let server = Server::find().await;
    let case = Case::new(&server).await;
    assert_eq!(case.move_tasks().await.unwrap(), 1);
    let refused = open(case.directory.path()).err().unwrap();
    assert!(matches!(refused, SqliteOpenError::Relocated { target, .. } if target == "there"));
    // What else is in the directory stays in use.
    let options = SqliteOptions {
        accept_relocated: true,
        ..SqliteOptions::default()
    };
    let local = SqliteStore::open(case.directory.path(), options).unwrap();
    let id = local.relocation().unwrap().id.clone();
    let store = case.schema.open().await;
    assert!(store.has_moved_here(&id).await.unwrap());
    assert!(!store.has_moved_here("another").await.unwrap());
    assert!(case.has_task(&store).await);
    drop(local);
    let again = Relocation::open(case.directory.path(), "there").unwrap_err();
    assert_eq!(again.to_string(), "the tasks were moved to there before");
}

/// At each step of a move, as a crash there leaves it.
#[tokio::test]
async fn a_move_that_was_interrupted_is_finished_or_abandoned() {
    let server = Server::find().await;
    let unfinished = |case: &Case| {
        let refused = open(case.directory.path()).err().unwrap();
        assert!(matches!(refused, SqliteOpenError::RelocationUnfinished { .. }));
    };

    // Before the copy was committed: it is made again, or the move is abandoned.
    let case = Case::new(&server).await;
    case.source().begin("a move").unwrap();
    unfinished(&case);
    let elsewhere = Relocation::open(case.directory.path(), "elsewhere").unwrap_err();
    assert!(
        elsewhere.to_string().contains("to there was not finished"),
        "{elsewhere}"
    );
    let options = case.schema.options();
    abandon_move(case.source(), &case.schema.address, &options)
        .await
        .unwrap();
    drop(open(case.directory.path()).unwrap());
    case.source().begin("another move").unwrap();
    assert_eq!(case.move_tasks().await.unwrap(), 1);
    assert!(case.has_task(&case.schema.open().await).await);

    // After it: it is found, and not made again, although the database has changed since.
    let case = Case::new(&server).await;
    case.move_tasks().await.unwrap();
    let store = case.schema.open().await;
    crate::tasks::open_node(&store, "another host").await;
    let file = case.directory.path().join("longhaul.db");
    let forget = "UPDATE relocation SET finished_at = NULL";
    rusqlite::Connection::open(file).unwrap().execute(forget, []).unwrap();
    unfinished(&case);
    let refused = abandon_move(case.source(), &case.schema.address, &case.schema.options()).await;
    assert!(matches!(refused, Err(MoveError::Committed)));
    assert_eq!(case.move_tasks().await.unwrap(), 1);
    assert!(matches!(
        open(case.directory.path()),
        Err(SqliteOpenError::Relocated { .. })
    ));
}

/// What cannot be moved stays as it is, and in use.
#[tokio::test]
async fn a_move_that_fails_changes_nothing() {
    let server = Server::find().await;
    let case = Case::new(&server).await;
    let store = case.schema.open().await;
    crate::tasks::open_node(&store, "somebody's").await;
    let refused = case.move_tasks().await.unwrap_err();
    assert!(matches!(refused, MoveError::NotEmpty(_)), "{refused}");
    drop(open(case.directory.path()).unwrap());

    // The database refuses a row: here for a value that this release never wrote.
    let case = Case::new(&server).await;
    let file = case.directory.path().join("longhaul.db");
    let damage = "UPDATE tasks SET origin = 70000";
    rusqlite::Connection::open(file).unwrap().execute(damage, []).unwrap();
    let refused = case.move_tasks().await.unwrap_err();
    assert!(matches!(refused, MoveError::Database(_)), "{refused}");
    drop(open(case.directory.path()).unwrap());
    let store = case.schema.open().await;
    assert!(!case.has_task(&store).await);
}

/// Commands that run keep running: their host has the usual time to take them back.
#[tokio::test]
async fn the_host_of_a_data_directory_adopts_its_commands_after_the_move() {
    let server = Server::find().await;
    let case = Case::new(&server).await;
    let store = open(case.directory.path()).unwrap();
    let host = store.host_id().clone();
    let lease = store.open_node(&host.clone().into(), UnixMillis(0)).await.unwrap();
    let claim = Claim {
        tool: "tool".into(),
        node: lease.node,
        host: Some(host.clone()),
        limit: 1,
        at: UnixMillis(2),
        rate: None,
    };
    let claimed = store.claim(claim).await.unwrap();
    assert_eq!(claimed.len(), 1);
    drop(store);
    let options = case.schema.options();
    let moved = move_tasks(case.source(), &case.schema.address, &options, UnixMillis(5), |_| {})
        .await
        .unwrap();
    assert_eq!(moved.running_commands, [crate::tasks::id("one")]);
    let store = case.schema.open().await;
    let other = HostId("other".into());
    let lease = store.open_node(&other.clone().into(), UnixMillis(6)).await.unwrap();
    let lost = store
        .reclaim(lease.node, &other, 600_000, 10, UnixMillis(6))
        .await
        .unwrap();
    assert!(lost.is_empty(), "the host was away for no time");
    let lease = store.open_node(&host.clone().into(), UnixMillis(6)).await.unwrap();
    let adopted = store.adopt(lease.node, &host, 10, UnixMillis(6)).await.unwrap();
    assert_eq!(adopted.len(), 1);
}
