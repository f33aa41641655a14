//! What a loss of power leaves is all that was acknowledged.
//!
//! `kill -9` cannot show this, because the page cache survives it. So after each commit the
//! tests ask SQLite whether it has synced the log. What the file held then is the least that a later loss of power leaves.

mod cases;
mod concurrent;
mod random_run;

use super::{SqliteOptions, SqliteStore};
use crate::contract::fixture::{change, fence, host, new_task, spec};
use longhaul_core::{
    Event, NodeId, Task, TaskId, UnixMillis,
    store::{LeaseStore, NewTask, QueueStore, TaskStore},
};
use rusqlite::Connection;
use std::{
    collections::HashMap,
    fs,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
};
use tempfile::TempDir;

const DATABASE: &str = "longhaul.db";
const LOG: &str = "longhaul.db-wal";
const LOG_HEADER: u64 = 32;

/// What is certain to be on the disk.
#[derive(Default)]
struct SyncedState {
    /// How often the log was synced by a commit.
    times: u64,
    /// The version of each task.
    tasks: HashMap<TaskId, u64>,
    nodes: i64,
    sessions: i64,
    /// The files, if they are kept.
    database: Vec<u8>,
    log: Vec<u8>,
}

/// Watches the commits of a store.
struct Disk {
    directory: TempDir,
    keeps_files: bool,
    /// The length and the header of the log after the latest commit: a log that was truncated begins with another header.
    log: Mutex<(u64, Vec<u8>)>,
    synced: Mutex<SyncedState>,
}

impl Disk {
    fn new(keeps_files: bool) -> Arc<Self> {
        Arc::new(Self {
            directory: tempfile::tempdir().unwrap(),
            keeps_files,
            log: Mutex::default(),
            synced: Mutex::default(),
        })
    }

    fn open(self: &Arc<Self>) -> Arc<SqliteStore> {
        // Closing has removed the log.
        *self.log.lock().unwrap() = (0, Vec::new());
        Arc::new(SqliteStore::open(self.directory.path(), self.options()).unwrap())
    }

    fn options(self: &Arc<Self>) -> SqliteOptions {
        let disk = Arc::clone(self);
        SqliteOptions {
            on_commit: Some(Arc::new(move |connection: &Connection| disk.committed(connection))),
            ..SqliteOptions::default()
        }
    }

    fn synced(&self) -> MutexGuard<'_, SyncedState> {
        self.synced.lock().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A transaction that wrote nothing is never synced.
    fn committed(&self, connection: &Connection) {
        let file = fs::File::open(self.file(LOG)).unwrap();
        let length = file.metadata().unwrap().len();
        let mut header = Vec::new();
        file.take(LOG_HEADER).read_to_end(&mut header).unwrap();
        let log = (length, header);
        let has_written = std::mem::replace(&mut *self.log.lock().unwrap(), log.clone()) != log;
        let level: i64 = connection
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .unwrap();
        if level < 2 || !has_written {
            return;
        }
        let mut synced = self.synced();
        synced.times += 1;
        synced.tasks = tasks(connection);
        synced.nodes = count(connection, "nodes");
        synced.sessions = count(connection, "ended_sessions");
        if self.keeps_files {
            synced.database = fs::read(self.file(DATABASE)).unwrap();
            let mut log = fs::File::open(self.file(LOG)).unwrap();
            log.seek(SeekFrom::Start(synced.log.len() as u64)).unwrap();
            log.read_to_end(&mut synced.log).unwrap();
        }
    }

    /// Files as a loss of power may leave them now: any part of what was not synced may be missing.
    fn after_a_loss_of_power(&self, rng: &mut fastrand::Rng) -> TempDir {
        let left = tempfile::tempdir().unwrap();
        let synced = self.synced();
        // Later writes only append to it.
        let mut log = fs::read(self.file(LOG)).unwrap();
        let certain = synced.log.len();
        assert_eq!(log[..certain], synced.log, "the log has not started over");
        log.truncate(certain + rng.usize(0..=log.len() - certain));
        for sector in log[certain..].chunks_mut(512) {
            if rng.u8(0..8) == 0 {
                sector.fill(0);
            }
        }
        fs::write(left.path().join(DATABASE), &synced.database).unwrap();
        fs::write(left.path().join(LOG), log).unwrap();
        left
    }
}

fn tasks(connection: &Connection) -> HashMap<TaskId, u64> {
    let mut statement = connection.prepare_cached("SELECT id, version FROM tasks").unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?.parse().unwrap(), row.get::<_, i64>(1)? as u64));
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

fn count(connection: &Connection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    connection.query_row(&sql, [], |row| row.get(0)).unwrap()
}

/// What is committed, synced or not.
fn now<T>(store: &SqliteStore, read: impl FnOnce(&Connection) -> T) -> T {
    store
        .readers()
        .unwrap()
        .at_once(|connection| Ok(read(connection)))
        .unwrap()
}

/// A store with a node, and the disk below it.
struct World {
    disk: Arc<Disk>,
    store: Arc<SqliteStore>,
    node: NodeId,
}

fn nth_id(nth: usize) -> TaskId {
    format!("t{nth:04}").parse().unwrap()
}

impl World {
    /// A store with a definition and a node.
    async fn new(keeps_files: bool) -> Self {
        let disk = Disk::new(keeps_files);
        let store = disk.open();
        store.put_spec(spec("spec")).await.unwrap();
        let node = store.open_node(&host().into(), UnixMillis(0)).await.unwrap().node;
        Self { disk, store, node }
    }

    fn new_call(&self, nth: usize) -> NewTask {
        let mut new = new_task("any", self.node, 1);
        new.header.id = nth_id(nth);
        new.announced = false;
        new.claim = Some((self.node, None));
        new
    }

    async fn create(&self, new: NewTask) -> Task {
        self.store.create(new).await.unwrap().into_task()
    }

    /// Applies an event of the attempt.
    async fn apply(&self, task: &Task, event: Event) -> Option<Task> {
        let fence = event.needs_fence().then(|| fence(task));
        self.store.apply(change(&task.id, fence, vec![event], 2)).await.ok()
    }
}
