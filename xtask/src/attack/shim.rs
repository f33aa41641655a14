//! The file of numbers that controls the shim: see `crates/shim/README.md`.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// A kind of system call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call {
    Write = 0,
    Sync = 3,
    Spawn = 6,
}

const WALL_OFFSET: u64 = 9;
const NUMBERS: u64 = 10;

/// Injects faults into the system calls of programs that were started with [`Shim::path`].
pub(crate) struct Shim {
    path: PathBuf,
    file: File,
}

impl Shim {
    /// Creates the file, without faults.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        file.set_len(NUMBERS * 8)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn delay_ms(&self, call: Call, milliseconds: u64) -> io::Result<()> {
        self.set(call as u64, (milliseconds * 1_000).to_ne_bytes())
    }

    pub(super) fn fail(&self, call: Call, errno: rustix::io::Errno) -> io::Result<()> {
        let errno = u64::try_from(errno.raw_os_error()).unwrap_or_default();
        self.set(call as u64 + 1, errno.to_ne_bytes())
    }

    /// How many calls were delayed or failed.
    pub(super) fn affected_calls(&self, call: Call) -> io::Result<u64> {
        let mut number = [0; 8];
        self.file.read_exact_at(&mut number, (call as u64 + 2) * 8)?;
        Ok(u64::from_ne_bytes(number))
    }

    /// Shifts the programs' system clock.
    pub(crate) fn shift_clock(&self, seconds: i64) -> io::Result<()> {
        self.set(WALL_OFFSET, (seconds * 1_000).to_ne_bytes())
    }

    /// Removes all faults; the counts stay.
    pub(super) fn remove_faults(&self) -> io::Result<()> {
        for call in [Call::Write, Call::Sync, Call::Spawn] {
            self.set(call as u64, [0; 8])?;
            self.set(call as u64 + 1, [0; 8])?;
        }
        self.shift_clock(0)
    }

    fn set(&self, number: u64, value: [u8; 8]) -> io::Result<()> {
        self.file.write_all_at(&value, number * 8)
    }
}
