//! Deadlines, queue timeouts and announced times to live: what time alone brings about.

use crate::engine::Inner;
use longhaul_core::{
    Task, UnixMillis,
    store::{ApplyError, Change, StoreError},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tracing::warn;

const BATCH: usize = 256;
/// After an error, or a round in which nothing could be changed.
const PAUSE: Duration = Duration::from_secs(1);
/// Without anything to wait for, how long until the next look; the system's clock may jump.
const LONGEST_SLEEP: u64 = 60_000;

/// When the timer sleeps until, so that an earlier moment can wake it.
pub(crate) struct Alarm {
    at: AtomicI64,
    sooner: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            at: AtomicI64::new(i64::MAX),
            sooner: Notify::new(),
        }
    }
}

impl Alarm {
    /// Makes sure that the timers wake by the moment `task` needs them.
    pub(crate) fn set_for(&self, task: &Task) {
        if task.wake_at().is_some_and(|at| at.0 < self.at.load(Ordering::Acquire)) {
            self.sooner.notify_one();
        }
    }
}

/// Applies what is due until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        let sleep = match fire(&inner).await {
            Ok(Fired::Some) => continue,
            Ok(Fired::Nothing { next }) => {
                inner
                    .alarm
                    .at
                    .store(next.map_or(i64::MAX, |at| at.0), Ordering::Release);
                let now = inner.ports.clock.now();
                Duration::from_millis(next.map_or(LONGEST_SLEEP, |at| at.since(now).clamp(1, LONGEST_SLEEP)))
            }
            Ok(Fired::Stuck) => PAUSE,
            Err(error) => {
                warn!(%error, "due tasks could not be read");
                PAUSE
            }
        };
        tokio::select! {
            () = inner.ports.clock.sleep(sleep) => {}
            () = inner.alarm.sooner.notified() => {}
        }
    }
}

pub(crate) enum Fired {
    /// There may be more.
    Some,
    /// Nothing was due; the next moment, if there is one.
    Nothing { next: Option<UnixMillis> },
    /// Something was due, and none of it could be applied.
    Stuck,
}

/// Applies what is due now, one batch.
pub(crate) async fn fire(inner: &Arc<Inner>) -> Result<Fired, StoreError> {
    let now = inner.ports.clock.now();
    let due = inner.store.due(now, BATCH).await?;
    if due.is_empty() {
        return Ok(Fired::Nothing {
            next: inner.store.next_wake().await?,
        });
    }
    let mut applied = false;
    for task in due {
        let events = task.due(now);
        if events.is_empty() {
            continue;
        }
        match inner
            .store
            .apply(Change {
                task: task.id,
                fence: None,
                events,
                at: now,
            })
            .await
        {
            Ok(task) => {
                applied = true;
                inner.changed(&task);
            }
            // It moved on by itself meanwhile; the next round sees it as it is now.
            Err(ApplyError::Illegal(_) | ApplyError::NotFound | ApplyError::Stale) => {}
            Err(ApplyError::Store(error)) => return Err(error),
        }
    }
    Ok(if applied { Fired::Some } else { Fired::Stuck })
}
