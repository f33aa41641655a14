//! Starts what is due.

use super::TriggerError;
use crate::{
    engine::Inner,
    ports::LONGEST_SLEEP,
    queue::schedules::{CatchUp, DueSchedule, SCHEDULE_GRACE, Schedule},
};
use futures_util::future::join_all;
use longhaul_core::{
    TaskId, UnixMillis,
    store::{CreateError, ScheduleAdvance, ScheduleConflict, StoreError},
};
use std::{sync::Arc, time::Duration};
use tracing::{debug, info, warn};

/// So many starts share commits.
const BATCH: usize = 256;
/// After a start that has failed, in milliseconds.
const RETRY: u64 = 5_000;

/// Starts what is due until the engine stops. It sleeps until the first time of all; the row of a schedule is read only when its time has come.
pub(crate) async fn run(inner: Arc<Inner>) {
    let clock = &inner.node.ports.clock;
    loop {
        let (due, wait) = {
            let timeline = inner.schedules.timeline();
            (timeline.due(&**clock, BATCH), timeline.wait(&**clock))
        };
        if due.is_empty() {
            let wait = wait.unwrap_or(u64::MAX).clamp(1, LONGEST_SLEEP);
            tokio::select! {
                biased;
                () = inner.schedules.changed() => {}
                () = clock.sleep(Duration::from_millis(wait)) => {}
            }
            continue;
        }
        join_all(due.into_iter().map(|due| fire(&inner, due))).await;
    }
}

/// What one write is to do about the planned times that have come.
#[derive(Debug, PartialEq)]
struct PlannedWrite {
    advance: ScheduleAdvance,
    /// Whether it starts a task.
    starts: bool,
}

impl PlannedWrite {
    fn of(schedule: &Schedule, planned: UnixMillis, now: UnixMillis) -> Self {
        // Those that have come, but whose jitter is not over, come later.
        let mut passed = schedule.recurrence.passed(planned, now);
        while passed.latest.len() > 1 && passed.latest.back().is_some_and(|last| schedule.due(*last) > now) {
            passed.next = passed.latest.pop_back();
            passed.count -= 1;
        }
        let last = passed.latest.back().copied().unwrap_or(planned);
        let step = |next_at, missed, starts| Self {
            advance: ScheduleAdvance {
                expected: planned,
                next_at,
                skipped: 0,
                missed,
            },
            starts,
        };
        match schedule.catch_up {
            CatchUp::All => match passed.count - passed.latest.len() as u64 {
                0 => step(schedule.recurrence.next_after(planned), 0, true),
                missed => step(passed.latest.front().copied(), missed, false),
            },
            CatchUp::None if now.since(schedule.due(last)) > SCHEDULE_GRACE => step(passed.next, passed.count, false),
            CatchUp::None | CatchUp::Last => step(passed.next, passed.count - 1, true),
        }
    }
}

/// Starts a schedule whose time has come, or lets the time pass. Whatever happens, the row has decided it.
async fn fire(inner: &Arc<Inner>, DueSchedule { schedule, planned }: DueSchedule) {
    let now = schedule.now(&*inner.node.ports.clock);
    let PlannedWrite { advance, starts } = PlannedWrite::of(&schedule, planned, now);
    let next_at = advance.next_at;
    let name = &*schedule.name;
    let done = match starts {
        true => start(inner, &schedule, advance).await,
        false => {
            info!(schedule = name, missed = advance.missed, "planned times were missed");
            pass(inner, &schedule, advance).await
        }
    };
    let plan = |planned| inner.schedules.timeline().plan(&schedule, planned);
    match done {
        Ok(true) => plan(next_at),
        Ok(false) => match inner.node.store.schedule(name).await {
            Ok(Some(row)) if *row.plan == schedule.recurrence.to_string() => plan(row.next_at),
            Ok(_) => {
                warn!(
                    schedule = name,
                    "another server has changed or removed this schedule; this one starts it no longer"
                );
                plan(None);
            }
            Err(error) => retry(inner, &schedule, now, &error.to_string()),
        },
        Err(TriggerError::Create(CreateError::Store(StoreError::Closed))) => plan(None),
        Err(error) => retry(inner, &schedule, now, &error.to_string()),
    }
}

/// Returns whether the row was as it was expected.
async fn start(inner: &Arc<Inner>, schedule: &Arc<Schedule>, advance: ScheduleAdvance) -> Result<bool, TriggerError> {
    let skipped = ScheduleAdvance {
        skipped: 1,
        ..advance.clone()
    };
    let refused = match inner.start_scheduled(schedule, Some(advance)).await {
        Ok(task) => {
            debug!(
                schedule = &*schedule.name,
                task = task.id.short(),
                "a schedule has started a task"
            );
            return Ok(true);
        }
        Err(TriggerError::Create(refused)) => refused,
        Err(error) => return Err(error),
    };
    match refused {
        CreateError::Schedule(ScheduleConflict::Moved) => return Ok(false),
        CreateError::Schedule(ScheduleConflict::Paused) => {}
        CreateError::Schedule(ScheduleConflict::Live(last)) => info!(
            schedule = &*schedule.name,
            task = last.short(),
            "a schedule has skipped a start, because the task that it started last is live"
        ),
        CreateError::NotUnique { live } => info!(
            schedule = &*schedule.name,
            task = live.as_ref().map(TaskId::short),
            "a schedule has skipped a start, because a task with the same unique value is live"
        ),
        refused => return Err(refused.into()),
    }
    pass(inner, schedule, skipped).await
}

async fn pass(inner: &Arc<Inner>, schedule: &Schedule, advance: ScheduleAdvance) -> Result<bool, TriggerError> {
    let plan = schedule.recurrence.to_string();
    let store = &inner.node.store;
    match store.advance_schedule(&schedule.name, &plan, advance).await {
        // The row is read again, whichever it was.
        Err(StoreError::OutcomeUnknown(_)) => Ok(false),
        passed => Ok(passed.map_err(CreateError::Store)?),
    }
}

fn retry(inner: &Arc<Inner>, schedule: &Arc<Schedule>, now: UnixMillis, why: &str) {
    if inner.schedules.timeline().retry(schedule, now.plus(RETRY)) {
        warn!(
            schedule = &*schedule.name,
            why, "a schedule could not start its task; trying again until it can"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::schedules::{Overlap, Recurrence};
    use longhaul_core::{Json, Principal};

    fn every_minute(catch_up: CatchUp, jitter: u64) -> Schedule {
        Schedule {
            name: "a".into(),
            tool: "tool".into(),
            arguments: Json::trusted("{}"),
            principal: Principal::local(),
            recurrence: Recurrence::Every(60_000),
            jitter,
            catch_up,
            overlap: Overlap::Queue,
        }
    }

    fn steps(catch_up: CatchUp, jitter: u64, first: i64, now: i64) -> Vec<(u64, bool)> {
        let (schedule, now) = (every_minute(catch_up, jitter), UnixMillis(now));
        let (mut planned, mut steps) = (UnixMillis(first), Vec::new());
        while schedule.due(planned) <= now {
            let step = PlannedWrite::of(&schedule, planned, now);
            assert_eq!(step.advance.expected, planned);
            steps.push((step.advance.missed, step.starts));
            planned = step.advance.next_at.unwrap();
        }
        assert!(schedule.due(planned) > now);
        steps
    }

    #[test]
    fn missed_times_are_caught_up_as_the_schedule_says() {
        let minute = 60_000;
        for catch_up in [CatchUp::None, CatchUp::Last, CatchUp::All] {
            assert_eq!(steps(catch_up, 0, 0, 0), [(0, true)]);
            assert_eq!(steps(catch_up, 0, 0, 59_999), [(0, true)]);
        }
        // The last one is at most a minute late.
        assert_eq!(steps(CatchUp::None, 0, 0, 5 * minute + 1), [(5, true)]);
        assert_eq!(steps(CatchUp::Last, 0, 0, 5 * minute + 1), [(5, true)]);
        assert_eq!(steps(CatchUp::All, 0, 0, 5 * minute + 1), [(0, true); 6]);
        let all = steps(CatchUp::All, 0, 0, 250 * minute);
        assert_eq!((all[0], all.len()), ((151, false), 101));
        assert!(all[1..].iter().all(|step| *step == (0, true)));
        let hourly = Schedule {
            recurrence: Recurrence::Every(60 * minute as u64),
            ..every_minute(CatchUp::None, 0)
        };
        for (late, starts) in [(minute, true), (minute + 1, false)] {
            let step = PlannedWrite::of(&hourly, UnixMillis(0), UnixMillis(120 * minute + late));
            assert_eq!((step.starts, step.advance.missed), (starts, if starts { 2 } else { 3 }));
            assert_eq!(step.advance.next_at, Some(UnixMillis(180 * minute)));
        }
    }

    /// Whatever the jitter is, each time is started or missed once.
    #[test]
    fn jitter_loses_no_time() {
        for jitter in [1_000, 59_000] {
            // Also of more than are caught up.
            for now in (0..600_000).chain(6_000_000..9_000_000).step_by(7_000) {
                let schedule = every_minute(CatchUp::All, jitter);
                let due = (0..200).filter(|nth| schedule.due(UnixMillis(nth * 60_000)) <= UnixMillis(now));
                let steps = steps(CatchUp::All, jitter, 0, now).into_iter();
                let passed: u64 = steps.map(|(missed, starts)| missed + u64::from(starts)).sum();
                assert_eq!(passed, due.count() as u64);
            }
        }
    }
}
