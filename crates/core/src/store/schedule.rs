//! Schedules as a store keeps them.

use crate::{TaskId, UnixMillis};
use std::sync::Arc;

/// The row of a schedule. It alone decides which starts there are: each moves it on in the write that creates the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// What it is called.
    pub name: Arc<str>,
    /// What decides its times, in words: with another plan they are computed anew.
    pub plan: Arc<str>,
    /// The next planned time, without jitter; `None` if there is none.
    pub next_at: Option<UnixMillis>,
    /// Whether its times pass without a start.
    pub paused: bool,
    /// The task that it started last.
    pub last_task: Option<TaskId>,
    /// When.
    pub last_start: Option<UnixMillis>,
    /// What became of its times so far.
    pub counts: ScheduleCounts,
}

/// What became of the planned times of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleCounts {
    /// Tasks that were created, also by hand.
    pub started: u64,
    /// Times without a start because the task before was live, or the schedule was paused.
    pub skipped: u64,
    /// Times that passed while nothing could start them.
    pub missed: u64,
}

/// A schedule that is offered from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchedule {
    /// What it is called.
    pub name: Arc<str>,
    /// See [`ScheduleRecord::plan`].
    pub plan: Arc<str>,
    /// Its first planned time, unless it is known with this plan.
    pub first_at: Option<UnixMillis>,
}

/// That a planned time is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleAdvance {
    /// The planned time. Refused unless the row still has it.
    pub expected: UnixMillis,
    /// The one after it.
    pub next_at: Option<UnixMillis>,
    /// How many times are counted as skipped with it.
    pub skipped: u64,
    /// How many times are counted as missed with it.
    pub missed: u64,
}

/// That a new task is the start of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledStart {
    /// Which one.
    pub name: Arc<str>,
    /// The plan that its times were computed with. Refused unless the row has it.
    pub plan: Arc<str>,
    /// The planned time; `None` for a start by hand, which is made also while the schedule is paused, and changes no time.
    pub advance: Option<ScheduleAdvance>,
    /// Refuse it while the task that was started last is live.
    pub skip_if_live: bool,
}

/// Why a schedule has not started a task. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleConflict {
    /// Its row is gone, or has another plan or another planned time: another node was quicker, or its configuration has changed.
    #[error("another server has started, changed or removed the schedule")]
    Moved,
    /// It is paused.
    #[error("the schedule is paused")]
    Paused,
    /// The task that it started last is live.
    #[error("the task that it started last is still live")]
    Live(TaskId),
}

impl ScheduleRecord {
    /// The row of a schedule that was not known before.
    pub fn new(new: &NewSchedule) -> Self {
        Self {
            name: Arc::clone(&new.name),
            plan: Arc::clone(&new.plan),
            next_at: new.first_at,
            paused: false,
            last_task: None,
            last_start: None,
            counts: ScheduleCounts::default(),
        }
    }

    /// Takes over another plan. Returns whether anything changes.
    pub fn replan(&mut self, new: &NewSchedule) -> bool {
        if self.plan == new.plan {
            return false;
        }
        self.plan = Arc::clone(&new.plan);
        self.next_at = new.first_at;
        true
    }

    /// Moves on to the next planned time. Returns whether it did.
    pub fn advance(&mut self, plan: &str, advance: &ScheduleAdvance) -> bool {
        if *self.plan != *plan || self.next_at != Some(advance.expected) {
            return false;
        }
        self.next_at = advance.next_at;
        self.counts.skipped += advance.skipped;
        self.counts.missed += advance.missed;
        true
    }

    /// Records that it starts `task` at `at`. `last_is_live` says whether the task that it started last is live.
    ///
    /// # Errors
    /// Why it does not; it is unchanged then.
    pub fn start(
        &mut self,
        start: &ScheduledStart,
        task: &TaskId,
        at: UnixMillis,
        last_is_live: bool,
    ) -> Result<(), ScheduleConflict> {
        if self.plan != start.plan {
            return Err(ScheduleConflict::Moved);
        }
        if let Some(advance) = &start.advance {
            if self.next_at != Some(advance.expected) {
                return Err(ScheduleConflict::Moved);
            }
            if self.paused {
                return Err(ScheduleConflict::Paused);
            }
        }
        if let Some(last) = self.last_task.as_ref().filter(|_| start.skip_if_live && last_is_live) {
            return Err(ScheduleConflict::Live(last.clone()));
        }
        if let Some(advance) = &start.advance {
            self.advance(&start.plan, advance);
        }
        self.last_task = Some(task.clone());
        self.last_start = Some(at);
        self.counts.started += 1;
        Ok(())
    }
}
