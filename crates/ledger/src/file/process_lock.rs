//! Which processes live: each holds the lock of a file of its own.
//!
//! The lock is an `flock`. The kernel releases it when the process ends, however it ends, and when the machine does; Linux and macOS agree
//! in this. A process id proves less: it is used again, its start time is read in another way on each system, and another container that
//! shares the directory does not see it. An `fcntl` lock would be released as soon as the process closed any descriptor of the file.
//!
//! Rust opens files so that programs which this process starts do not inherit them, so none of them keeps the lock.

use longhaul_private_dir::{PrivateDir, is_at};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

/// How many files of ended processes a new one looks for.
const SWEPT: usize = 256;
/// How often to try another name. Each attempt fails only if the name is taken, or another process sweeps the file at this moment.
const ATTEMPTS: u32 = 16;

/// The directory of the locks.
#[derive(Debug)]
pub(crate) struct ProcessLocks(PrivateDir);

/// This process's lock, held until the value is dropped.
#[derive(Debug)]
pub(crate) struct ProcessLock {
    name: String,
    path: PathBuf,
    _lock: File,
}

impl ProcessLocks {
    pub(crate) fn new(dir: PrivateDir) -> Self {
        Self(dir)
    }

    /// Takes a lock under a new name, and removes files of processes that have ended.
    pub(crate) fn register(&self) -> io::Result<ProcessLock> {
        self.sweep();
        for _ in 0..ATTEMPTS {
            let name = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            let lock = match self.0.file(&name, &options) {
                Ok(lock) => lock,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            let path = self.0.path().join(&name);
            let taken = match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                // Otherwise another process has swept the file before it was locked.
                Ok(()) => is_at(&lock.metadata()?, &path)?,
                Err(Errno::WOULDBLOCK) => false,
                Err(error) => return Err(error.into()),
            };
            if taken {
                return Ok(ProcessLock {
                    name,
                    path,
                    _lock: lock,
                });
            }
        }
        Err(io::Error::other(
            "other processes removed this process's lock again and again",
        ))
    }

    /// Whether the process with this lock lives. A process whose file was removed counts as ended. If the system does not say, it lives:
    /// a call in flight must not be taken over.
    pub(crate) fn is_alive(&self, name: &str) -> bool {
        match self.0.file(name, OpenOptions::new().read(true)) {
            Ok(lock) => !is_free(&lock),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Removes files that no process has locked. What goes wrong is left to the next process.
    fn sweep(&self) {
        let Ok(files) = fs::read_dir(self.0.path()) else { return };
        for file in files.take(SWEPT).flatten() {
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            // The shared lock is held until the file is removed, so nobody can begin to use the file meanwhile.
            if let Ok(lock) = self.0.file(name, OpenOptions::new().read(true))
                && is_free(&lock)
            {
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

impl ProcessLock {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether nobody holds the lock. Takes a shared lock: two processes that look at the same time must not find each other.
fn is_free(lock: &File) -> bool {
    flock(lock, FlockOperation::NonBlockingLockShared).is_ok()
}
