//! A file that takes up room on the disk, so that there is some for deletions when the disk is full.
//!
//! A deletion makes room inside the database, and needs some outside of it first: for the write-ahead log, and to move what is in the log into the
//! database. So does a start. Both release the reserve, that is they remove the file. From then on no payload is written (no task, no result, no entry
//! of a journal), unless the database has room for it in pages that deletions have freed: so the released room remains for the log, until the
//! file is made again. Whether the file is there is all that is recorded, so nothing changes with a restart.

use longhaul_private_dir::open_file;
use rustix::{
    fs::{FallocateFlags, fallocate, statvfs},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

const NAME: &str = "reserve";
/// With less room than this a disk counts as full, and so do the free pages of a database. The log needs some, too, when the reserve is there. Bytes.
pub(super) const LEAST_ROOM: u64 = 4 << 20;

/// The reserve of a data directory.
pub(super) struct Reserve {
    path: PathBuf,
    /// 0 if there is to be none.
    bytes: u64,
    /// It was released, or there was no room for it.
    missing: AtomicBool,
    /// It is missing, and the database has no free pages either.
    refuses_payloads: AtomicBool,
}

impl Reserve {
    /// That of `directory`, which this process owns. It is released if the disk is full, since a start needs room.
    pub(super) fn at_start(directory: &Path, bytes: u64) -> io::Result<Self> {
        let reserve = Self {
            path: directory.join(NAME),
            bytes,
            missing: AtomicBool::new(false),
            refuses_payloads: AtomicBool::new(false),
        };
        let is_full = free(directory)? < LEAST_ROOM;
        if bytes == 0 || is_full {
            reserve.remove()?;
        }
        if bytes > 0 && is_full {
            tracing::warn!("the disk is full: the server starts with the room of its reserve");
        }
        reserve.missing.store(bytes > 0, Ordering::Relaxed);
        Ok(reserve)
    }

    /// Whether there is to be one and is none.
    pub(super) fn is_missing(&self) -> bool {
        self.missing.load(Ordering::Relaxed)
    }

    /// Whether payloads are refused.
    pub(super) fn refuses_payloads(&self) -> bool {
        self.refuses_payloads.load(Ordering::Relaxed)
    }

    /// While it is missing: so many bytes of the database's file are free.
    pub(super) fn note_free_pages(&self, bytes: u64) {
        self.refuses_payloads
            .store(self.is_missing() && bytes < LEAST_ROOM, Ordering::Relaxed);
    }

    /// Gives its room to whoever writes next. Returns whether there was any to give.
    pub(super) fn release(&self) -> bool {
        if self.bytes == 0 || self.missing.swap(true, Ordering::Relaxed) {
            return false;
        }
        match self.remove() {
            Ok(()) => tracing::warn!(
                "the reserve of the disk ({} MiB) is released: it is for deletions, and new tasks are refused until they have made room",
                self.bytes >> 20
            ),
            Err(error) => tracing::error!(%error, "the reserve of the disk could not be released"),
        }
        true
    }

    /// Makes it if it is missing and there is room.
    pub(super) fn take(&self) {
        if !self.is_missing() {
            return;
        }
        match self.allocate() {
            Ok(true) => {
                self.missing.store(false, Ordering::Relaxed);
                self.refuses_payloads.store(false, Ordering::Relaxed);
            }
            Ok(false) => {}
            // It is tried again; a line each time would say nothing new.
            Err(error) => tracing::debug!(%error, "the reserve of the disk could not be made"),
        }
    }

    /// Returns whether it is there now.
    fn allocate(&self) -> io::Result<bool> {
        let found = match self.path.symlink_metadata() {
            Ok(found) if found.len() == self.bytes => found.blocks().saturating_mul(512),
            _ => 0,
        };
        if found >= self.bytes {
            return Ok(true);
        }
        // What another release or a crash has left may have another size.
        self.remove()?;
        let directory = self.path.parent().unwrap_or(&self.path);
        if free(directory)? < self.bytes.saturating_add(LEAST_ROOM) {
            return Ok(false);
        }
        let file = open_file(&self.path, OpenOptions::new().write(true).create(true).mode(0o600))?;
        let allocated = match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(&file, self.bytes),
            allocated => allocated.map_err(io::Error::from),
        };
        if let Err(error) = allocated {
            self.remove()?;
            return Err(error);
        }
        Ok(true)
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// What the disk of `directory` has left, in bytes.
fn free(directory: &Path) -> io::Result<u64> {
    let disk = statvfs(directory)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    const PIECE: u64 = 64 << 10;
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(PIECE);
        file.write_all(&[0; PIECE as usize][..piece as usize])?;
        left -= piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    #[test]
    fn it_is_made_of_real_blocks_released_once_and_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let reserve = Reserve::at_start(directory.path(), SIZE).unwrap();
        assert!(reserve.is_missing());
        reserve.take();
        assert!(!reserve.is_missing() && !reserve.refuses_payloads());
        let made = path.metadata().unwrap();
        assert!(made.len() == SIZE && made.blocks() * 512 >= SIZE, "{made:?}");

        assert!(reserve.release() && !path.exists());
        assert!(!reserve.release(), "there is nothing more to give");
        reserve.note_free_pages(LEAST_ROOM - 1);
        assert!(reserve.refuses_payloads());
        reserve.note_free_pages(LEAST_ROOM);
        assert!(!reserve.refuses_payloads());
        reserve.note_free_pages(0);
        reserve.take();
        assert!(path.exists() && !reserve.refuses_payloads());

        // One that a crash has left unfinished, or that has another size, is made anew.
        fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
        let reserve = Reserve::at_start(directory.path(), SIZE).unwrap();
        reserve.take();
        assert!(path.metadata().unwrap().blocks() * 512 >= SIZE);
        Reserve::at_start(directory.path(), 0).unwrap().take();
        assert!(!path.exists(), "none is wanted any more");
    }
}
