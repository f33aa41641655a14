//! Whether commits still go to the files that the next process will open.
//!
//! SQLite goes on writing to files that were removed or moved, so the store would acknowledge changes that are lost.

use longhaul_private_dir::is_at;
use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

/// The files that commits go to, as they were when they were opened.
pub(crate) struct DatabaseFileCheck([(PathBuf, Metadata); 2]);

impl DatabaseFileCheck {
    /// Records the identity of `database` and its write-ahead log.
    pub(crate) fn note(database: &Path) -> io::Result<Self> {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let log = PathBuf::from(log);
        let metadata = fs::metadata(database)?;
        Ok(Self([
            (database.to_owned(), metadata),
            (log.clone(), fs::metadata(&log)?),
        ]))
    }

    /// Two `stat`s: as much as one write to the page cache, and a five-hundredth of an fsync.
    ///
    /// # Errors
    /// The file that is missing or replaced. Errors of the file system itself are ignored.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (path, metadata) in &self.0 {
            if let Ok(false) = is_at(metadata, path) {
                return Err(format!(
                    "{} was removed, moved or replaced while the server ran; what was committed to it since is lost, and nothing more \
                     is acknowledged",
                    path.display()
                ));
            }
        }
        Ok(())
    }
}
