//! A file that takes up room on the disk, so that there is some for deletions when the disk is full.
//!
//! A deletion makes room inside the database, and needs some outside of it first: for the write-ahead log, and to move what is in the log into the
//! database. So does a start. Each makes the file shorter by a quarter when it finds the disk full, and a change does so again until it fits: what other
//! programs write meanwhile takes one quarter of the room, and not all of it.
//! It is not released if the disk has room and no inodes.
//! While the file is shorter than it is to be, no payload is written (no task, no result, no entry of a journal), unless the database has room for it in
//! pages that deletions have freed: so the released room remains for the log, until the file is whole again. How long it is is all that is recorded, so
//! nothing changes with a restart.

use longhaul_private_dir::open_file;
use rustix::{
    fs::{FallocateFlags, StatVfs, fallocate, statvfs},
    io::Errno,
};
use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// The name of the file in the data directory.
pub const RESERVE_FILE: &str = "reserve";
/// With less room than this a disk counts as full, and so do the free pages of a database. The log needs some, too, when the reserve is there. Bytes.
pub(crate) const LEAST_ROOM: u64 = 4 << 20;

/// The file is released in so many parts.
const PARTS: u64 = 4;

/// The reserve of a data directory.
pub(crate) struct Reserve {
    path: PathBuf,
    /// 0 if there is to be none.
    bytes: u64,
    /// Held while the file is changed.
    file: Mutex<()>,
    /// The file is shorter than it is to be, or not there.
    in_use: AtomicBool,
    /// It is, and the database has no free pages either.
    refuses_payloads: AtomicBool,
}

impl Reserve {
    /// That of `directory`, which this process owns. A part is released if the disk is full, since a start needs room.
    pub(crate) fn at_start(directory: &Path, bytes: u64) -> io::Result<Self> {
        let reserve = Self {
            path: directory.join(RESERVE_FILE),
            bytes,
            file: Mutex::new(()),
            in_use: AtomicBool::new(bytes > 0),
            refuses_payloads: AtomicBool::new(false),
        };
        let is_full = free(directory)? < LEAST_ROOM;
        if bytes == 0 {
            reserve.remove()?;
        } else if is_full {
            tracing::warn!("the disk is full: the server starts with room of its reserve");
            reserve.release();
        }
        Ok(reserve)
    }

    /// Whether there is to be one, and it is not whole.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Whether payloads are refused.
    pub(crate) fn refuses_payloads(&self) -> bool {
        self.refuses_payloads.load(Ordering::Relaxed)
    }

    /// While it is in use: so many bytes of the database's file are free.
    pub(crate) fn note_free_pages(&self, bytes: u64) {
        self.refuses_payloads
            .store(self.is_in_use() && bytes < LEAST_ROOM, Ordering::Relaxed);
    }

    /// Gives a part of its room to whoever writes next. Returns whether there was any to give that could help.
    pub(crate) fn release(&self) -> bool {
        let _file = self.lock();
        let len = self.found().map_or(0, |found| found.len());
        if self.bytes == 0 || len == 0 || self.lacks_inodes_alone() {
            return false;
        }
        self.in_use.store(true, Ordering::Relaxed);
        let rest = len.saturating_sub(self.bytes.div_ceil(PARTS));
        let shortened = match rest {
            0 => self.remove(),
            _ => open_file(&self.path, OpenOptions::new().write(true)).and_then(|file| file.set_len(rest)),
        };
        match shortened {
            Ok(()) => tracing::warn!(
                "room of the disk's reserve is released, {} MiB of {} are left: it is for deletions, and new tasks are refused until they have made room",
                rest >> 20,
                self.bytes >> 20
            ),
            Err(error) => tracing::error!(%error, "the reserve of the disk could not be released"),
        }
        true
    }

    /// Makes it whole if it is in use and there is room.
    pub(crate) fn take(&self) {
        if !self.is_in_use() {
            return;
        }
        let _file = self.lock();
        match self.allocate() {
            Ok(true) => {
                self.in_use.store(false, Ordering::Relaxed);
                self.refuses_payloads.store(false, Ordering::Relaxed);
            }
            Ok(false) => {}
            // It is tried again; a line each time would say nothing new.
            Err(error) => tracing::debug!(%error, "the reserve of the disk could not be made"),
        }
    }

    /// Returns whether it is whole now.
    fn allocate(&self) -> io::Result<bool> {
        let found = self.found();
        let (len, taken) = found.map_or((0, 0), |found| (found.len(), found.blocks().saturating_mul(512)));
        if len == self.bytes && taken >= len {
            return Ok(true);
        }
        let directory = self.path.parent().unwrap_or(&self.path);
        let wanted = self.bytes.saturating_sub(taken).saturating_add(LEAST_ROOM);
        if len <= self.bytes && free(directory)? < wanted {
            return Ok(false);
        }
        let file = open_file(&self.path, OpenOptions::new().write(true).create(true).mode(0o600))?;
        file.set_len(len.min(self.bytes))?;
        let allocated = match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(&file, self.bytes),
            allocated => allocated.map_err(io::Error::from),
        };
        if let Err(error) = allocated {
            // What it took besides is somebody else's room.
            file.set_len(len.min(taken))?;
            return Err(error);
        }
        Ok(true)
    }

    /// Whether the disk has room, and cannot have one file more.
    fn lacks_inodes_alone(&self) -> bool {
        let disk = statvfs(self.path.parent().unwrap_or(&self.path));
        disk.is_ok_and(|disk| disk.f_files > 0 && disk.f_favail == 0 && free_bytes(&disk) >= LEAST_ROOM)
    }

    fn found(&self) -> Option<Metadata> {
        self.path.symlink_metadata().ok().filter(Metadata::is_file)
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the disk of `directory` has left, in bytes.
fn free(directory: &Path) -> io::Result<u64> {
    Ok(free_bytes(&statvfs(directory)?))
}

fn free_bytes(disk: &StatVfs) -> u64 {
    disk.f_bavail.saturating_mul(disk.f_frsize)
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
    fn it_is_made_of_real_blocks_released_in_parts_and_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(RESERVE_FILE);
        let len = || path.metadata().map_or(0, |found| found.len());
        let reserve = Reserve::at_start(directory.path(), SIZE).unwrap();
        assert!(reserve.is_in_use());
        reserve.take();
        assert!(!reserve.is_in_use() && !reserve.refuses_payloads());
        let made = path.metadata().unwrap();
        assert!(made.len() == SIZE && made.blocks() * 512 >= SIZE, "{made:?}");

        assert!(reserve.release() && reserve.is_in_use());
        assert_eq!(len(), SIZE / 4 * 3);
        reserve.note_free_pages(LEAST_ROOM - 1);
        assert!(reserve.refuses_payloads());
        reserve.note_free_pages(LEAST_ROOM);
        assert!(!reserve.refuses_payloads());
        assert!(reserve.release() && reserve.release() && reserve.release());
        assert!(!path.exists());
        assert!(!reserve.release(), "there is nothing more to give");
        reserve.note_free_pages(0);
        reserve.take();
        assert!(len() == SIZE && !reserve.is_in_use() && !reserve.refuses_payloads());

        // What a release has left, what a crash has left unfinished, and what had another size, is made whole.
        for (found, with_blocks) in [(SIZE / 2, true), (SIZE, false), (2 * SIZE, true)] {
            let file = fs::File::create(&path).unwrap();
            file.set_len(found).unwrap();
            if with_blocks {
                write_zeros(&file, found).unwrap();
            }
            Reserve::at_start(directory.path(), SIZE).unwrap().take();
            let made = path.metadata().unwrap();
            assert!(made.len() == SIZE && made.blocks() * 512 >= SIZE, "{found}: {made:?}");
        }
        Reserve::at_start(directory.path(), 0).unwrap().take();
        assert!(!path.exists(), "none is wanted any more");
    }
}
