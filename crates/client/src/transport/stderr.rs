//! Standard error of a server, which goes on if nobody reads it.
//!
//! A pipe whose reader hangs, or a terminal that is stopped by Ctrl-S, blocks whoever writes to it: a server that logs would answer nobody. So what cannot be
//! written is dropped and counted, and the next line that can be written says how much is missing.

use parking_lot::Mutex;
use std::{io, sync::OnceLock};

/// For so long a write waits for a reader that is slow. While nobody reads, the writes that follow do not wait.
const PATIENCE_MILLIS: u16 = 50;
/// A pipe that is ready takes so many bytes without blocking (`pipe(7)`, `PIPE_BUF`).
const CHUNK: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

static STATE: Mutex<StderrState> = Mutex::new(StderrState {
    dropped: 0,
    is_cut: false,
});
static NOTICE: OnceLock<fn(u64) -> String> = OnceLock::new();

struct StderrState {
    /// Lines that were dropped since the last one that was written.
    dropped: u64,
    /// The last line was written in part.
    is_cut: bool,
}

/// Sets how the line reads, with its line break, that says how many lines were dropped. The first call counts.
///
/// ```
/// longhaul_client::stderr::describe_dropped(|lines| format!("{lines} lines are missing\n"));
/// ```
pub fn describe_dropped(notice: fn(u64) -> String) {
    let _ = NOTICE.set(notice);
}

/// Writes to standard error, best whole lines: what is written or dropped at once counts as one. Returns false if it was dropped, since nobody reads it, or it is
/// closed.
///
/// ```
/// longhaul_client::stderr::write_or_drop(b"the server has started\n");
/// ```
pub fn write_or_drop(lines: &[u8]) -> bool {
    let mut state = STATE.lock();
    let mut patience = if state.dropped == 0 { PATIENCE_MILLIS } else { 0 };
    if state.dropped > 0 {
        let notice = NOTICE.get().copied().unwrap_or(plain_notice)(state.dropped);
        if state.write(notice.as_bytes(), patience) {
            state.dropped = 0;
            patience = PATIENCE_MILLIS;
        }
    }
    let written = state.dropped == 0 && state.write(lines, patience);
    if !written {
        state.dropped += 1;
    }
    written
}

fn plain_notice(dropped: u64) -> String {
    format!("{dropped} log lines were dropped here: nobody read standard error\n")
}

impl StderrState {
    fn write(&mut self, bytes: &[u8], patience_millis: u16) -> bool {
        if self.is_cut && !(is_writable(patience_millis) && write_some(b"\n").is_ok()) {
            return false;
        }
        self.is_cut = false;
        for chunk in bytes.chunks(CHUNK) {
            let mut rest = chunk;
            while !rest.is_empty() {
                match is_writable(patience_millis).then(|| write_some(rest)) {
                    Some(Ok(written @ 1..)) => {
                        rest = rest.get(written..).unwrap_or_default();
                        self.is_cut = true;
                    }
                    Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => return false,
                }
            }
        }
        self.is_cut = false;
        true
    }
}

#[cfg(unix)]
fn is_writable(patience_millis: u16) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    let patience = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(patience_millis) * 1_000_000,
    };
    // An error of the descriptor shows in the write.
    !matches!(poll(&mut ready, Some(&patience)), Ok(0))
}

#[cfg(unix)]
fn write_some(bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(io::stderr(), bytes)?)
}

#[cfg(not(unix))]
fn is_writable(_: u16) -> bool {
    true
}

#[cfg(not(unix))]
fn write_some(bytes: &[u8]) -> io::Result<usize> {
    io::Write::write(&mut io::stderr(), bytes)
}
