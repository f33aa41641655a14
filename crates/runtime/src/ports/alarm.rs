//! When the timers are read next.

use super::LONGEST_SLEEP;
use longhaul_core::{Clock, Task, UnixMillis};
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};
use tokio::sync::Notify;

/// The earliest time at which something may be due, as far as this process knows.
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
    /// Makes sure that the timers are read by the time `task` needs it.
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

    /// Clears the time. To be called *before* the timers are read: a time that is set from then on is kept, so a task that is
    /// written during the read is not missed.
    pub(crate) fn reset(&self) {
        self.at.store(i64::MAX, Ordering::SeqCst);
    }

    /// Completes when it is time to read the timers.
    pub(crate) async fn wait_until_due(&self, clock: &dyn Clock) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use longhaul_core::BoxFuture;

    /// A clock that stands still.
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
    async fn a_time_that_is_set_while_timers_are_read_is_kept() {
        let alarm = Alarm::default();
        alarm.set(UnixMillis(900));
        alarm.reset();
        // Written while the timers are read, and not seen by them.
        alarm.set(UnixMillis(950));
        alarm.set(UnixMillis(5_000));
        assert!(alarm.wait_until_due(&Noon).now_or_never().is_some());
    }

    #[tokio::test]
    async fn an_earlier_time_ends_the_wait() {
        let alarm = Alarm::default();
        alarm.set(UnixMillis(5_000));
        let mut wait = Box::pin(alarm.wait_until_due(&Noon));
        assert!((&mut wait).now_or_never().is_none());
        alarm.set(UnixMillis(1_000));
        assert!(wait.now_or_never().is_some());
    }
}
