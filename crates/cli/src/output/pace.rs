//! How often a server is asked how a task stands.

use longhaul_client::{RequestError, TaskSnapshot};
use longhaul_core::Millis;
use std::time::Duration;

/// The shortest pause. A server that asks for more time gets it.
const SHORTEST: Millis = 1_000;
/// The longest pause that a server can ask for.
const LONGEST: Millis = 24 * 60 * 60_000;
/// The longest pause after failures of a server that asks for none.
const LONGEST_RETRY: Millis = 15_000;

/// The pauses between the looks at one task.
#[derive(Default)]
pub(crate) struct Pace {
    /// In a row.
    failures: u32,
}

impl Pace {
    /// How long to wait after this look.
    pub(crate) fn after(&mut self, read: Result<&TaskSnapshot, &RequestError>) -> Duration {
        let wait = match read {
            Ok(task) => {
                self.failures = 0;
                task.poll_interval.unwrap_or_default().max(SHORTEST)
            }
            Err(error) => {
                let doubled = SHORTEST << self.failures.min(8);
                self.failures = self.failures.saturating_add(1);
                doubled.min(LONGEST_RETRY).max(error.retry_after().unwrap_or_default())
            }
        };
        Duration::from_millis(wait.min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_no_faster_than_it_wants() {
        let mut pace = Pace::default();
        let busy = |retry_after| RequestError::Http {
            status: 429,
            body: String::new(),
            retry_after,
        };
        for (retry_after, pause) in [
            (None, 1),
            (None, 2),
            (Some(30_000), 30),
            (None, 8),
            (None, 15),
            (None, 15),
        ] {
            assert_eq!(pace.after(Err(&busy(retry_after))), Duration::from_secs(pause));
        }
    }
}
