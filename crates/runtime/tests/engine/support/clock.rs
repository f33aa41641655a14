use longhaul_core::{BoxFuture, Clock, UnixMillis};
use std::{sync::Mutex, time::Duration};
use tokio::sync::{Notify, oneshot};

/// Stands still until it is moved.
pub(crate) struct ManualClock {
    state: Mutex<State>,
    slept: Notify,
}

struct State {
    now: i64,
    monotonic: i64,
    sleepers: Vec<(i64, oneshot::Sender<()>)>,
}

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                now: 1_700_000_000_000,
                monotonic: 0,
                sleepers: Vec::new(),
            }),
            slept: Notify::new(),
        }
    }

    /// Moves the time on and wakes the sleepers that are due.
    pub(crate) fn advance(&self, millis: i64) {
        let mut state = self.state.lock().unwrap();
        state.now += millis;
        state.monotonic += millis;
        let now = state.now;
        let (due, later) = state.sleepers.drain(..).partition(|(until, _)| *until <= now);
        state.sleepers = later;
        drop(state);
        let due: Vec<(i64, oneshot::Sender<()>)> = due;
        for (_, wake) in due {
            let _ = wake.send(());
        }
    }

    /// Sets the system's clock. Sleeps follow the monotonic clock, so they take as long as before.
    pub(crate) fn jump(&self, millis: i64) {
        let mut state = self.state.lock().unwrap();
        state.now += millis;
        for (until, _) in &mut state.sleepers {
            *until += millis;
        }
    }

    /// Waits until someone sleeps for `millis` from now.
    pub(crate) async fn sleeper(&self, millis: i64) {
        super::guarded("a sleeper", async {
            loop {
                let slept = self.slept.notified();
                if self.sleepers(millis) > 0 {
                    return;
                }
                slept.await;
            }
        })
        .await;
    }

    /// How many sleep for `millis` from now.
    pub(crate) fn sleepers(&self, millis: i64) -> usize {
        let state = self.state.lock().unwrap();
        let at = state.now + millis;
        let mine = state
            .sleepers
            .iter()
            .filter(|(until, wake)| *until == at && !wake.is_closed());
        mine.count()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.state.lock().unwrap().now)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.state.lock().unwrap().monotonic.cast_unsigned())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (wake, woken) = oneshot::channel();
        let mut state = self.state.lock().unwrap();
        let until = state.now + i64::try_from(duration.as_millis()).unwrap();
        state.sleepers.retain(|(_, wake)| !wake.is_closed());
        state.sleepers.push((until, wake));
        drop(state);
        self.slept.notify_waiters();
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}
