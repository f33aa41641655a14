//! What becomes of the planned times of schedules, by the checker's own account.

use super::{Checker, Invariant};
use crate::disk;
use longhaul_core::{
    Clock, TaskId, UnixMillis,
    store::{NewTask, ScheduleAdvance, ScheduleRecord, ScheduledStart},
};
use longhaul_runtime::{CatchUp, Overlap, Recurrence, Schedule};
use longhaul_store::MemoryStore;
use std::{collections::BTreeMap, sync::Arc};

/// How late a start may be once the faults are over, in milliseconds: a node looks at its clock once a minute.
const LATEST: u64 = 90_000;

/// The schedules of a world.
#[derive(Default)]
pub(crate) struct KnownSchedules {
    all: BTreeMap<Arc<str>, Schedule>,
    stored: BTreeMap<Arc<str>, KnownSchedule>,
}

/// The account of one.
struct KnownSchedule {
    /// The first planned time of which nothing has become yet.
    next: Option<UnixMillis>,
    paused: bool,
    /// Whether it was paused since its last time has passed.
    was_paused: bool,
    last: Option<TaskId>,
    /// Whether the last task was live since the last time has passed.
    was_live: bool,
    started: u64,
    skipped: u64,
    missed: u64,
}

impl KnownSchedules {
    pub(crate) fn of(all: &[Schedule]) -> Self {
        Self {
            all: (all.iter())
                .map(|schedule| (Arc::clone(&schedule.name), schedule.clone()))
                .collect(),
            stored: BTreeMap::new(),
        }
    }

    /// How many planned times there are from `first` to before `end`; `None` if `end` is none of them.
    fn count(&self, name: &str, first: UnixMillis, end: Option<UnixMillis>) -> Option<u64> {
        let recurrence = &self.all.get(name)?.recurrence;
        let (mut at, mut count) = (first, 1);
        loop {
            match (recurrence.next_after(at), end) {
                (next, end) if next == end => return Some(count),
                (Some(next), Some(end)) if next < end => at = next,
                _ => return None,
            }
            count += 1;
        }
    }
}

impl Checker {
    /// Rows were put. The first one says where the times begin.
    pub(crate) fn schedules_put(&mut self, rows: &[ScheduleRecord]) {
        for row in rows {
            self.schedules
                .stored
                .entry(Arc::clone(&row.name))
                .or_insert(KnownSchedule {
                    next: row.next_at,
                    paused: false,
                    was_paused: false,
                    last: None,
                    was_live: false,
                    started: 0,
                    skipped: 0,
                    missed: 0,
                });
        }
    }

    pub(crate) fn schedule_paused(&mut self, name: &str, paused: bool) {
        if let Some(known) = self.schedules.stored.get_mut(name) {
            known.paused = paused;
            known.was_paused |= paused;
        }
    }

    /// A task was written as the start of a schedule.
    pub(super) fn schedule_started(&mut self, disk: &MemoryStore, new: &NewTask, start: &ScheduledStart) {
        let name = &start.name;
        let skips = self
            .schedules
            .all
            .get(name)
            .is_some_and(|known| known.overlap == Overlap::Skip);
        let Some(known) = self.schedules.stored.get(name) else {
            return self.broken(name, "has started a task before it was put".to_owned());
        };
        if let Some(last) = known.last.as_ref().filter(|last| skips && is_live(disk, last)) {
            let what = format!("has started {} while {} is live", self.name(&new.id), self.name(last));
            return self.broken(name, what);
        }
        if start.advance.is_some() && known.paused {
            return self.broken(name, format!("has started {} while it is paused", self.name(&new.id)));
        }
        if let Some(advance) = &start.advance {
            self.times_pass(name, advance, 1);
        }
        if let Some(known) = self.schedules.stored.get_mut(name) {
            known.started += 1;
            known.last = Some(new.id.clone());
            known.was_live = is_live(disk, &new.id);
            known.was_paused = known.paused;
        }
        self.check_schedule(disk, name);
    }

    /// Planned times have passed without a start.
    pub(crate) fn schedule_advanced(&mut self, disk: &MemoryStore, name: &Arc<str>, advance: &ScheduleAdvance) {
        self.times_pass(name, advance, 0);
        let Some(known) = self.schedules.stored.get_mut(name) else {
            return;
        };
        let may_skip = known.was_paused || known.was_live;
        known.skipped += advance.skipped;
        known.was_paused = known.paused;
        known.was_live = known.last.as_ref().is_some_and(|last| is_live(disk, last));
        let catches_up = (self.schedules.all.get(name)).is_some_and(|known| known.catch_up == CatchUp::Last);
        if advance.skipped > 0 && !may_skip {
            self.broken(name, format!("has skipped {:?} for no reason", advance.expected));
        } else if advance.skipped == 0 && catches_up {
            self.broken(name, format!("has missed {:?}, and catches up", advance.expected));
        }
        self.check_schedule(disk, name);
    }

    /// Each of the times that pass is started, skipped or missed, and it is the next one's turn.
    fn times_pass(&mut self, name: &Arc<str>, advance: &ScheduleAdvance, started: u64) {
        let ScheduleAdvance {
            expected,
            next_at,
            skipped,
            missed,
        } = *advance;
        let count = self.schedules.count(name, expected, next_at);
        let each = (self.schedules.all.get(name)).is_some_and(|known| known.catch_up == CatchUp::All);
        let Some(known) = self.schedules.stored.get_mut(name) else {
            return self.broken(name, "has passed a time before it was put".to_owned());
        };
        let planned = std::mem::replace(&mut known.next, next_at);
        known.missed += missed;
        if planned != Some(expected) {
            self.broken(
                name,
                format!("was to go on with {planned:?}, and has gone on with {expected:?}"),
            );
        } else if count != Some(started + skipped + missed) {
            let what = format!(
                "has {count:?} times from {expected:?} to {next_at:?}: {started} started, {skipped} skipped, {missed} missed"
            );
            self.broken(name, what);
        } else if each && started + skipped > 0 && missed > 0 {
            self.broken(
                name,
                format!("has missed {missed} times with {expected:?}, and starts each"),
            );
        }
    }

    /// Compares the row with the account.
    fn check_schedule(&mut self, disk: &MemoryStore, name: &str) {
        let Some(known) = self.schedules.stored.get(name) else {
            return;
        };
        let account = (known.next, known.paused, known.started, known.skipped, known.missed);
        let row = disk::schedule(disk, name);
        let of_row = row.map(|row| {
            let counts = row.counts;
            (row.next_at, row.paused, counts.started, counts.skipped, counts.missed)
        });
        if of_row != Some(account) {
            self.broken(
                name,
                format!("has the row {of_row:?}, and {account:?} became of its times"),
            );
        }
    }

    fn broken(&mut self, name: &str, what: String) {
        self.report(Invariant::SCHEDULED, format!("{name} {what}"));
    }

    /// A schedule whose time has long come by the clock of a node.
    pub(crate) fn late_schedule(&self, clock: &dyn Clock) -> Option<String> {
        let late = |(name, known): (&Arc<str>, &KnownSchedule)| {
            let schedule = self.schedules.all.get(name)?;
            let now = match schedule.recurrence {
                Recurrence::Cron(_) => clock.wall(),
                Recurrence::Every(_) => clock.now(),
            };
            let next = known.next?;
            let is_late = next.plus(schedule.jitter + LATEST) < now;
            is_late.then(|| format!("{name} was to start at {next:?}, and it is {now:?}"))
        };
        self.schedules.stored.iter().find_map(late)
    }
}

fn is_live(disk: &MemoryStore, id: &TaskId) -> bool {
    disk::record(disk, id).is_some_and(|record| !record.task.is_done())
}
