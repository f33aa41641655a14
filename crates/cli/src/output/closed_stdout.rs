//! Whether the program was started without standard output (`>&-`).
//!
//! The standard library opens /dev/null in its place before `main`, and then each write succeeds: a result would count as fetched that nobody has seen. Later it cannot be
//! told from a /dev/null that the caller has chosen, which some open for reading and writing, too (Python's `subprocess.DEVNULL`). So it is looked at before `main`, which
//! needs unsafe code.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether there was no standard output at the start. Known on Linux.
pub(crate) fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "only a function of `.init_array` runs before the standard library"
)]
mod at_start {
    use super::IS_CLOSED;
    use rustix::{fd::BorrowedFd, io};
    use std::sync::atomic::Ordering;

    #[used]
    // SAFETY: the section holds pointers to C functions, and this is one.
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: nothing is read or written through it; whether it is open is the question.
        let stdout = unsafe { BorrowedFd::borrow_raw(1) };
        let is_closed = io::fcntl_getfd(stdout) == Err(io::Errno::BADF);
        IS_CLOSED.store(is_closed, Ordering::Relaxed);
    }
}
