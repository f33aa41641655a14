//! Events in an SQLite file, which a later process can read.
//!
//! One thread owns the connection. It takes what waits in its queue in one transaction. A commit is not synced: events survive the end of the process,
//! and a loss of power may cost the latest ones.

use longhaul_core::{BoxFuture, EventLimits, EventStore, EventStream, KeptEvent, SessionKey, UnixMillis};
use longhaul_private_dir::PrivateDir;
use rusqlite::{Connection, params};
use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread::{Builder, JoinHandle},
};
use tokio::sync::{mpsc, oneshot};

const FILE: &str = "events.db";
/// Changes that wait for the thread; further ones wait to enter.
const QUEUE: usize = 256;
/// Changes in one transaction.
const BATCH: usize = 256;
/// The layout of the file.
const VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS event (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL,
        stream TEXT NOT NULL,
        nth INTEGER NOT NULL,
        at INTEGER NOT NULL,
        message TEXT NOT NULL
    );
    CREATE UNIQUE INDEX IF NOT EXISTS event_of_stream ON event (session, stream, nth);
    CREATE INDEX IF NOT EXISTS event_by_age ON event (at);
";

/// Keeps events in a file, so that they survive the process. The file belongs to one process at a time.
pub struct SqliteEventStore {
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenEventStoreError {
    /// Its directory cannot be used.
    #[error("the directory of the event store {path}: {source}", path = .path.display())]
    Directory {
        /// The directory.
        path: std::path::PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no event store, or the disk has failed.
    #[error("the event store `{FILE}`: {0}")]
    Database(#[from] rusqlite::Error),
    /// A later version has written it.
    #[error(
        "the event store `{FILE}` has layout {0}, and this version knows layout {VERSION}: remove the file, or use the version that wrote it"
    )]
    Newer(i64),
}

enum Request {
    Append {
        stream: EventStream,
        event: KeptEvent,
        now: UnixMillis,
    },
    EndSession(SessionKey),
    Read {
        stream: EventStream,
        now: UnixMillis,
        answer: oneshot::Sender<io::Result<Vec<KeptEvent>>>,
    },
}

impl SqliteEventStore {
    /// Opens the file `events.db` in this directory, which is created if needed; a server's data directory will do. Blocks while it is opened.
    ///
    /// # Errors
    /// [`OpenEventStoreError`]
    pub fn open(directory: &Path, limits: EventLimits) -> Result<Self, OpenEventStoreError> {
        let at = |source| OpenEventStoreError::Directory {
            path: directory.to_owned(),
            source,
        };
        let private = PrivateDir::create(directory).map_err(at)?;
        // Made here, so that only this user can read it. SQLite's other files get the same mode.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        private.file(FILE, &options).map_err(at)?;
        let file = EventFile::open(&private.path().join(FILE), limits)?;
        let (queue, requests) = mpsc::channel(QUEUE);
        let thread = Builder::new()
            .name("longhaul-events".to_owned())
            .spawn(move || run(file, requests))
            .map_err(at)?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    async fn send(&self, request: Request) -> io::Result<()> {
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.send(request).await.map_err(|_| closed())
    }
}

/// Writes what waits.
impl Drop for SqliteEventStore {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn closed() -> io::Error {
    io::Error::other("the event store has failed")
}

impl EventStore for SqliteEventStore {
    fn append<'a>(
        &'a self,
        stream: &'a EventStream,
        event: KeptEvent,
        now: UnixMillis,
    ) -> BoxFuture<'a, io::Result<()>> {
        let stream = stream.clone();
        Box::pin(self.send(Request::Append { stream, event, now }))
    }

    fn read<'a>(&'a self, stream: &'a EventStream, now: UnixMillis) -> BoxFuture<'a, io::Result<Vec<KeptEvent>>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let stream = stream.clone();
            self.send(Request::Read { stream, now, answer }).await?;
            answered.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    fn end_session<'a>(&'a self, session: &'a SessionKey) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(self.send(Request::EndSession(session.clone())))
    }
}

/// Works until the store is dropped.
fn run(mut file: EventFile, mut requests: mpsc::Receiver<Request>) {
    while let Some(first) = requests.blocking_recv() {
        let more = std::iter::from_fn(|| requests.try_recv().ok()).take(BATCH - 1);
        let batch: Vec<Request> = std::iter::once(first).chain(more).collect();
        // Without what it could not write, a stream has a gap, and its readers are told that it is not kept.
        if let Err(error) = file.apply(batch) {
            tracing::warn!(%error, "events could not be kept; clients cannot get them again after a restart");
        }
    }
}

/// The open file.
struct EventFile {
    database: Connection,
    limits: EventLimits,
    /// Bytes of all messages.
    bytes: u64,
}

impl EventFile {
    fn open(path: &Path, limits: EventLimits) -> Result<Self, OpenEventStoreError> {
        let mut database = Connection::open(path)?;
        database.pragma_update(None, "journal_mode", "wal")?;
        database.pragma_update(None, "synchronous", "normal")?;
        let setup = database.transaction()?;
        let version: i64 = setup.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version > VERSION {
            return Err(OpenEventStoreError::Newer(version));
        }
        setup.execute_batch(SCHEMA)?;
        setup.pragma_update(None, "user_version", VERSION)?;
        setup.commit()?;
        let bytes = total(&database)?;
        Ok(Self {
            database,
            limits,
            bytes,
        })
    }

    fn apply(&mut self, batch: Vec<Request>) -> rusqlite::Result<()> {
        let mut reads = Vec::new();
        let changed = self.write(batch, &mut reads);
        if changed.is_err() {
            // The transaction was rolled back.
            self.bytes = total(&self.database).unwrap_or(self.bytes);
        }
        for (stream, now, answer) in reads {
            let events = self.events(&stream, now).map_err(io::Error::other);
            // Nobody may be waiting any more.
            let _ = answer.send(events);
        }
        changed
    }

    fn write(&mut self, batch: Vec<Request>, reads: &mut Vec<ReadRequest>) -> rusqlite::Result<()> {
        let (limits, mut bytes) = (self.limits, self.bytes);
        let transaction = self.database.transaction()?;
        let mut failed = None;
        for request in batch {
            let change = match request {
                Request::Append { stream, event, now } => {
                    append(&transaction, limits, &mut bytes, &stream, &event, now)
                }
                Request::EndSession(session) => remove(
                    &transaction,
                    &mut bytes,
                    "DELETE FROM event WHERE session = ?1 RETURNING length(CAST(message AS BLOB))",
                    [session.as_str()],
                ),
                Request::Read { stream, now, answer } => {
                    reads.push((stream, now, answer));
                    Ok(())
                }
            };
            failed = failed.or(change.err());
        }
        if let Some(error) = failed {
            return Err(error);
        }
        transaction.commit()?;
        self.bytes = bytes;
        Ok(())
    }

    fn events(&self, stream: &EventStream, now: UnixMillis) -> rusqlite::Result<Vec<KeptEvent>> {
        let mut select = self.database.prepare_cached(
            "SELECT nth, message FROM event WHERE session = ?1 AND stream = ?2 AND ?3 - at < ?4 ORDER BY nth",
        )?;
        let found = params![stream.session.as_str(), &*stream.name, now.0, self.limits.age];
        let rows = select.query_map(found, |row| {
            Ok(KeptEvent {
                nth: row.get::<_, i64>(0)?.unsigned_abs(),
                message: row.get::<_, String>(1)?.into(),
            })
        })?;
        rows.collect()
    }
}

type ReadRequest = (EventStream, UnixMillis, oneshot::Sender<io::Result<Vec<KeptEvent>>>);

fn total(database: &Connection) -> rusqlite::Result<u64> {
    let sum = "SELECT coalesce(sum(length(CAST(message AS BLOB))), 0) FROM event";
    database.query_row(sum, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
}

/// Keeps an event, and drops what is above the limits.
fn append(
    database: &Connection,
    limits: EventLimits,
    bytes: &mut u64,
    stream: &EventStream,
    event: &KeptEvent,
    now: UnixMillis,
) -> rusqlite::Result<()> {
    let (session, name) = (stream.session.as_str(), &*stream.name);
    // No stream has more than 2^32 events.
    let nth = event.nth.cast_signed();
    let first_kept = (nth + 1).saturating_sub_unsigned(limits.events_of_stream.max(1));
    let outside = "DELETE FROM event WHERE session = ?1 AND stream = ?2 AND (nth < ?3 OR nth = ?4) \
                   RETURNING length(CAST(message AS BLOB))";
    remove(database, bytes, outside, params![session, name, first_kept, nth])?;
    let old = "DELETE FROM event WHERE at <= ?1 RETURNING length(CAST(message AS BLOB))";
    remove(database, bytes, old, [now.0.saturating_sub(limits.age)])?;
    let insert = "INSERT INTO event (session, stream, nth, at, message) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = database.prepare_cached(insert)?;
    insert.execute(params![session, name, nth, now.0, &*event.message])?;
    *bytes += event.message.len() as u64;
    while *bytes > limits.bytes {
        let oldest = "DELETE FROM event WHERE id = (SELECT min(id) FROM event) RETURNING length(CAST(message AS BLOB))";
        remove(database, bytes, oldest, [])?;
    }
    Ok(())
}

/// Deletes events; `delete` returns their lengths.
fn remove(database: &Connection, bytes: &mut u64, delete: &str, params: impl rusqlite::Params) -> rusqlite::Result<()> {
    let mut delete = database.prepare_cached(delete)?;
    let lengths = delete.query_map(params, |row| row.get::<_, i64>(0))?;
    for length in lengths {
        *bytes = bytes.saturating_sub(length?.unsigned_abs());
    }
    Ok(())
}
