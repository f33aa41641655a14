//! What is due when, in memory.

use super::{Recurrence, Schedule};
use longhaul_core::{Clock, Millis, UnixMillis};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A schedule, and what this node knows of its row.
struct TimelineEntry {
    schedule: Arc<Schedule>,
    /// The planned time that its row has, as far as this node knows.
    planned: Option<UnixMillis>,
    /// When it is looked at.
    wake: Option<UnixMillis>,
    /// Whether its last start has failed, so that the log does not say so again.
    is_failing: bool,
}

/// The schedules in the order in which they are due. While nothing is due, only the first of them is looked at.
#[derive(Default)]
pub(crate) struct Timeline {
    schedules: BTreeMap<Arc<str>, TimelineEntry>,
    /// By the system's clock.
    by_wall: BTreeSet<(UnixMillis, Arc<str>)>,
    /// By the engine's clock.
    by_engine: BTreeSet<(UnixMillis, Arc<str>)>,
}

/// A schedule whose time has come.
pub(crate) struct DueSchedule {
    pub(crate) schedule: Arc<Schedule>,
    /// The planned time.
    pub(crate) planned: UnixMillis,
}

impl Timeline {
    pub(crate) fn len(&self) -> usize {
        self.schedules.len()
    }

    pub(crate) fn schedule(&self, name: &str) -> Option<Arc<Schedule>> {
        self.schedules.get(name).map(|entry| Arc::clone(&entry.schedule))
    }

    pub(crate) fn insert(&mut self, schedule: Arc<Schedule>, planned: Option<UnixMillis>) {
        let name = Arc::clone(&schedule.name);
        let entry = TimelineEntry {
            schedule: Arc::clone(&schedule),
            planned: None,
            wake: None,
            is_failing: false,
        };
        self.schedules.insert(name, entry);
        self.plan(&schedule, planned);
    }

    /// The row of a schedule has this time now. Does nothing if the schedule was replaced meanwhile.
    pub(crate) fn plan(&mut self, schedule: &Arc<Schedule>, planned: Option<UnixMillis>) {
        let wake = planned.map(|planned| schedule.due(planned));
        self.set(schedule, |entry| {
            entry.planned = planned;
            entry.is_failing = false;
            wake
        });
    }

    /// Looks at a schedule again at `wake`, by its clock. Returns whether it has failed only now.
    pub(crate) fn retry(&mut self, schedule: &Arc<Schedule>, wake: UnixMillis) -> bool {
        let mut first = false;
        self.set(schedule, |entry| {
            first = !std::mem::replace(&mut entry.is_failing, true);
            Some(wake)
        });
        first
    }

    fn set(&mut self, schedule: &Arc<Schedule>, change: impl FnOnce(&mut TimelineEntry) -> Option<UnixMillis>) {
        let Some(entry) = self.schedules.get_mut(&schedule.name) else {
            return;
        };
        if !Arc::ptr_eq(&entry.schedule, schedule) {
            return;
        }
        let order = match schedule.recurrence {
            Recurrence::Cron(_) => &mut self.by_wall,
            Recurrence::Every(_) => &mut self.by_engine,
        };
        if let Some(before) = entry.wake {
            order.remove(&(before, Arc::clone(&schedule.name)));
        }
        entry.wake = change(entry);
        order.extend(entry.wake.map(|wake| (wake, Arc::clone(&schedule.name))));
    }

    /// Up to `limit` schedules whose time has come, the earliest first.
    pub(crate) fn due(&self, clock: &dyn Clock, limit: usize) -> Vec<DueSchedule> {
        let by_wall = self.by_wall.iter().zip(std::iter::repeat(clock.wall()));
        let by_engine = self.by_engine.iter().zip(std::iter::repeat(clock.now()));
        let mut due = Vec::new();
        for order in [
            &mut by_wall.into_iter() as &mut dyn Iterator<Item = _>,
            &mut by_engine.into_iter(),
        ] {
            let names = order
                .take_while(|((wake, _), now)| wake <= now)
                .map(|((_, name), _)| name);
            due.extend(names.take(limit).filter_map(|name| {
                let entry = self.schedules.get(name)?;
                Some(DueSchedule {
                    schedule: Arc::clone(&entry.schedule),
                    planned: entry.planned?,
                })
            }));
        }
        due
    }

    /// How long it takes until something is due.
    pub(crate) fn wait(&self, clock: &dyn Clock) -> Option<Millis> {
        let first = |order: &BTreeSet<(UnixMillis, Arc<str>)>, now| order.first().map(|(wake, _)| wake.since(now));
        let by_wall = first(&self.by_wall, clock.wall());
        by_wall.into_iter().chain(first(&self.by_engine, clock.now())).min()
    }
}
