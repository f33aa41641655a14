//! What the log says while the store fails for something that is tried again: when that begins, once a minute, and when it is over.

use longhaul_core::{FailureLine, FailureStreak, store::StoreError};
use std::time::Duration;
use tracing::warn;

/// The failures of one loop, or of all who do the same again and again.
pub struct StoreTrouble {
    /// What it cannot do, in words for the log.
    what: &'static str,
    failures: FailureStreak,
}

impl StoreTrouble {
    /// `what` cannot be done, in words for the log: "queued tasks could not be started".
    pub fn new(what: &'static str) -> Self {
        Self {
            what,
            failures: FailureStreak::default(),
        }
    }

    /// It has failed, and is tried again.
    pub fn failed(&mut self, error: &StoreError, now: Duration) {
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

    /// It was done.
    pub fn is_over(&mut self, now: Duration) {
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
