//! Opening the file: a private one in a private directory.
//!
//! SQLite's locks belong to the process, and closing any descriptor of the file releases them. So this module opens the database itself
//! only to create it, while no other thread opens one; everything else it learns from the path.

pub(crate) mod crash_point;
pub(crate) mod process_lock;
pub(crate) mod schema;

use crate::{file::process_lock::ProcessLocks, refusal::because};
use longhaul_client::JournalError;
use longhaul_private_dir::{PrivateDir, is_at, make_file_private};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    fs::{self, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a change waits for those of other processes, each of which takes one fsync.
const BUSY: Duration = Duration::from_secs(10);
/// The same during one attempt to open the file. Some steps fail at once when another process opens it too, so there are several attempts.
const BUSY_AT_OPEN: Duration = Duration::from_millis(200);
const OPEN_ATTEMPTS: u32 = 40;
const OPEN_RETRY_DELAY: Duration = Duration::from_millis(10);
/// A log that once grew larger is cut back to this. Bytes.
const LOG_KEPT: i64 = 4 << 20;
const STATEMENTS: usize = 64;
/// The directory of the locks that show which processes live.
const PROCESSES: &str = "processes";

/// One opening at a time in this process.
static OPENING: Mutex<()> = Mutex::new(());

/// An open journal.
#[derive(Debug)]
pub(crate) struct JournalFile {
    /// Without links.
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) locks: ProcessLocks,
    placed: OpenedFiles,
}

impl JournalFile {
    /// Opens the file, creating it and its directory if need be.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        let _opening = OPENING.lock();
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| match error.kind() {
                io::ErrorKind::StorageFull => JournalError::Full { path },
                _ => unusable(&path, &error.to_string()),
            }
        };
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(unusable(path, "it is no path of a file"));
        };
        if matches!(folder.to_str(), Some("" | ".")) {
            // It would become private with all that is in it.
            let reason = "it must be in a folder of its own, such as `journal/handles.db`: all permissions of other users are removed from that folder";
            return Err(unusable(path, reason));
        }
        // One after the other, so that the name of each is on disk.
        // The last ancestor of a relative path is empty: the current folder.
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let missing = folder.ancestors().skip(1).take_while(is_missing);
        for folder in missing.collect::<Vec<_>>().into_iter().rev() {
            PrivateDir::create(folder).map_err(at(folder))?;
        }
        let dir = PrivateDir::create(folder).map_err(at(folder))?;
        let processes = dir.subdirectory(PROCESSES).map_err(at(&dir.path().join(PROCESSES)))?;
        let path = dir.path().join(name);
        check_files(&path)?;
        create(&dir, &path).map_err(at(&path))?;
        crash_point::reached();
        let connection = connect(&path)?;
        crash_point::reached();
        let placed = OpenedFiles::note(&path).map_err(at(&path))?;
        Ok(Self {
            path,
            connection,
            locks: ProcessLocks::new(processes),
            placed,
        })
    }

    /// Whether commits go to the files that the next process will open. SQLite goes on writing to files that were removed.
    pub(crate) fn check_in_place(&self) -> Result<(), JournalError> {
        self.placed.check()
    }
}

/// The files that commits go to, as they were when they were opened.
#[derive(Debug)]
struct OpenedFiles([(PathBuf, Metadata); 2]);

impl OpenedFiles {
    fn note(database: &Path) -> io::Result<Self> {
        let log = beside(database, "-wal");
        let (found, found_log) = (fs::metadata(database)?, fs::metadata(&log)?);
        Ok(Self([(database.to_owned(), found), (log, found_log)]))
    }

    fn check(&self) -> Result<(), JournalError> {
        for (path, metadata) in &self.0 {
            if let Ok(false) = is_at(metadata, path) {
                return Err(JournalError::Replaced { path: path.clone() });
            }
        }
        Ok(())
    }
}

fn unusable(path: &Path, reason: &str) -> JournalError {
    JournalError::Unusable {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Checks the files that SQLite will open, as far as they are there.
fn check_files(database: &Path) -> Result<(), JournalError> {
    // The log first: another process may be creating both, and writes to the log once the database is not empty.
    let log = check_private(&beside(database, "-wal"))?;
    let length = check_private(database)?;
    check_private(&beside(database, "-shm"))?;
    check_private(&beside(database, "-journal"))?;
    // SQLite would take it for a new database, and delete the log.
    if length == Some(0) && log.is_some_and(|length| length > 0) {
        return Err(JournalError::Corrupt {
            path: database.to_owned(),
            detail: "it is empty, and the write-ahead log beside it is not".to_owned(),
        });
    }
    Ok(())
}

/// Returns the length of a file that this user owns and nobody else can write to; `None` if there is none. Others may not read it either.
fn check_private(path: &Path) -> Result<Option<u64>, JournalError> {
    let failed = |error: io::Error| unusable(path, &error.to_string());
    make_file_private(path).map_err(failed)?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.size())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Creates an empty private file, if there is none, in such a way that its name survives a crash. SQLite gives its other files the same mode.
fn create(dir: &PrivateDir, path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    match options.open(path) {
        Ok(_) => dir.sync(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "on a thread for blocking work; SQLite's own wait for a lock does not cover each step of opening"
)]
fn connect(path: &Path) -> Result<Connection, JournalError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match try_to_connect(path) {
            Err(JournalError::Busy { .. }) if attempts < OPEN_ATTEMPTS => std::thread::sleep(OPEN_RETRY_DELAY),
            done => return done,
        }
    }
}

fn try_to_connect(path: &Path) -> Result<Connection, JournalError> {
    let failed = |error| because(&error, path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_AT_OPEN).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Before the first statement that writes: the file may be another program's.
    schema::check(&connection, path)?;
    let set_up = |connection: &Connection| {
        // A process that ends has no time for a checkpoint. An answer that was deleted must not remain in a free page.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
             PRAGMA journal_size_limit = {LOG_KEPT}; PRAGMA secure_delete = ON; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
        ))
    };
    set_up(&connection).map_err(failed)?;
    schema::migrate(&mut connection, path)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    Ok(connection)
}
