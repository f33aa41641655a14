//! The system's clock, which a test can move on, and set.

use longhaul_core::{BoxFuture, Clock, UnixMillis};
use longhaul_runtime::Ports;
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// Waits until it is so.
pub(crate) async fn until(mut is: impl AsyncFnMut() -> bool) {
    while !is().await {
        tokio::task::yield_now().await;
    }
}

#[derive(Clone)]
pub(crate) struct TestClock {
    system: Arc<dyn Clock>,
    ahead: Arc<watch::Sender<Duration>>,
    /// How much the system clock was set by, in milliseconds.
    set: Arc<AtomicI64>,
    stands: bool,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            system: Ports::system().clock,
            ahead: Arc::new(watch::Sender::new(Duration::ZERO)),
            set: Arc::default(),
            stands: false,
        }
    }
}

impl TestClock {
    /// A clock that stands still until the test moves it.
    pub(crate) fn standing() -> Self {
        Self {
            stands: true,
            ..Self::default()
        }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.ahead.send_modify(|ahead| *ahead += by);
    }

    /// Lets time pass, in steps, until the work is done.
    pub(crate) async fn advance_until<T>(&self, step: Duration, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::task::yield_now() => self.advance(step),
            }
        }
    }

    /// Sets the system clock, and lets no time pass.
    pub(crate) fn set(&self, by: i64) {
        self.set.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixMillis {
        let ahead = u64::try_from(self.ahead.borrow().as_millis()).unwrap();
        let now = self.system.now().plus(ahead);
        UnixMillis(now.0 + self.set.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        let system = if self.stands {
            Duration::ZERO
        } else {
            self.system.monotonic()
        };
        system + *self.ahead.borrow()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (system, mut ahead) = (self.system.sleep(duration), self.ahead.subscribe());
        let until = *ahead.borrow() + duration;
        let stands = self.stands;
        Box::pin(async move {
            tokio::select! {
                () = system, if !stands => {}
                _ = ahead.wait_for(|ahead| *ahead >= until) => {}
            }
        })
    }
}
