//! Where time and chance come in.

use longhaul_core::{BoxFuture, Clock, UnixMillis};
use parking_lot::Mutex;
use std::{
    sync::OnceLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The system's clock and tokio's timers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the Clock port")]
    fn now(&self) -> UnixMillis {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Clock port")]
    fn monotonic(&self) -> Duration {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Clock port")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Chance for jitter. Nothing secret depends on it.
#[derive(Debug)]
pub(crate) struct Dice(Mutex<fastrand::Rng>);

impl Dice {
    /// Starts from `seed`, or from the system's if there is none.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(Mutex::new(
            seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed),
        ))
    }

    /// A number from 0 up to but not including 1.
    pub(crate) fn roll(&self) -> f64 {
        let mut rng = self.0.lock();
        rng.f64()
    }
}
