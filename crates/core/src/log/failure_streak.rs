//! What a log says of something that fails again and again: that it has begun, a reminder once a minute, and that it is over.

use std::time::Duration;

/// Between two lines while it goes on.
const REMINDER: Duration = Duration::from_secs(60);

/// The failures of one thing since the first one, while they go on. A log that asks it has few lines, however many failures there are.
///
/// Times are readings of one clock that never goes back, such as [`Clock::monotonic`](crate::Clock::monotonic).
#[derive(Debug, Default)]
pub struct FailureStreak(Option<OngoingStreak>);

#[derive(Debug)]
struct OngoingStreak {
    since: Duration,
    last: Duration,
    said: Duration,
    count: u64,
}

/// What the log is to say of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureLine {
    /// It is the first one.
    Begun,
    /// It goes on.
    Reminder(FailureCount),
}

/// How many failures there were, and in how much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureCount {
    /// All since the first one.
    pub count: u64,
    /// The time since then.
    pub length: Duration,
}

impl FailureStreak {
    /// It has failed. Returns what is to be said of that, if anything.
    pub fn failed(&mut self, now: Duration) -> Option<FailureLine> {
        let Some(ongoing) = &mut self.0 else {
            self.0 = Some(OngoingStreak {
                since: now,
                last: now,
                said: now,
                count: 1,
            });
            return Some(FailureLine::Begun);
        };
        ongoing.count += 1;
        ongoing.last = now;
        if now.saturating_sub(ongoing.said) < REMINDER {
            return None;
        }
        ongoing.said = now;
        Some(FailureLine::Reminder(ongoing.until(now)))
    }

    /// It has succeeded, and that is the end. Returns what there was, if that is to be said.
    pub fn end(&mut self, now: Duration) -> Option<FailureCount> {
        self.end_after(Duration::ZERO, now)
    }

    /// The same of something that may succeed in between: it is the end if the last failure is so long ago.
    pub fn end_after(&mut self, quiet: Duration, now: Duration) -> Option<FailureCount> {
        let over = self.0.take_if(|ongoing| now.saturating_sub(ongoing.last) >= quiet)?;
        Some(over.until(now))
    }

    /// Whether it has failed, and that is not over.
    pub fn goes_on(&self) -> bool {
        self.0.is_some()
    }
}

impl OngoingStreak {
    fn until(&self, now: Duration) -> FailureCount {
        FailureCount {
            count: self.count,
            length: now.saturating_sub(self.since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn counted(count: u64, seconds: u64) -> FailureCount {
        let length = at(seconds);
        FailureCount { count, length }
    }

    #[test]
    fn it_is_said_that_it_begins_once_a_minute_and_that_it_is_over() {
        let mut streak = FailureStreak::default();
        assert_eq!(streak.end(at(100)), None, "nothing has failed");
        assert_eq!(streak.failed(at(100)), Some(FailureLine::Begun));
        let lines: Vec<FailureLine> = (101..=230).filter_map(|second| streak.failed(at(second))).collect();
        let reminders = [counted(61, 60), counted(121, 120)].map(FailureLine::Reminder);
        assert_eq!(lines, reminders);
        assert!(streak.goes_on());
        assert_eq!(streak.end(at(231)), Some(counted(131, 131)));
        assert!(!streak.goes_on());
        assert_eq!(streak.end(at(232)), None, "it was said already");
        assert_eq!(streak.failed(at(233)), Some(FailureLine::Begun));
    }

    #[test]
    fn a_success_in_between_is_not_the_end() {
        let mut streak = FailureStreak::default();
        streak.failed(at(0));
        assert_eq!(streak.end_after(at(10), at(9)), None);
        assert_eq!(streak.failed(at(9)), None);
        assert_eq!(streak.end_after(at(10), at(18)), None);
        assert_eq!(streak.end_after(at(10), at(19)), Some(counted(2, 19)));
    }
}
