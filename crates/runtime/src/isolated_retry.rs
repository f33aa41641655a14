//! Attempts that may be at fault for the death of their process: they go on one at a time.
//!
//! A process that dies takes with it all that it runs, and nothing says whose fault that was, so each attempt pays for it. So that no task is
//! blocked for the crashes of another one, the last attempts of a task wait for a turn. Waiting holds no slot, and costs no attempt if the
//! process dies meanwhile. Whoever has the turn is watched until it has come further, has ended, or has run for twice as long as any attempt
//! before it can have: then it is past the point where those died, and they are forgiven.

use crate::journal::Journal;
use longhaul_core::{Millis, Retry, StopReason, Task, UnixMillis, store::ApplyError};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// So many last attempts wait for a turn; never the first.
const LAST: u32 = 2;
/// The shortest watch: starting itself takes its time.
const SHORTEST: Millis = 10_000;
/// The longest. What died later than half of this is not forgiven by time.
const LONGEST: Millis = 600_000;

/// Whose turn it is in this process.
#[derive(Default)]
pub(crate) struct IsolationLock(pub(crate) Arc<Mutex<()>>);

/// Held by the one who is watched.
pub(crate) type IsolationGuard = OwnedMutexGuard<()>;

/// That an attempt is to be watched, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Isolation {
    pub(crate) watch: Millis,
    /// Whether it is past the point where those before it died once the watch is over.
    pub(crate) clears: bool,
}

impl Isolation {
    /// Of an attempt of `task`, if it is one of the last and its process died under one before it.
    pub(crate) fn of(task: &Task, retry: &Retry, journal: &Journal) -> Option<Self> {
        let used = task.attempts_used;
        if used < 2 || used + LAST <= retry.attempts {
            return None;
        }
        let watch = journal.longest_crash(used - 1)?.saturating_mul(2).max(SHORTEST);
        Some(Self {
            watch: watch.min(LONGEST),
            clears: watch <= LONGEST,
        })
    }
}

/// Why an attempt was not begun though it was its turn, or before it was.
pub(crate) enum NotStarted {
    Stopped(StopReason),
    /// The server stops.
    Released(UnixMillis),
    /// It could not be written that it begins.
    Unwritten(ApplyError),
}
