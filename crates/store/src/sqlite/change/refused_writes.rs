//! What the log says while writes are refused, as on a full disk.

use longhaul_core::{
    FailureLine, FailureStreak,
    store::{FULL_DISK_ADVICE, StoreError},
};
use std::time::{Duration, Instant};

/// A write may fit in between: it is over once there was no refusal for so long.
const OVER_AFTER: Duration = Duration::from_secs(10);

/// The refusals since the first one, while they go on.
pub(crate) struct RefusedWrites {
    refusals: FailureStreak,
    /// What times are counted from.
    opened: Instant,
}

impl Default for RefusedWrites {
    #[expect(
        clippy::disallowed_methods,
        reason = "only how often the log says something depends on it"
    )]
    fn default() -> Self {
        Self {
            refusals: FailureStreak::default(),
            opened: Instant::now(),
        }
    }
}

impl RefusedWrites {
    /// A write was refused.
    pub(crate) fn refused(&mut self, why: &StoreError) {
        let advice = if *why == StoreError::Full {
            FULL_DISK_ADVICE
        } else {
            "look at the disk and at the system's log"
        };
        match self.refusals.failed(self.opened.elapsed()) {
            Some(FailureLine::Reminder(so_far)) => {
                let (count, seconds) = (so_far.count, so_far.length.as_secs());
                tracing::warn!(error = %why, "writes are still refused: {count} in {seconds} s. {advice}");
            }
            Some(FailureLine::Begun) => {
                tracing::error!(error = %why, "writes are refused: calls are, too, and what has ended is written later. {advice}");
            }
            None => {}
        }
    }

    /// A write was done.
    pub(crate) fn done(&mut self) {
        if !self.go_on() {
            return;
        }
        if let Some(over) = self.refusals.end_after(OVER_AFTER, self.opened.elapsed()) {
            // Whoever reads the default log has read when it began.
            let (count, seconds) = (over.count, over.length.as_secs());
            tracing::warn!("writes are done again; {count} were refused in {seconds} s");
        }
    }

    /// Whether they are refused now.
    pub(crate) fn go_on(&self) -> bool {
        self.refusals.goes_on()
    }
}
