//! One SQLite file in one directory.
//!
//! The way of a change: the caller's future sends an operation to the writer thread (`change`), which runs all waiting operations in one
//! transaction, commits it with an fsync, and only then answers their callers. Reads do not pass the writer: they use connections of their
//! own (`query`), which see what was committed when they begin.

mod backup;
mod change;
mod connection;
mod directory;
mod directory_report;
mod open_error;
mod options;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod power_loss;
mod query;
mod relocation;
mod schema;
mod store;

pub use backup::{CopyError, DatabaseCopy};
pub use connection::fault_injection::InjectedFault;
pub use directory::{STOPPING, node_file::Disagreement, reserve::RESERVE_FILE};
pub use directory_report::DirectoryReport;
pub use open_error::SqliteOpenError;
pub use options::{EXIT_COMMIT_FAILED, OnFatal, RESERVE_BYTES, SqliteOptions};
pub use relocation::{Relocation, RelocationError, RelocationRecord};

use change::{
    Needs, Tx,
    commit_effects::PublishedState,
    operation::PendingOperation,
    write,
    writer::{Message, Writer},
};
use connection::Fault;
use directory::{Directory, NodeFile, Reserve};
use longhaul_core::{HostId, NodeId, Principal, UnixMillis, store::StoreError};
use parking_lot::Mutex;
use query::{read, readers::Readers};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::{Builder, JoinHandle},
};
use tokio::sync::oneshot;

/// The database's name in the data directory.
const DATABASE: &str = "longhaul.db";

/// Tasks in one SQLite file, in a data directory that this process owns.
///
/// Every acknowledged change has been committed with `synchronous = FULL` on a write-ahead log: it survives the end of the
/// process at any instruction, and the loss of power as far as the disk keeps what it confirmed. Dropping the
/// store finishes what is queued and releases the directory.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul_store::{SqliteOptions, SqliteStore};
/// let directory = tempfile::tempdir()?;
/// let store = SqliteStore::open(directory.path(), SqliteOptions::default())?;
/// store.describe_owner("http://127.0.0.1:7411/mcp")?;
/// # Ok(())
/// # }
/// ```
pub struct SqliteStore {
    // Dropped in this order: readers, then the writer, whose connection is the last and removes the log, then the lock.
    readers: Option<Readers>,
    queue: mpsc::Sender<Message>,
    in_flight: Arc<AtomicUsize>,
    writer: Option<JoinHandle<()>>,
    published: Arc<PublishedState>,
    path: PathBuf,
    host: HostId,
    node_file: NodeFile,
    disagreement: Option<Disagreement>,
    relocation: Option<RelocationRecord>,
    /// The latest start through this store. Locked while a start or a removal is being recorded.
    node: tokio::sync::Mutex<Option<OpenedNode>>,
    reserve: Arc<Reserve>,
    directory: Mutex<Directory>,
}

/// A start that is recorded in the database and in the file `node`.
struct OpenedNode {
    id: NodeId,
    /// How often it has removed folders of attempts, by the database.
    removals: i64,
    /// Whether the file has the same number. If not, it has one less.
    file_agrees: bool,
}

impl SqliteStore {
    /// Opens the store in `directory`, creating both if need be, and owns the directory from then on.
    ///
    /// Waits about two seconds until another process has released it. Blocks; call it before the server runs.
    ///
    /// # Errors
    /// [`SqliteOpenError`], in words for the person who started the server.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<Self, SqliteOpenError> {
        let given = directory;
        let directory = Directory::own(given)?;
        let path = directory.database()?;
        let host = directory.host_id()?;
        let reserve = Arc::new(directory.reserve(options.reserve_bytes)?);
        let connection = connection::writer(&path, options.injected_fault)?;
        let failed = |error| schema::because(error, &path);
        let relocation = relocation::read_record(&connection).map_err(failed)?;
        relocation::check(relocation.as_ref(), given, options.accept_relocated)?;
        let node_file = directory.node_file();
        let disagreement = match node_file.disagreement(read::latest_node(&connection).map_err(failed)?)? {
            Some(why) if options.accept_restored => {
                tracing::warn!("{why}; it is accepted all the same");
                None
            }
            found => found,
        };
        let published = Arc::new(PublishedState::load(&connection).map_err(failed)?);
        let readers = Readers::open(&path)?;
        let database_file_check = directory.database_file_check(&path)?;
        reserve.take();
        let (queue, incoming) = mpsc::channel();
        let in_flight = Arc::new(AtomicUsize::new(0));
        let writer = Writer::new(
            connection,
            incoming,
            in_flight.clone(),
            published.clone(),
            reserve.clone(),
            database_file_check,
            options,
        )
        .map_err(failed)?;
        let writer = Builder::new()
            .name("longhaul-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| SqliteOpenError::Io {
                action: "start the writer of",
                path: path.clone(),
                source,
            })?;
        Ok(Self {
            readers: Some(readers),
            queue,
            in_flight,
            writer: Some(writer),
            published,
            path,
            host,
            node_file,
            disagreement,
            relocation,
            node: tokio::sync::Mutex::default(),
            reserve,
            directory: Mutex::new(directory),
        })
    }

    /// Whether the store in `directory` has tasks of a principal. Another process may have it open; creates no store.
    ///
    /// # Errors
    /// [`SqliteOpenError`].
    pub fn has_tasks_of(directory: &Path, principal: &Principal) -> Result<bool, SqliteOpenError> {
        // As when it is opened: a link in the path is followed, but not one in place of the file.
        let Ok(directory) = directory.canonicalize() else {
            return Ok(false);
        };
        let path = directory.join(DATABASE);
        if !path.exists() {
            return Ok(false);
        }
        let connection = connection::reader(&path)?;
        read::has_tasks_of(&connection, principal).map_err(|error| schema::because(error, &path))
    }

    /// Why the database is not taken for the latest one of its directory; `None` if it is, or was
    /// [accepted](SqliteOptions::accept_restored). While there is a reason, no node is opened on it.
    pub fn disagreement(&self) -> Option<&Disagreement> {
        self.disagreement.as_ref()
    }

    /// Where the tasks were moved to, if they were: what this store has is out of date.
    pub fn relocation(&self) -> Option<&RelocationRecord> {
        self.relocation.as_ref()
    }

    /// The id of this host, which the file `host` in the data directory keeps from start to start. A copy of the directory has the same id.
    pub fn host_id(&self) -> &HostId {
        &self.host
    }

    /// Identifies the data directory until the machine is booted again; `None` if the system does not say. A copy of the directory has another one: see
    /// [`NewNode::directory`](longhaul_core::store::NewNode::directory).
    pub fn directory_identity(&self) -> Option<Arc<str>> {
        self.directory.lock().identity()
    }

    /// The latest node that was opened; the number 0 if none was.
    ///
    /// # Errors
    /// The store's.
    pub async fn latest_node(&self) -> Result<NodeId, StoreError> {
        let latest = self.readers()?.at_once(read::latest_node)?;
        Ok(NodeId(latest.id))
    }

    /// Records a start in the file `node`, then in the database, then in the file that it is complete. Work may begin once this returns.
    async fn begin_node(&self, host: HostId, at: UnixMillis) -> Result<NodeId, StoreError> {
        if self.disagreement.is_some() {
            return Err(StoreError::ReadOnly);
        }
        let mut opened = self.node.lock().await;
        let latest = self.readers()?.at_once(read::latest_node)?;
        let node = self.note(|file| file.note_opening(latest))?;
        let write = move |tx: &mut Tx<'_>| write::open_node(tx, node, &host, at);
        let node: NodeId = self.write_when(NEEDS_ROOM, write).await?;
        self.note(|file| file.note_opened(node, 0))?;
        *opened = Some(OpenedNode {
            id: node,
            removals: 0,
            file_agrees: true,
        });
        Ok(node)
    }

    /// Records a removal of attempt folders in the database, then in the file `node`: see `node_file`.
    async fn record_removal(&self) -> Result<(), StoreError> {
        if self.disagreement.is_some() {
            return Err(StoreError::ReadOnly);
        }
        let mut opened = self.node.lock().await;
        // Without a start through this store no attempt runs, and the next start is recorded by itself.
        let Some(node) = opened.as_mut() else { return Ok(()) };
        if !node.file_agrees {
            // The last removal was recorded in the database alone. Copies taken since then have its number, so this one needs another.
            self.note_removals(node)?;
        }
        let (id, removals) = (node.id, node.removals + 1);
        self.write_when::<(), StoreError, _>(NEEDS_ROOM, move |tx| write::set_removals(tx, id, removals))
            .await?;
        node.removals = removals;
        node.file_agrees = false;
        self.note_removals(node)
    }

    fn note_removals(&self, node: &mut OpenedNode) -> Result<(), StoreError> {
        self.note(|file| file.note_opened(node.id, node.removals))?;
        node.file_agrees = true;
        Ok(())
    }

    /// Writes the file `node`, which a start and a deletion need.
    fn note<T>(&self, write: impl Fn(&NodeFile) -> io::Result<T>) -> Result<T, StoreError> {
        loop {
            match write(&self.node_file).map_err(not_noted) {
                Err(StoreError::Full) if self.reserve.release() => {}
                written => return written,
            }
        }
    }

    /// Records in the file `node` that this directory comes from a backup that was taken at `taken`: the next start on it must
    /// [accept](SqliteOptions::accept_restored) that. Call it after all changes, with a node open.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn mark_restored(&self, taken: UnixMillis) -> Result<(), StoreError> {
        let opened = self.node.lock().await;
        let node = opened.as_ref().ok_or(StoreError::ReadOnly)?;
        self.node_file
            .note_restored(node.id, node.removals, taken)
            .map_err(not_noted)
    }

    /// Writes `note`, such as the address of the server, into the lock file, where the next process that wants the directory
    /// finds it and can name us: `pid 123, http://127.0.0.1:7411/mcp`.
    ///
    /// # Errors
    /// When the lock file cannot be written.
    pub fn describe_owner(&self, note: &str) -> io::Result<()> {
        let mut directory = self.directory.lock();
        directory.describe_owner(note)
    }

    /// Writes into the lock file that this process stops: the next one that wants the directory waits for ten seconds then, and not for two.
    ///
    /// # Errors
    /// When the lock file cannot be written.
    pub fn describe_stop(&self) -> io::Result<()> {
        self.directory.lock().describe_stop()
    }

    /// Copies the store, as it is at one moment, into the new file `path`, while work goes on. The copy is a complete database:
    /// as `longhaul.db` in an empty data directory it can be opened, and used once it is [accepted](SqliteOptions::accept_restored).
    ///
    /// # Errors
    /// [`StoreError::Full`] without room; [`StoreError::Failed`] when `path` exists or cannot be written.
    pub async fn backup_to(&self, path: &Path) -> Result<(), StoreError> {
        let (from, to) = (self.path.clone(), path.to_owned());
        let (waiting, answer) = oneshot::channel();
        Builder::new()
            .name("longhaul-backup".to_owned())
            .spawn(move || {
                let _ = waiting.send(backup::copy(&from, &to));
            })
            .map_err(|error| StoreError::Failed(format!("cannot start the backup: {error}")))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    fn readers(&self) -> Result<&Readers, StoreError> {
        self.readers.as_ref().ok_or(StoreError::Closed)
    }

    /// Sends a change of about `weight` bytes to the writer and waits for its answer. Once sent, the change is made even if this future
    /// is dropped.
    async fn write<T, E, W>(&self, weight: usize, work: W) -> Result<T, E>
    where
        W: FnMut(&mut Tx<'_>) -> rusqlite::Result<Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let needs = Needs {
            size_hint_bytes: weight,
            ..Needs::default()
        };
        self.write_when(needs, work).await
    }

    /// As [`write`](Self::write), with all that the writer is to know.
    async fn write_when<T, E, W>(&self, needs: Needs, work: W) -> Result<T, E>
    where
        W: FnMut(&mut Tx<'_>) -> rusqlite::Result<Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (operation, answer) = PendingOperation::new(needs, work);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.queue
            .send(Message::Execute(Box::new(operation)))
            .map_err(|_| StoreError::Closed)?;
        let unknown = || StoreError::OutcomeUnknown("the store stopped before it knew".to_owned());
        answer.await.map_err(|_| unknown())?
    }
}

/// A change without a payload that must be possible on a full disk.
const NEEDS_ROOM: Needs = Needs {
    size_hint_bytes: 0,
    can_be_deferred: false,
    may_use_reserve: true,
};

/// As for a change of the database.
fn not_noted(error: io::Error) -> StoreError {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => StoreError::Full,
        (_, Some(errno)) => StoreError::Disk(errno),
        (_, None) => StoreError::Failed(format!(
            "the file `node` of the data directory cannot be written: {error}"
        )),
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.readers = None;
        let _ = self.queue.send(Message::Close);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}
