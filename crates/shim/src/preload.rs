//! The functions that replace the C library's.

#![expect(
    unsafe_code,
    reason = "these symbols stand in front of the C library's and call them with the arguments they were given"
)]
#![expect(unreachable_pub, reason = "the dynamic linker reaches them by name")]

use crate::page::{Fault, Page};
use libc::{c_char, c_int, c_void, clockid_t, iovec, off_t, pid_t, size_t, ssize_t, timespec};
use std::{
    ffi::CStr,
    mem::MaybeUninit,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

/// The next definition of a symbol: the C library's.
fn next(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cache.store(found, Ordering::Relaxed);
    found
}

/// Delays the call if that is asked for, and returns the error it fails with.
fn disturb(fault: impl Fn(&Page) -> &Fault) -> Option<c_int> {
    let fault = fault(Page::of_this_process()?);
    if fault.is_off() {
        return None;
    }
    let disturbance = fault.disturb();
    if disturbance.delay_us > 0 {
        let span = timespec {
            tv_sec: (disturbance.delay_us / 1_000_000).cast_signed(),
            tv_nsec: (disturbance.delay_us % 1_000_000 * 1_000).cast_signed(),
        };
        unsafe { libc::nanosleep(&raw const span, null_mut()) };
    }
    (disturbance.errno != 0).then_some(disturbance.errno)
}

/// As [`disturb`], for a write: sockets, pipes and devices are left alone.
fn disturb_write(descriptor: c_int) -> Option<c_int> {
    if Page::of_this_process()?.writes.is_off() {
        return None;
    }
    let mut status = MaybeUninit::<libc::stat>::uninit();
    let is_file = unsafe {
        libc::fstat(descriptor, status.as_mut_ptr()) == 0
            && status.assume_init_ref().st_mode & libc::S_IFMT == libc::S_IFREG
    };
    if is_file { disturb(|page| &page.writes) } else { None }
}

/// What most functions return for an error.
fn minus_one(errno: c_int) -> c_int {
    unsafe { *libc::__errno_location() = errno };
    -1
}

macro_rules! in_front_of {
    ($name:ident ($($argument:ident: $type:ty),* $(,)?) -> $result:ty, $disturbed:expr, $failed:expr) => {
        /// # Safety
        /// As of the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            if let Some(errno) = $disturbed {
                return <$result>::from($failed(errno));
            }
            let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).unwrap_or_default();
            let function = next(&NEXT, name);
            let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(function) };
            unsafe { function($($argument),*) }
        }
    };
}

/// The result of the functions that write: as wide as a pointer.
struct WriteResult(ssize_t);

impl From<WriteResult> for ssize_t {
    fn from(written: WriteResult) -> Self {
        written.0
    }
}

fn not_written(errno: c_int) -> WriteResult {
    WriteResult(minus_one(errno) as ssize_t)
}

/// `posix_spawn` returns its error.
fn as_it_is(errno: c_int) -> c_int {
    errno
}

in_front_of!(write(descriptor: c_int, buffer: *const c_void, count: size_t) -> ssize_t, disturb_write(descriptor), not_written);
in_front_of!(writev(descriptor: c_int, parts: *const iovec, count: c_int) -> ssize_t, disturb_write(descriptor), not_written);
in_front_of!(
    pwrite(descriptor: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t,
    disturb_write(descriptor), not_written
);
in_front_of!(
    pwrite64(descriptor: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t,
    disturb_write(descriptor), not_written
);
in_front_of!(fsync(descriptor: c_int) -> c_int, disturb(|page| &page.syncs), minus_one);
in_front_of!(fdatasync(descriptor: c_int) -> c_int, disturb(|page| &page.syncs), minus_one);
in_front_of!(fork() -> pid_t, disturb(|page| &page.spawns), minus_one);
in_front_of!(
    posix_spawn(
        pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: *const *mut c_char, environment: *const *mut c_char,
    ) -> c_int,
    disturb(|page| &page.spawns), as_it_is
);
in_front_of!(
    posix_spawnp(
        pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: *const *mut c_char, environment: *const *mut c_char,
    ) -> c_int,
    disturb(|page| &page.spawns), as_it_is
);

/// The wall clock is shifted; every other clock is as it was.
///
/// # Safety
/// As of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let function = next(&NEXT, c"clock_gettime");
    let function: unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int = unsafe { std::mem::transmute(function) };
    let result = unsafe { function(clock, time) };
    if result == 0 && matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE) {
        let offset = Page::of_this_process().map_or(0, Page::wall_offset_ms);
        let time = unsafe { &mut *time };
        let nanoseconds = time.tv_nsec + offset.rem_euclid(1_000) * 1_000_000;
        time.tv_sec += offset.div_euclid(1_000) + nanoseconds / 1_000_000_000;
        time.tv_nsec = nanoseconds % 1_000_000_000;
    }
    result
}
