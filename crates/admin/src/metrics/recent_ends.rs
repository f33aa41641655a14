//! What has become of a tool's work in the last minutes.

use longhaul_core::{State, Task, TaskId, UnixMillis, Verdict};
use std::sync::Arc;

/// Ends are counted by minutes, and so many of them are known.
const MINUTES: usize = 5;
const MINUTE: i64 = 60_000;

/// Ends of the last minutes, and the latest failure.
#[derive(Debug, Default)]
pub(crate) struct RecentEnds {
    /// The number of the minute that is counted now.
    minute: i64,
    /// By the minute's number, modulo their count.
    ends: [u32; MINUTES],
    failed_in_row: u32,
    last_failure: Option<Failure>,
}

/// A task that has failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) task: TaskId,
    pub(crate) at: UnixMillis,
    /// Its last status line.
    pub(crate) reason: Option<Arc<str>>,
}

/// What is read of it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Recent {
    /// Tasks and calls that have ended, for each minute, in the mean of the last five.
    pub(crate) per_minute: f64,
    /// Attempts that have failed since the last task that has succeeded.
    pub(crate) failed_in_row: u32,
    pub(crate) last_failure: Option<Failure>,
}

impl RecentEnds {
    /// An attempt has failed, whether or not its task is tried again.
    pub(crate) fn attempt_failed(&mut self) {
        self.failed_in_row = self.failed_in_row.saturating_add(1);
    }

    pub(crate) fn ended(&mut self, task: &Task, at: UnixMillis) {
        self.turn(at);
        self.ends[slot(self.minute)] += 1;
        match task.state {
            State::Done(Verdict::Succeeded) => self.failed_in_row = 0,
            State::Done(Verdict::Cancelled) => {}
            _ => {
                self.last_failure = Some(Failure {
                    task: task.id.clone(),
                    at,
                    reason: task.status.clone(),
                });
            }
        }
    }

    pub(crate) fn read(&mut self, now: UnixMillis) -> Recent {
        self.turn(now);
        Recent {
            per_minute: f64::from(self.ends.iter().sum::<u32>()) / MINUTES as f64,
            failed_in_row: self.failed_in_row,
            last_failure: self.last_failure.clone(),
        }
    }

    /// Forgets what is older than the minutes that are known.
    fn turn(&mut self, now: UnixMillis) {
        let minute = now.0.div_euclid(MINUTE);
        if minute - self.minute >= MINUTES as i64 {
            self.ends = [0; MINUTES];
        } else {
            for passed in self.minute + 1..=minute {
                self.ends[slot(passed)] = 0;
            }
        }
        self.minute = self.minute.max(minute);
    }
}

fn slot(minute: i64) -> usize {
    minute.rem_euclid(MINUTES as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_for_five_minutes() {
        let mut ends = RecentEnds::default();
        let mut end_at = |minute: i64| {
            ends.turn(UnixMillis(minute * MINUTE));
            ends.ends[slot(minute)] += 5;
            ends.read(UnixMillis(minute * MINUTE)).per_minute
        };
        let counted = [100, 100, 102, 104, 105, 110, 120].map(&mut end_at);
        assert_eq!(counted, [1.0, 2.0, 3.0, 4.0, 3.0, 1.0, 1.0]);
        assert!(ends.read(UnixMillis(125 * MINUTE)).per_minute.abs() < f64::EPSILON);
        // The clock was set back: what is newer is forgotten with its minute.
        ends.turn(UnixMillis(90 * MINUTE));
        assert_eq!(ends.minute, 125);
    }
}
