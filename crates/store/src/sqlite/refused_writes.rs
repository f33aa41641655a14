//! What the log says while writes are refused, as on a full disk: a line when that begins, one a minute, and one when it is over.

use longhaul_core::store::{FULL_DISK_ADVICE, StoreError};
use std::time::{Duration, Instant};

/// Between two lines while writes are refused.
const REMINDER: Duration = Duration::from_secs(60);
/// A write may fit in between: it is over once there was no refusal for so long.
const OVER_AFTER: Duration = Duration::from_secs(10);

/// The refusals since the first one, while they go on.
#[derive(Default)]
pub(super) struct RefusedWrites(Option<Refusals>);

struct Refusals {
    since: Instant,
    last: Instant,
    said: Instant,
    count: u64,
}

/// What the log is to say.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Begun,
    Reminder { count: u64, length: Duration },
    Over { count: u64, length: Duration },
}

impl RefusedWrites {
    /// A write was refused.
    pub(super) fn refused(&mut self, why: &StoreError) {
        let advice = if *why == StoreError::Full {
            FULL_DISK_ADVICE
        } else {
            "look at the disk and at the system's log"
        };
        match self.count(now()) {
            Some(Line::Reminder { count, length }) => {
                tracing::warn!(error = %why, "writes are still refused: {count} in {} s. {advice}", length.as_secs());
            }
            Some(_) => {
                tracing::error!(error = %why, "writes are refused: calls are, too, and what has ended is written later. {advice}");
            }
            None => {}
        }
    }

    /// A write was done.
    pub(super) fn done(&mut self) {
        if self.0.is_none() {
            return;
        }
        if let Some(Line::Over { count, length }) = self.end(now()) {
            // Whoever reads the default log has read when it began.
            tracing::warn!("writes are done again; {count} were refused in {} s", length.as_secs());
        }
    }

    /// Whether they are refused now.
    pub(super) fn go_on(&self) -> bool {
        self.0.is_some()
    }

    fn count(&mut self, now: Instant) -> Option<Line> {
        let Some(refusals) = &mut self.0 else {
            self.0 = Some(Refusals {
                since: now,
                last: now,
                said: now,
                count: 1,
            });
            return Some(Line::Begun);
        };
        refusals.count += 1;
        refusals.last = now;
        if now.duration_since(refusals.said) < REMINDER {
            return None;
        }
        refusals.said = now;
        Some(Line::Reminder {
            count: refusals.count,
            length: now.duration_since(refusals.since),
        })
    }

    fn end(&mut self, now: Instant) -> Option<Line> {
        let over = self
            .0
            .take_if(|refusals| now.duration_since(refusals.last) >= OVER_AFTER)?;
        Some(Line::Over {
            count: over.count,
            length: now.duration_since(over.since),
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "only how often the log says something depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_when_it_begins_once_a_minute_and_when_it_is_over() {
        let (mut writes, start) = (RefusedWrites::default(), now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(writes.count(at(0)), Some(Line::Begun));
        let lines: Vec<Line> = (1..=130).filter_map(|second| writes.count(at(second))).collect();
        let reminder = |count, seconds| Line::Reminder {
            count,
            length: Duration::from_secs(seconds),
        };
        assert_eq!(lines, [reminder(61, 60), reminder(121, 120)]);
        // One that fits in between is not the end.
        assert_eq!(writes.end(at(131)), None);
        assert_eq!(writes.count(at(132)), None);
        let over = Line::Over {
            count: 132,
            length: Duration::from_secs(142),
        };
        assert_eq!(writes.end(at(142)), Some(over));
        assert_eq!(writes.end(at(143)), None);
        assert_eq!(writes.count(at(200)), Some(Line::Begun));
    }
}
