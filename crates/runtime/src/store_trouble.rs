//! What the log says while a loop of the engine finds the store failing.

use longhaul_core::{FailureLine, FailureStreak, store::StoreError};
use std::time::Duration;
use tracing::warn;

/// The failures of one loop.
pub(crate) struct StoreTrouble {
    /// What it cannot do, in words for the log.
    what: &'static str,
    failures: FailureStreak,
}

impl StoreTrouble {
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            failures: FailureStreak::default(),
        }
    }

    /// The loop has met an error, and tries again.
    pub(crate) fn failed(&mut self, error: &StoreError, now: Duration) {
        // Of this one the store itself says when it begins and ends.
        if *error == StoreError::Locked {
            return;
        }
        let what = self.what;
        match self.failures.failed(now) {
            Some(FailureLine::Begun) => warn!(%error, "{what}; trying again"),
            Some(FailureLine::Reminder(so_far)) => warn!(%error, "{what}, still, after {} tries", so_far.count),
            None => {}
        }
    }

    /// The loop has met none.
    pub(crate) fn is_over(&mut self, now: Duration) {
        if let Some(over) = self.failures.end(now) {
            // Whoever reads the default log has read when it began.
            warn!(
                "the store answers again after {} s; until then {}",
                over.length.as_secs(),
                self.what
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_the_stores_own_to_report() {
        let mut trouble = StoreTrouble::new("a queue could not be read");
        trouble.failed(&StoreError::Locked, Duration::ZERO);
        assert!(!trouble.failures.goes_on());
        trouble.failed(&StoreError::Full, Duration::ZERO);
        assert!(trouble.failures.goes_on());
    }
}
