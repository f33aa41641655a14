//! Attempts that may be at fault for the death of their process: they go on one at a time.
//!
//! A process that dies takes with it all that it runs, and nothing says whose fault that was, so each attempt pays for it. So that no task is
//! blocked for the crashes of another one, the last attempts of a task wait for a turn. Waiting holds no slot, and costs no attempt if the
//! process dies meanwhile. Whoever has the turn is watched until it has come further, has ended, or has run for twice as long as any attempt
//! before it can have: then it is past the point where those died, and they are forgiven.

use crate::{
    TaskContext,
    engine::{Inner, journal::Journal},
};
use longhaul_core::{Event, Millis, Retry, StopReason, Task, UnixMillis, store::ApplyError};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// So many last attempts wait for a turn; never the first.
const LAST: u32 = 2;
/// The shortest watch: starting itself takes its time.
const SHORTEST: Millis = 10_000;
/// The longest. What died later than half of this is not forgiven by time.
const LONGEST: Millis = 600_000;

/// Whose turn it is in this process.
#[derive(Default)]
pub(crate) struct IsolationLock(Arc<Mutex<()>>);

/// Held by the one who is watched.
pub(crate) type IsolationGuard = OwnedMutexGuard<()>;

/// That an attempt is to be watched, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Isolation {
    watch: Millis,
    /// Whether it is past the point where those before it died once the watch is over.
    clears: bool,
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

impl TaskContext {
    /// Waits for the turn of an attempt that is to be watched. Any other goes on at once.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub(crate) async fn wait_for_isolation(&self) -> Result<(), NotStarted> {
        if self.shared.isolation.is_none() {
            return Ok(());
        }
        self.give_slot_back();
        let inner = &self.shared.inner;
        let turn = async {
            let turn = Arc::clone(&inner.isolation_lock.0).lock_owned().await;
            let slot = inner.slots.take_back(&self.shared.tool, self.shared.concurrency).await;
            (turn, slot)
        };
        let (turn, slot) = tokio::select! {
            biased;
            reason = self.stopped() => return Err(NotStarted::Stopped(reason)),
            () = inner.is_releasing() => return Err(NotStarted::Released(inner.now())),
            turn = turn => turn,
        };
        self.hold(slot);
        // Before anything is done: an attempt of which this is not written was still waiting when its process died.
        let begun = inner.retry_store("beginning an attempt", || self.apply(vec![Event::Started]));
        let task = begun.await.map_err(NotStarted::Unwritten)?;
        inner.changed(&task);
        self.has_begun();
        self.set_isolation_guard(Some(turn));
        Ok(())
    }

    /// Ends the watch over this attempt when it has run for long enough; never completes.
    pub(crate) async fn watch_isolated(&self) -> Infallible {
        if let Some(Isolation { watch, clears }) = self.shared.isolation {
            let inner: &Arc<Inner> = &self.shared.inner;
            inner.ports.clock.sleep(Duration::from_millis(watch)).await;
            if clears && self.is_isolated() {
                let cleared = inner.retry_store("clearing an attempt", || self.apply(vec![Event::Advanced]));
                if let (Ok(task), Some(journal)) = (cleared.await, &self.shared.journal) {
                    journal.advance();
                    inner.changed(&task);
                }
            }
            self.set_isolation_guard(None);
        }
        std::future::pending().await
    }
}
