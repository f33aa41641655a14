//! What the log says while a loop of the engine finds the store failing: a line when that begins, one a minute, and one when it is over.

use longhaul_core::{Millis, UnixMillis, store::StoreError};
use tracing::warn;

/// Between two lines while the store fails.
const REMINDER: Millis = 60_000;

/// The failures of one loop since the first one, while they go on.
pub(crate) struct StoreTrouble {
    /// What it cannot do, in words for the log.
    what: &'static str,
    failures: Option<Failures>,
}

struct Failures {
    since: UnixMillis,
    said: UnixMillis,
    count: u64,
}

/// What the log is to say.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Begun,
    Reminder { count: u64 },
}

impl StoreTrouble {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, failures: None }
    }

    /// The loop has met an error, and tries again.
    pub(crate) fn failed(&mut self, error: &StoreError, now: UnixMillis) {
        // Of this one the store itself says when it begins and ends.
        if *error == StoreError::Locked {
            return;
        }
        let what = self.what;
        match self.count(now) {
            Some(Line::Begun) => warn!(%error, "{what}; trying again"),
            Some(Line::Reminder { count }) => warn!(%error, "{what}, still, after {count} tries"),
            None => {}
        }
    }

    /// The loop has met none.
    pub(crate) fn is_over(&mut self, now: UnixMillis) {
        if let Some(failures) = self.failures.take() {
            // Whoever reads the default log has read when it began.
            warn!(
                "the store answers again after {} s; until then {}",
                now.since(failures.since) / 1_000,
                self.what
            );
        }
    }

    fn count(&mut self, now: UnixMillis) -> Option<Line> {
        let Some(failures) = &mut self.failures else {
            self.failures = Some(Failures {
                since: now,
                said: now,
                count: 1,
            });
            return Some(Line::Begun);
        };
        failures.count += 1;
        if now.since(failures.said) < REMINDER {
            return None;
        }
        failures.said = now;
        Some(Line::Reminder { count: failures.count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_when_it_begins_once_a_minute_and_when_it_is_over() {
        let mut trouble = StoreTrouble::new("a queue could not be read");
        let at = |seconds: i64| UnixMillis(seconds * 1_000);
        assert_eq!(trouble.count(at(0)), Some(Line::Begun));
        let lines: Vec<Line> = (1..=130).filter_map(|second| trouble.count(at(second))).collect();
        assert_eq!(lines, [Line::Reminder { count: 61 }, Line::Reminder { count: 121 }]);
        trouble.is_over(at(131));
        assert_eq!(trouble.count(at(132)), Some(Line::Begun));
        // A lock is the store's own to report.
        let mut trouble = StoreTrouble::new("a queue could not be read");
        trouble.failed(&StoreError::Locked, at(0));
        assert!(trouble.failures.is_none());
    }
}
