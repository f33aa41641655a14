//! The data directory: private, local, and owned by one process.

use super::{OpenError, filesystem};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a new process waits for an old one to let go: a deploy may overlap a little.
const PATIENCE: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// A directory that this process owns until the value is dropped, or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Directory {
    /// Creates the directory if need be and takes its lock.
    pub(super) fn own(path: &Path) -> Result<Self, OpenError> {
        if path.as_os_str().is_empty() {
            return Err(OpenError::Unnamed);
        }
        let io = |action| {
            move |source| OpenError::Io {
                action,
                path: path.to_owned(),
                source,
            }
        };
        create(path).map_err(io("create"))?;
        make_private(path, 0o700).map_err(io("set the permissions of"))?;
        if let Some(kind) = filesystem::network_kind(path).map_err(io("inspect"))? {
            return Err(OpenError::NetworkFileSystem {
                path: path.to_owned(),
                kind,
            });
        }
        let mut lock = private_file(&path.join("lock")).map_err(io("create the lock file in"))?;
        if !wait_for(&lock).map_err(io("lock"))? {
            return Err(OpenError::InUse {
                path: path.to_owned(),
                holder: holder(&mut lock),
            });
        }
        let mut owned = Self {
            path: path.to_owned(),
            lock,
        };
        owned.describe_owner("").map_err(io("write the lock file in"))?;
        Ok(owned)
    }

    /// Creates an empty private file for the database, if there is none, in such a way that its name survives a crash.
    pub(super) fn database(&self) -> Result<PathBuf, OpenError> {
        let path = self.path.join("longhaul.db");
        private_file(&path)
            .and_then(|_| File::open(&self.path)?.sync_all())
            .map_err(|source| OpenError::Io {
                action: "create",
                path: path.clone(),
                source,
            })?;
        Ok(path)
    }

    /// Writes into the lock file who holds it: `pid 123`, or `pid 123, note`.
    pub(super) fn describe_owner(&mut self, note: &str) -> io::Result<()> {
        let separator = if note.is_empty() { "" } else { ", " };
        let line = format!("pid {}{separator}{}\n", std::process::id(), one_line(note));
        self.lock.set_len(0)?;
        self.lock.rewind()?;
        self.lock.write_all(line.as_bytes())
    }
}

fn one_line(note: &str) -> String {
    note.chars().filter(|c| !c.is_control()).collect()
}

/// Creates `path` and what leads to it; a directory made here is on disk, name and all, before anything is kept in it.
fn create(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Takes from everyone else what they may do here. Arguments, results and keys are kept in clear.
fn make_private(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::metadata(path)?.permissions().mode() & 0o777;
    if found & !mode == 0 {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "others could look into the data directory; its mode is now {mode:o}");
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Takes the lock, waiting about two seconds for another process to let go; tells whether it was taken.
#[expect(
    clippy::disallowed_methods,
    reason = "a lock file gives no sign when it comes free, and no clock is injected yet"
)]
fn wait_for(lock: &File) -> io::Result<bool> {
    for _ in 0..PATIENCE {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.take(1024).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => one_line(text.trim()),
        _ => "it did not say which".to_owned(),
    }
}
