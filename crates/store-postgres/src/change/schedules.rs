//! The rows of schedules.

use crate::{
    connection::Work,
    statement::{Execute, Fault, Param, Tx, encode, row},
};
use longhaul_core::{
    TaskId, UnixMillis,
    store::{NewSchedule, ScheduleAdvance, ScheduleCounts, ScheduleRecord},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

macro_rules! select_schedules {
    ($more:literal, $rest:literal) => {
        concat!(
            "SELECT name, plan, next_at, paused, last_task, last_start, started, skipped, missed",
            $more,
            " FROM schedules ",
            $rest
        )
    };
}

/// Before [`LOADED`], which then sees what the transaction before has left also of the tasks.
pub(super) const LOCK: &str = "SELECT 1 FROM schedules WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE";
/// With whether the task that was started last is live.
pub(super) const LOADED: &str = select_schedules!(
    ", EXISTS (SELECT 1 FROM tasks WHERE id = last_task AND state < 3)",
    "WHERE name = ANY($1::text[])"
);
const BY_NAME: &str = select_schedules!("", "WHERE name = $1");
const BY_NAMES: &str = select_schedules!("", "WHERE name = ANY($1::text[])");
const AFTER: &str = select_schedules!("", "WHERE name > $1 ORDER BY name LIMIT $2");
/// In order of the names, so that two nodes that start together do not wait for each other.
const PUT: &str = "INSERT INTO schedules (name, plan, next_at, paused, started, skipped, missed) \
     SELECT name, plan, next_at, 0, 0, 0, 0 FROM unnest($1::text[], $2::text[], $3::bigint[]) AS new (name, plan, next_at) ORDER BY name COLLATE \"C\" \
     ON CONFLICT (name) DO UPDATE SET plan = excluded.plan, next_at = excluded.next_at WHERE schedules.plan <> excluded.plan";
const START: &str = "UPDATE schedules SET next_at = new.next_at, last_task = new.last_task, last_start = new.last_start, \
     started = new.started, skipped = new.skipped, missed = new.missed \
     FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[]) \
     AS new (name, next_at, last_task, last_start, started, skipped, missed) WHERE schedules.name = new.name";
const ADVANCE: &str = "UPDATE schedules SET next_at = $4, skipped = skipped + $5, missed = missed + $6 \
     WHERE name = $1 AND plan = $2 AND next_at = $3";
const SET_PAUSED: &str = "UPDATE schedules SET paused = $2 WHERE name = $1";
pub(crate) const REMOVE: &str = "DELETE FROM schedules WHERE name = ANY($1::text[])";

/// The column behind those of a record.
const MORE: usize = 9;

fn record(found: &tokio_postgres::Row) -> Result<ScheduleRecord, Fault> {
    let count = |column| row::number(found, column).map(i64::cast_unsigned);
    let time = |column| Ok::<_, Fault>(found.try_get::<_, Option<i64>>(column)?.map(UnixMillis));
    let last_task: Option<&str> = found.try_get(4)?;
    Ok(ScheduleRecord {
        name: row::text(found, 0)?,
        plan: row::text(found, 1)?,
        next_at: time(2)?,
        paused: row::number(found, 3)? != 0,
        last_task: last_task.and_then(|id| id.parse().ok()),
        last_start: time(5)?,
        counts: ScheduleCounts {
            started: count(6)?,
            skipped: count(7)?,
            missed: count(8)?,
        },
    })
}

/// As a row of [`LOADED`] has it.
pub(super) fn loaded(found: &tokio_postgres::Row) -> Result<(ScheduleRecord, bool), Fault> {
    Ok((record(found)?, found.try_get(MORE)?))
}

/// [`longhaul_core::store::ScheduleStore::schedule`].
pub(crate) async fn by_name(on: &impl Execute, name: &str) -> Result<Option<ScheduleRecord>, Fault> {
    let found = on.row(BY_NAME, &[&encode(name)]).await?;
    found.as_ref().map(record).transpose()
}

/// [`longhaul_core::store::ScheduleStore::schedules`].
pub(crate) async fn after(on: &impl Execute, after: &str, limit: usize) -> Result<Vec<ScheduleRecord>, Fault> {
    let found = on.rows(AFTER, &[&encode(after), &row::bound(limit)]).await?;
    found.iter().map(record).collect()
}

/// [`longhaul_core::store::ScheduleStore::put_schedules`].
pub(crate) struct Put(pub(crate) Vec<NewSchedule>);

impl Work for Put {
    type Answer = Vec<ScheduleRecord>;

    async fn run(&self, tx: &Tx<'_>) -> Result<Vec<ScheduleRecord>, Fault> {
        let names: Vec<Cow<'_, str>> = self.0.iter().map(|new| encode(&new.name)).collect();
        let plans: Vec<Cow<'_, str>> = self.0.iter().map(|new| encode(&new.plan)).collect();
        let times: Vec<Option<i64>> = self.0.iter().map(|new| new.first_at.map(|at| at.0)).collect();
        tx.execute(PUT, &[&names, &plans, &times]).await?;
        let mut found = HashMap::new();
        for row in &tx.rows(BY_NAMES, &[&names]).await? {
            let schedule = record(row)?;
            found.insert(Arc::clone(&schedule.name), schedule);
        }
        let in_order = self.0.iter().filter_map(|new| found.get(&new.name).cloned());
        Ok(in_order.collect())
    }
}

/// [`longhaul_core::store::ScheduleStore::advance_schedule`].
pub(crate) struct Advance {
    pub(crate) name: String,
    pub(crate) plan: String,
    pub(crate) advance: ScheduleAdvance,
}

impl Work for Advance {
    type Answer = bool;

    async fn run(&self, tx: &Tx<'_>) -> Result<bool, Fault> {
        let ScheduleAdvance {
            expected,
            next_at,
            skipped,
            missed,
        } = &self.advance;
        let (name, plan, next_at) = (encode(&self.name), encode(&self.plan), next_at.map(|at| at.0));
        let (skipped, missed) = (skipped.cast_signed(), missed.cast_signed());
        let params: [Param<'_>; 6] = [&name, &plan, &expected.0, &next_at, &skipped, &missed];
        Ok(tx.execute(ADVANCE, &params).await? > 0)
    }
}

/// [`longhaul_core::store::ScheduleStore::set_schedule_paused`].
pub(crate) struct SetPaused {
    pub(crate) name: String,
    pub(crate) paused: bool,
}

impl Work for SetPaused {
    type Answer = bool;

    async fn run(&self, tx: &Tx<'_>) -> Result<bool, Fault> {
        let paused = i64::from(self.paused);
        Ok(tx.execute(SET_PAUSED, &[&encode(&self.name), &paused]).await? > 0)
    }
}

/// The schedules that start a task, as columns.
pub(super) struct StartedSchedules<'a> {
    names: Vec<Cow<'a, str>>,
    next_at: Vec<Option<i64>>,
    last_tasks: Vec<Option<&'a str>>,
    last_starts: Vec<Option<i64>>,
    started: Vec<i64>,
    skipped: Vec<i64>,
    missed: Vec<i64>,
}

impl<'a> StartedSchedules<'a> {
    pub(super) fn of(schedules: &'a BTreeMap<Arc<str>, ScheduleRecord>) -> Self {
        let all = || schedules.values();
        Self {
            names: all().map(|schedule| encode(&schedule.name)).collect(),
            next_at: all().map(|schedule| schedule.next_at.map(|at| at.0)).collect(),
            last_tasks: all()
                .map(|schedule| schedule.last_task.as_ref().map(TaskId::as_str))
                .collect(),
            last_starts: all().map(|schedule| schedule.last_start.map(|at| at.0)).collect(),
            started: all().map(|schedule| schedule.counts.started.cast_signed()).collect(),
            skipped: all().map(|schedule| schedule.counts.skipped.cast_signed()).collect(),
            missed: all().map(|schedule| schedule.counts.missed.cast_signed()).collect(),
        }
    }

    pub(super) fn add_to<'s>(&'s self, statements: &mut Vec<(&'s str, Vec<Param<'s>>)>) {
        if self.names.is_empty() {
            return;
        }
        let params: Vec<Param<'s>> = vec![
            &self.names,
            &self.next_at,
            &self.last_tasks,
            &self.last_starts,
            &self.started,
            &self.skipped,
            &self.missed,
        ];
        statements.push((START, params));
    }
}
