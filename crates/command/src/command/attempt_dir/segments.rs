//! The log on disk: files named after the place of their first byte in the whole stream.
//!
//! So a reader needs no index, an offset means the same byte for ever, and what was dropped or could not be written is simply a
//! hole between two files.

use std::{
    io,
    path::{Path, PathBuf},
};

/// One file of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Segment {
    /// Place of its first byte in the stream.
    pub(crate) start: u64,
    /// Bytes in it.
    pub(crate) len: u64,
}

impl Segment {
    /// Place after its last byte.
    pub(crate) fn end(self) -> u64 {
        self.start + self.len
    }

    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        path(dir, self.start)
    }
}

/// The file that begins at `start`.
pub(crate) fn path(dir: &Path, start: u64) -> PathBuf {
    dir.join(format!("log.{start}"))
}

/// What is there, in order.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(start) = name.to_str().and_then(|name| name.strip_prefix("log.")?.parse().ok()) else {
            continue;
        };
        match entry.metadata() {
            Ok(metadata) => segments.push(Segment {
                start,
                len: metadata.len(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    segments.sort_unstable();
    Ok(segments)
}
