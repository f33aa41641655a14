//! Where tests kill the process, or let a write fail.

/// A place between two effects of a change.
#[cfg(not(test))]
pub(crate) fn reached() {}

/// Kills this process with `SIGKILL` at the n-th place it reaches, if a test has asked for that.
#[cfg(test)]
pub(crate) fn reached() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static REACHED: AtomicU64 = AtomicU64::new(0);
    let wanted = std::env::var("LONGHAUL_TEST_KILL_AT").ok();
    let Some(wanted) = wanted.and_then(|wanted| wanted.parse::<u64>().ok()) else {
        return;
    };
    if REACHED.fetch_add(1, Ordering::SeqCst) + 1 == wanted {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

/// Whether this write of the journal is to fail: never.
#[cfg(not(test))]
pub(crate) fn write_fails() -> bool {
    false
}

/// Whether this is the n-th write of this process, and a test has asked for it to fail.
#[cfg(test)]
pub(crate) fn write_fails() -> bool {
    use std::sync::atomic::{AtomicU64, Ordering};
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let wanted = std::env::var("LONGHAUL_TEST_JOURNAL_FAILS_AT").ok();
    let wanted = wanted.and_then(|wanted| wanted.parse::<u64>().ok());
    let fails = wanted.is_some_and(|wanted| WRITES.fetch_add(1, Ordering::SeqCst) + 1 == wanted);
    if let (true, Some(directory)) = (fails, std::env::var_os("LONGHAUL_TEST_DIRECTORY")) {
        // The test looks whether there was such a write.
        let _ = std::fs::write(std::path::Path::new(&directory).join("failed"), "");
    }
    fails
}
