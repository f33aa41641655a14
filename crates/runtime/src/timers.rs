//! Deadlines, queue timeouts and announced times to live: what time alone brings about.

use crate::{blocked::spread_late_retry, engine::Inner, task_log};
use futures_util::future::join_all;
use longhaul_core::{
    Clock, Task, UnixMillis,
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
/// The longest time without a look: the system's clock may jump, and another node may have written what is due.
const LONGEST_SLEEP: u64 = 60_000;

/// The earliest moment at which something may be due, as far as this process knows.
pub(crate) struct Alarm {
    at: AtomicI64,
    moved: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            at: AtomicI64::new(i64::MAX),
            moved: Notify::new(),
        }
    }
}

impl Alarm {
    /// Makes sure that the timers look by the moment `task` needs them.
    pub(crate) fn set_for(&self, task: &Task) {
        if let Some(at) = task.wake_at() {
            self.set(at);
        }
    }

    pub(crate) fn set(&self, at: UnixMillis) {
        if at.0 < self.at.fetch_min(at.0, Ordering::SeqCst) {
            self.moved.notify_one();
        }
    }

    /// Forgets the moment that has come. To be called *before* looking: what is set from then on is kept, so a task that is
    /// written while we look is not missed, whether the look saw it or not.
    fn reset(&self) {
        self.at.store(i64::MAX, Ordering::SeqCst);
    }

    /// Completes when it is time to look.
    async fn rings(&self, clock: &dyn Clock) {
        let longest = clock.sleep(Duration::from_millis(LONGEST_SLEEP));
        tokio::pin!(longest);
        loop {
            let at = UnixMillis(self.at.load(Ordering::SeqCst));
            let wait = at.since(clock.now());
            if wait == 0 {
                return;
            }
            tokio::select! {
                biased;
                () = self.moved.notified() => {}
                () = clock.sleep(Duration::from_millis(wait.min(LONGEST_SLEEP))) => {}
                () = &mut longest => return,
            }
        }
    }
}

/// Applies what is due until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        inner.alarm.reset();
        match fire(&inner).await {
            Ok(Fired::Some) => continue,
            Ok(Fired::Nothing { next }) => {
                if let Some(next) = next {
                    inner.alarm.set(next);
                }
                inner.alarm.rings(&*inner.ports.clock).await;
            }
            Ok(Fired::Stuck) => inner.ports.clock.sleep(PAUSE).await,
            Err(error) => {
                if error != StoreError::Locked {
                    warn!(%error, "what is due could not be applied");
                }
                inner.ports.clock.sleep(PAUSE).await;
            }
        }
    }
}

pub(crate) enum Fired {
    /// There may be more.
    Some,
    /// Nothing was due; the next moment, if there is one.
    Nothing { next: Option<UnixMillis> },
    /// Something was due, and none of it could be applied: it moved on by itself meanwhile.
    Stuck,
}

/// Applies what is due now, one batch. Its tasks are changed side by side, so that they share commits; one that fails holds up
/// no other.
pub(crate) async fn fire(inner: &Arc<Inner>) -> Result<Fired, StoreError> {
    let now = inner.now();
    let due = inner.store.due(now, BATCH).await?;
    if due.is_empty() {
        return Ok(Fired::Nothing {
            next: inner.store.next_wake().await?,
        });
    }
    let mut fired = Fired::Stuck;
    let mut failed = None;
    for applied in join_all(due.into_iter().map(|task| apply(inner, task, now))).await {
        match applied {
            Ok(true) => fired = Fired::Some,
            Ok(false) => {}
            Err(ApplyError::Store(error)) => failed = Some(error),
            // The next round sees it as it is now.
            Err(ApplyError::Illegal(_) | ApplyError::NotFound | ApplyError::Stale) => {}
        }
    }
    failed.map_or(Ok(fired), Err)
}

/// Says whether there was anything to apply.
async fn apply(inner: &Arc<Inner>, task: Task, now: UnixMillis) -> Result<bool, ApplyError> {
    let events = spread_late_retry(inner, &task, now, task.due(now));
    if events.is_empty() {
        return Ok(false);
    }
    let change = Change {
        task: task.id,
        fence: None,
        events,
        at: now,
    };
    let task = inner.store.apply(change).await?;
    task_log::ended_if_done(&task);
    inner.changed(&task);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use longhaul_core::BoxFuture;

    /// Stands still.
    struct Noon;
    impl Clock for Noon {
        fn now(&self) -> UnixMillis {
            UnixMillis(1_000)
        }
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
        fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn what_is_set_while_the_timers_look_is_kept() {
        let alarm = Alarm::default();
        alarm.set(UnixMillis(900));
        alarm.reset();
        // Written while the timers look, and not seen by them.
        alarm.set(UnixMillis(950));
        alarm.set(UnixMillis(5_000));
        assert!(alarm.rings(&Noon).now_or_never().is_some());
    }

    #[tokio::test]
    async fn an_earlier_moment_wakes_a_sleeper() {
        let alarm = Alarm::default();
        alarm.set(UnixMillis(5_000));
        let mut rings = Box::pin(alarm.rings(&Noon));
        assert!((&mut rings).now_or_never().is_none());
        alarm.set(UnixMillis(1_000));
        assert!(rings.now_or_never().is_some());
    }
}
