//! Isolated retries: attempts that may have crashed the process run one at a time.
//!
//! When a process dies, nothing says which of its attempts was at fault, so the crash counts as one attempt for each. So that no task is
//! blocked for the crashes of another one, the last attempts of a task run in isolation. An attempt that waits for that holds no slot, and a
//! crash meanwhile does not count for it. Isolation ends when the attempt makes forward progress, ends, or has run for twice as long as any
//! crashed attempt before it can have: then it is past the point where those crashed, and they no longer count.

use crate::journal::Journal;
use longhaul_core::{Millis, Retry, StopReason, Task, UnixMillis, store::ApplyError};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// How many of the last attempts are isolated; never the first.
const ISOLATED_ATTEMPTS: u32 = 2;
/// The shortest isolation, in milliseconds: starting takes time, too.
const SHORTEST: Millis = 10_000;
/// The longest isolation, in milliseconds. Crashes later than half of this are not cleared by time.
const LONGEST: Millis = 600_000;

/// Held by the one isolated attempt of this process.
#[derive(Default)]
pub(crate) struct IsolationLock(pub(crate) Arc<Mutex<()>>);

/// Ends the isolation when it is dropped.
pub(crate) type IsolationGuard = OwnedMutexGuard<()>;

/// How an attempt is isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Isolation {
    /// How long at most, in milliseconds.
    pub(crate) time: Millis,
    /// Whether the attempt is past the crashes before it after this time, so that they no longer count.
    pub(crate) clears: bool,
}

impl Isolation {
    /// `None` unless the attempt is one of the last, and the process died during one before it.
    pub(crate) fn of(task: &Task, retry: &Retry, journal: &Journal) -> Option<Self> {
        let used = task.attempts_used;
        if used < 2 || used + ISOLATED_ATTEMPTS <= retry.attempts {
            return None;
        }
        let time = journal.longest_crash(used - 1)?.saturating_mul(2).max(SHORTEST);
        Some(Self {
            time: time.min(LONGEST),
            clears: time <= LONGEST,
        })
    }
}

/// Why an isolated attempt was not started.
pub(crate) enum NotStarted {
    Stopped(StopReason),
    /// The server is stopping.
    Released(UnixMillis),
    /// Its start could not be written.
    Unwritten(ApplyError),
}
