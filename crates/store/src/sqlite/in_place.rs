//! Whether commits still go to where the next process will look.
//!
//! SQLite goes on writing to files that were removed or moved away, and so would we acknowledge what nobody finds again.

use longhaul_private_dir::is_at;
use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

/// The files that commits go to, as they were when they were opened.
pub(super) struct InPlace([(PathBuf, Metadata); 2]);

impl InPlace {
    /// Notes what `database` and its write-ahead log are.
    pub(super) fn note(database: &Path) -> io::Result<Self> {
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
    /// Which file is gone. An error of the file system's says nothing about that.
    pub(super) fn check(&self) -> Result<(), String> {
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
