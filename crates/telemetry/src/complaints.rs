//! A collector that cannot be reached.

use longhaul_core::Clock;
use std::time::Duration;

/// It is logged once in this time.
const INTERVAL: Duration = Duration::from_secs(60);

/// Logs that a collector does not take what it is sent, and not each time.
pub(crate) struct Complaints {
    collector: String,
    latest: Option<Duration>,
}

impl Complaints {
    pub(crate) fn about(collector: String) -> Self {
        Self {
            collector,
            latest: None,
        }
    }

    pub(crate) fn collector(&self) -> &str {
        &self.collector
    }

    pub(crate) fn log(&mut self, clock: &dyn Clock, why: &str, what: &'static str) {
        let now = clock.monotonic();
        if self.latest.is_none_or(|at| now.saturating_sub(at) >= INTERVAL) {
            self.latest = Some(now);
            tracing::warn!(why, collector = self.collector, "{what}");
        }
    }
}
