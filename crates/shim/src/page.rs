//! The numbers that a test writes and this library reads.

use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::{
    fs::{File, OpenOptions},
    sync::{
        OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

/// The environment variable that names the file.
const VARIABLE: &str = "LONGHAUL_SHIM";

/// All of the file.
#[repr(C)]
pub(crate) struct Page {
    pub(crate) writes: Fault,
    pub(crate) syncs: Fault,
    pub(crate) spawns: Fault,
    wall_offset_ms: AtomicI64,
}

/// What happens to one kind of call.
#[repr(C)]
pub(crate) struct Fault {
    delay_us: AtomicU64,
    errno: AtomicU64,
    disturbed: AtomicU64,
}

/// What happens to one call; 0 is nothing.
pub(crate) struct Disturbance {
    pub(crate) delay_us: u64,
    pub(crate) errno: i32,
}

impl Page {
    /// The page of this process, if it was started with one.
    pub(crate) fn of_this_process() -> Option<&'static Self> {
        static PAGE: OnceLock<Option<&'static Page>> = OnceLock::new();
        *PAGE.get_or_init(|| {
            let path = std::env::var_os(VARIABLE)?;
            let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
            map(&file)
        })
    }

    pub(crate) fn wall_offset_ms(&self) -> i64 {
        self.wall_offset_ms.load(Ordering::Relaxed)
    }
}

impl Fault {
    pub(crate) fn is_off(&self) -> bool {
        self.delay_us.load(Ordering::Relaxed) == 0 && self.errno.load(Ordering::Relaxed) == 0
    }

    /// Counts the call.
    pub(crate) fn disturb(&self) -> Disturbance {
        self.disturbed.fetch_add(1, Ordering::Relaxed);
        let errno = self.errno.load(Ordering::Relaxed);
        Disturbance {
            delay_us: self.delay_us.load(Ordering::Relaxed),
            errno: i32::try_from(errno).unwrap_or_default(),
        }
    }
}

fn map(file: &File) -> Option<&'static Page> {
    if file.metadata().ok()?.len() < size_of::<Page>() as u64 {
        return None;
    }
    let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    #[expect(
        unsafe_code,
        reason = "the file holds all of a page of atomics, for which every bit pattern is valid; it is never unmapped"
    )]
    unsafe {
        let address = mmap(std::ptr::null_mut(), size_of::<Page>(), access, shared, file, 0).ok()?;
        address.cast::<Page>().as_ref()
    }
}
