//! The data directory: private, local, and owned by one process. Beside the database it has the files `lock`, `host`, `node` and `reserve`.

pub(super) mod database_file_check;
mod filesystem;
mod host_file;
pub(super) mod node_file;
pub(super) mod reserve;

pub(super) use self::{node_file::NodeFile, reserve::Reserve};

use super::{DATABASE, SqliteOpenError};
use database_file_check::DatabaseFileCheck;
use longhaul_core::{HostId, plain_line};
use longhaul_private_dir::{PrivateDir, check_file, is_at, open_named, read_named_text};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How often a new process tries to take the lock of an old one: a deploy may overlap a little.
const LOCK_ATTEMPTS: u32 = 40;
/// The same while the old one stops: its calls have some seconds to end.
const ATTEMPTS_AT_A_STOP: u32 = 200;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(50);
const LOCK: &str = "lock";
/// How the line of a process in the lock file of a data directory ends that is about to release it.
pub const STOPPING: &str = "it is stopping";
/// What SQLite keeps beside a database. It opens these itself.
const SIDECARS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A directory that this process owns until the value is dropped, or the process ends, however it ends.
///
/// It holds two locks. The directory's own lock cannot be removed while the directory is there. The lock of the file `lock` is the one that
/// earlier releases take, and the file names the owner.
#[derive(Debug)]
pub(super) struct Directory {
    /// As it was given, for messages.
    path: PathBuf,
    dir: PrivateDir,
    lock: File,
}

impl Directory {
    /// Creates the directory if need be and takes its locks.
    pub(super) fn own(path: &Path) -> Result<Self, SqliteOpenError> {
        if path.as_os_str().is_empty() {
            return Err(SqliteOpenError::Unnamed);
        }
        let io = |action| {
            move |source| SqliteOpenError::Io {
                action,
                path: path.to_owned(),
                source,
            }
        };
        let dir = PrivateDir::create(path).map_err(io("use the data directory"))?;
        if let Some(kind) = filesystem::network_kind(dir.path()).map_err(io("inspect"))? {
            return Err(SqliteOpenError::NetworkFileSystem {
                path: path.to_owned(),
                kind,
            });
        }
        let in_use = || SqliteOpenError::InUse {
            path: path.to_owned(),
            holder: holder(&dir),
        };
        let is_stopping = || holder(&dir).ends_with(STOPPING);
        if !wait_for(dir.as_file(), is_stopping).map_err(io("lock"))? {
            return Err(in_use());
        }
        let name = dir.path().join(LOCK);
        let lock = dir.file(LOCK, &private()).map_err(|source| SqliteOpenError::Io {
            action: "use",
            path: name.clone(),
            source,
        })?;
        if !wait_for(&lock, || false).map_err(io("lock"))? {
            return Err(in_use());
        }
        let is_ours = || Ok(dir.is_in_place()? && is_at(&lock.metadata()?, &name)?);
        if !is_ours().map_err(io("lock"))? {
            let moved = io::Error::other("it, or the file `lock` in it, was removed or replaced just now; try again");
            return Err(io("lock")(moved));
        }
        let mut owned = Self {
            path: path.to_owned(),
            dir,
            lock,
        };
        owned.describe_owner("").map_err(io("write the lock file in"))?;
        Ok(owned)
    }

    /// Where the database is. Creates an empty private file, if there is none, in such a way that its name survives a crash.
    pub(super) fn database(&self) -> Result<PathBuf, SqliteOpenError> {
        let path = self.dir.path().join(DATABASE);
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |source| SqliteOpenError::Io {
                action: "use",
                path,
                source,
            }
        };
        for sidecar in SIDECARS {
            let sidecar = self.dir.path().join(format!("{DATABASE}{sidecar}"));
            check_file(&sidecar).map_err(unusable(&sidecar))?;
        }
        // Closed before SQLite opens it: closing a descriptor releases SQLite's locks.
        self.dir
            .file(DATABASE, &private())
            .and_then(|_| self.dir.sync())
            .map_err(unusable(&path))?;
        Ok(path)
    }

    /// The id of this host, which the directory keeps.
    pub(super) fn host_id(&self) -> Result<HostId, SqliteOpenError> {
        host_file::read_or_create(&self.dir)
    }

    /// Identifies this directory among all that this machine has had since it was booted; `None` if the system does not say. It is that of the inode that this
    /// process has locked: a copy, a snapshot or a clone of the directory has another inode, another device or another boot.
    pub(super) fn identity(&self) -> Option<Arc<str>> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let inode = self.dir.as_file().metadata().ok()?;
        Some(format!("{}:{:x}:{:x}", boot.trim_end(), inode.dev(), inode.ino()).into())
    }

    /// The file that records each start.
    pub(super) fn node_file(&self) -> NodeFile {
        NodeFile::in_directory(&self.dir)
    }

    /// The room that is kept for deletions.
    pub(super) fn reserve(&self, bytes: u64) -> Result<Reserve, SqliteOpenError> {
        Reserve::at_start(self.dir.path(), bytes).map_err(|source| SqliteOpenError::Io {
            action: "inspect the disk of",
            path: self.path.clone(),
            source,
        })
    }

    /// Checks later whether `database` is still at its path. Call it when SQLite has opened all its files.
    pub(super) fn database_file_check(&self, database: &Path) -> Result<DatabaseFileCheck, SqliteOpenError> {
        DatabaseFileCheck::note(database).map_err(|source| SqliteOpenError::Io {
            action: "inspect the files of",
            path: self.path.clone(),
            source,
        })
    }

    /// Writes into the lock file that its holder stops.
    pub(super) fn describe_stop(&mut self) -> io::Result<()> {
        self.describe_owner(STOPPING)
    }

    /// Writes into the lock file who holds it: `pid 123`, or `pid 123, note`.
    pub(super) fn describe_owner(&mut self, note: &str) -> io::Result<()> {
        let separator = if note.is_empty() { "" } else { ", " };
        let line = format!("pid {}{separator}{}\n", std::process::id(), plain_line(note));
        self.lock.set_len(0)?;
        self.lock.rewind()?;
        self.lock.write_all(line.as_bytes())
    }
}

/// What the process that owns a data directory wrote about itself; `None` if none does.
pub(super) fn owner(path: &Path) -> io::Result<Option<String>> {
    let directory = File::open(path)?;
    match flock(&directory, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(is_locked(&path.join(LOCK))?.then(|| FOREIGN_LOCK.to_owned())),
        Err(Errno::WOULDBLOCK) => {
            let text = read_named_text(&path.join(LOCK)).unwrap_or_default();
            Ok(Some(in_words(&text)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Who holds the lock file of a directory that no server owns.
const FOREIGN_LOCK: &str =
    "a program that is no server holds its file `lock`, and no server starts meanwhile: find it with `fuser`";

fn is_locked(lock: &Path) -> io::Result<bool> {
    let file = match open_named(lock) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A file that is made if it is not there, and that only we may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

/// Takes the lock, waiting about two seconds until another process has released it, or some more while that process is stopping. Returns whether it was taken.
#[expect(
    clippy::disallowed_methods,
    reason = "a lock gives no sign when it comes free, and no clock is injected yet"
)]
fn wait_for(lock: &File, is_stopping: impl Fn() -> bool) -> io::Result<bool> {
    for attempt in 0..ATTEMPTS_AT_A_STOP {
        if attempt >= LOCK_ATTEMPTS && !is_stopping() {
            break;
        }
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(LOCK_RETRY_DELAY),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// What the owner wrote about itself.
fn holder(dir: &PrivateDir) -> String {
    let mut options = OpenOptions::new();
    options.read(true);
    let mut text = String::new();
    let read = dir
        .file(LOCK, &options)
        .and_then(|lock| lock.take(1024).read_to_string(&mut text));
    match read {
        Ok(_) => in_words(&text),
        Err(_) => in_words(""),
    }
}

fn in_words(holder: &str) -> String {
    match holder.trim() {
        "" => "its process id is unknown".to_owned(),
        text => plain_line(text),
    }
}
