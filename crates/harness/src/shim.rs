//! The file of numbers that controls the shim: see `crates/shim/README.md`.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// A kind of system call.
#[derive(Debug, Clone, Copy)]
pub enum SystemCall {
    Write = 0,
    Sync = 3,
    Spawn = 6,
}

const WALL_OFFSET: u64 = 9;
const NUMBERS: u64 = 10;

/// Injects faults into the system calls of programs that were started with [`Shim::path`].
pub struct Shim {
    path: PathBuf,
    file: File,
}

impl Shim {
    /// Creates the file, without faults.
    pub fn create(path: &Path) -> io::Result<Self> {
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn delay_ms(&self, call: SystemCall, milliseconds: u64) -> io::Result<()> {
        self.set(call as u64, (milliseconds * 1_000).to_ne_bytes())
    }

    pub fn fail(&self, call: SystemCall, errno: rustix::io::Errno) -> io::Result<()> {
        let errno = u64::try_from(errno.raw_os_error()).unwrap_or_default();
        self.set(call as u64 + 1, errno.to_ne_bytes())
    }

    /// How many calls were delayed or failed.
    pub fn affected_calls(&self, call: SystemCall) -> io::Result<u64> {
        let mut number = [0; 8];
        self.file.read_exact_at(&mut number, (call as u64 + 2) * 8)?;
        Ok(u64::from_ne_bytes(number))
    }

    /// Shifts the programs' system clock.
    pub fn shift_clock(&self, seconds: i64) -> io::Result<()> {
        self.set(WALL_OFFSET, (seconds * 1_000).to_ne_bytes())
    }

    /// Removes all faults; the counts stay.
    pub fn remove_faults(&self) -> io::Result<()> {
        for call in [SystemCall::Write, SystemCall::Sync, SystemCall::Spawn] {
            self.set(call as u64, [0; 8])?;
            self.set(call as u64 + 1, [0; 8])?;
        }
        self.shift_clock(0)
    }

    fn set(&self, number: u64, value: [u8; 8]) -> io::Result<()> {
        self.file.write_all_at(&value, number * 8)
    }
}
