//! A folder for what is not complete yet, beside the place that it is for.

use longhaul_private_dir::PrivateDir;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// How often the removal of a folder is tried.
const REMOVALS: usize = 20;

/// A private folder that is removed when this is dropped. What a killed process has left in it is removed by the next one.
pub(crate) struct WorkFolder {
    /// Its lock says that a process works in it.
    dir: PrivateDir,
}

impl WorkFolder {
    /// Makes the folder `path` anew.
    ///
    /// # Errors
    /// When another process works in it, which is [`ResourceBusy`](io::ErrorKind::ResourceBusy), and the system's.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let dir = PrivateDir::create(path)?;
        match flock(dir.as_file(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::ResourceBusy.into()),
            Err(error) => return Err(error.into()),
        }
        if !dir.is_in_place()? {
            // Another process was done with it just now, and has removed it.
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        for left in fs::read_dir(dir.path())? {
            let left = left?;
            match left.file_type()?.is_dir() {
                true => fs::remove_dir_all(left.path())?,
                false => fs::remove_file(left.path())?,
            }
        }
        Ok(Self { dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // After Ctrl-C another thread may still make files in it, until the process ends.
        for _ in 0..REMOVALS {
            match fs::remove_dir_all(self.dir.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => return,
            }
        }
    }
}

/// The folder beside `path` whose name has this ending.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
