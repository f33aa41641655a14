//! Where tests kill the process.

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
