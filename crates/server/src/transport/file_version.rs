//! Whether a file has changed since it was read.

use longhaul_core::Clock;
use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// A file that changed this recently is read again: two changes may have the same time.
const SETTLED_MILLIS: i64 = 2_000;

/// Tells one version of a file from another, so that it need not be read to see that it is unchanged.
///
/// ```
/// use longhaul_server::FileVersion;
/// # fn main() -> std::io::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("keys");
/// std::fs::write(&path, "one")?;
/// let before = FileVersion::of_target(&path)?;
/// std::fs::write(&path, "three")?;
/// assert_ne!(before, FileVersion::of_target(&path)?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl FileVersion {
    /// The version that is at `path` now; `None` if there is nothing. A link is a version by itself.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(found) => Ok(Some(Self::new(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The version of the file to which `path` leads now, through all links.
    ///
    /// # Errors
    /// The system's; also if there is nothing.
    pub fn of_target(path: &Path) -> io::Result<Self> {
        Ok(Self::new(&fs::metadata(path)?))
    }

    /// Whether a later change would be seen: its time would be another one.
    pub fn is_settled(&self, clock: &dyn Clock) -> bool {
        clock.wall().0 - self.seconds.saturating_mul(1000) > SETTLED_MILLIS
    }

    fn new(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            seconds: found.ctime(),
            nanoseconds: found.ctime_nsec(),
        }
    }
}
