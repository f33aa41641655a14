//! When a schedule starts something.

use super::cron::Cron;
use longhaul_core::{Millis, UnixMillis, format_duration};
use std::{collections::VecDeque, fmt};

/// How many missed times are started at most; of more, the latest.
const CATCH_UP_AT_MOST: u64 = 100;
/// A time that is found later than this was missed, in milliseconds.
pub const SCHEDULE_GRACE: Millis = 60_000;
/// So many times are counted; of a schedule that was away for longer the rest is passed over.
const COUNTED_AT_MOST: usize = 1_000_000;

/// The planned times of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum Recurrence {
    /// Times of the day, by the system's clock.
    Cron(Cron),
    /// A length of time from the last planned time, in milliseconds, by the engine's clock. Not 0.
    Every(Millis),
}

/// The text that a store keeps: with another one the times are computed anew.
impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(cron) => cron.fmt(f),
            Self::Every(length) => write!(f, "every {}", format_duration(*length)),
        }
    }
}

impl Recurrence {
    /// The planned time after `planned`; `None` if there is none any more.
    pub fn next_after(&self, planned: UnixMillis) -> Option<UnixMillis> {
        match self {
            Self::Cron(cron) => cron.next_after(planned),
            Self::Every(length) => Some(planned.plus((*length).max(1))),
        }
    }

    /// The planned times from `first` to `now`, as far as they matter. `first` is not after `now`.
    pub(crate) fn passed(&self, first: UnixMillis, now: UnixMillis) -> PassedTimes {
        if let Self::Every(length) = self {
            let length = (*length).max(1);
            let count = now.since(first) / length + 1;
            let nth = |nth: u64| first.plus(length.saturating_mul(nth));
            return PassedTimes {
                latest: (count.saturating_sub(CATCH_UP_AT_MOST)..count).map(nth).collect(),
                count,
                next: Some(nth(count)),
            };
        }
        let mut latest = VecDeque::from([first]);
        let (mut count, mut next) = (1, self.next_after(first));
        while let Some(at) = next.filter(|at| *at <= now) {
            if count as usize >= COUNTED_AT_MOST {
                next = self.next_after(now);
                break;
            }
            count += 1;
            latest.push_back(at);
            if latest.len() as u64 > CATCH_UP_AT_MOST {
                latest.pop_front();
            }
            next = self.next_after(at);
        }
        PassedTimes { latest, count, next }
    }
}

/// Planned times that have come.
#[derive(Debug, PartialEq)]
pub(crate) struct PassedTimes {
    /// The last ones, in order: one at least, [`CATCH_UP_AT_MOST`] at most.
    pub(crate) latest: VecDeque<UnixMillis>,
    /// How many there were.
    pub(crate) count: u64,
    /// The one that comes after them.
    pub(crate) next: Option<UnixMillis>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_is_counted_alike() {
        let minutely = Recurrence::Cron(Cron::parse("* * * * *", "UTC").unwrap());
        let every = Recurrence::Every(60_000);
        for passed in [0, 59_999, 60_000, 99 * 60_000, 100 * 60_000, 777 * 60_000 + 5] {
            let now = UnixMillis(120_000 + passed);
            let of_cron = minutely.passed(UnixMillis(120_000), now);
            assert_eq!(of_cron, every.passed(UnixMillis(120_000), now), "{passed}");
            let count = passed.cast_unsigned() / 60_000 + 1;
            assert_eq!(of_cron.count, count);
            assert_eq!(of_cron.latest.len() as u64, count.min(CATCH_UP_AT_MOST));
            assert_eq!(of_cron.next, Some(UnixMillis(120_000).plus(count * 60_000)));
        }
    }
}
