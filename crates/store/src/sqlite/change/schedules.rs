//! The rows of schedules.

use super::Tx;
use crate::sqlite::query::{bound, read};
use longhaul_core::{
    TaskId, UnixMillis,
    store::{NewSchedule, ScheduleAdvance, ScheduleCounts, ScheduleRecord, StoreError},
};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use std::sync::Arc;

macro_rules! select_schedules {
    ($rest:literal) => {
        concat!(
            "SELECT name, plan, next_at, paused, last_task, last_start, started, skipped, missed FROM schedules ",
            $rest
        )
    };
}

pub(crate) const BY_NAME: &str = select_schedules!("WHERE name = ?1");
pub(crate) const AFTER: &str = select_schedules!("WHERE name > ?1 ORDER BY name LIMIT ?2");
pub(crate) const REMOVE: &str = "DELETE FROM schedules WHERE name = ?1";
const WRITE: &str = "INSERT INTO schedules (name, plan, next_at, paused, last_task, last_start, started, skipped, missed) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (name) DO UPDATE SET plan = ?2, next_at = ?3, paused = ?4, last_task = ?5, \
     last_start = ?6, started = ?7, skipped = ?8, missed = ?9";

fn record(row: &Row<'_>) -> Result<ScheduleRecord> {
    let count = |column| row.get(column).map(i64::cast_unsigned);
    Ok(ScheduleRecord {
        name: row.get(0)?,
        plan: row.get(1)?,
        next_at: row.get::<_, Option<i64>>(2)?.map(UnixMillis),
        paused: row.get(3)?,
        last_task: row.get::<_, Option<String>>(4)?.and_then(|id| id.parse().ok()),
        last_start: row.get::<_, Option<i64>>(5)?.map(UnixMillis),
        counts: ScheduleCounts {
            started: count(6)?,
            skipped: count(7)?,
            missed: count(8)?,
        },
    })
}

/// [`longhaul_core::store::ScheduleStore::schedule`].
pub(crate) fn by_name(connection: &Connection, name: &str) -> Result<Option<ScheduleRecord>> {
    connection.prepare_cached(BY_NAME)?.query_row([name], record).optional()
}

/// [`longhaul_core::store::ScheduleStore::schedules`].
pub(crate) fn after(connection: &Connection, after: &str, limit: usize) -> Result<Vec<ScheduleRecord>> {
    let mut statement = connection.prepare_cached(AFTER)?;
    let found = statement.query_map(params![after, bound(limit)], record)?;
    found.collect()
}

/// With whether the task that it started last is live.
pub(super) fn load(tx: &Tx<'_>, name: &str) -> Result<Option<(ScheduleRecord, bool)>> {
    let Some(schedule) = by_name(tx.connection, name)? else {
        return Ok(None);
    };
    let last = match &schedule.last_task {
        Some(last) => read::load(tx.connection, last)?,
        None => None,
    };
    Ok(Some((schedule, last.is_some_and(|(_, last)| !last.is_done()))))
}

pub(super) fn write(tx: &Tx<'_>, schedule: &ScheduleRecord) -> Result<()> {
    let ScheduleCounts {
        started,
        skipped,
        missed,
    } = schedule.counts;
    tx.connection.prepare_cached(WRITE)?.execute(params![
        schedule.name,
        schedule.plan,
        schedule.next_at.map(|at| at.0),
        schedule.paused,
        schedule.last_task.as_ref().map(TaskId::as_str),
        schedule.last_start.map(|at| at.0),
        started.cast_signed(),
        skipped.cast_signed(),
        missed.cast_signed(),
    ])?;
    Ok(())
}

/// [`longhaul_core::store::ScheduleStore::put_schedules`].
pub(crate) fn put(tx: &mut Tx<'_>, schedules: &[NewSchedule]) -> Result<Result<Vec<ScheduleRecord>, StoreError>> {
    let mut put = Vec::with_capacity(schedules.len());
    for new in schedules {
        let known = by_name(tx.connection, &new.name)?;
        let is_new = known.is_none();
        let mut schedule = known.unwrap_or_else(|| ScheduleRecord::new(new));
        if schedule.replan(new) || is_new {
            write(tx, &schedule)?;
        }
        put.push(schedule);
    }
    Ok(Ok(put))
}

/// [`longhaul_core::store::ScheduleStore::remove_schedules`].
pub(crate) fn remove(tx: &mut Tx<'_>, names: &[Arc<str>]) -> Result<Result<(), StoreError>> {
    for name in names {
        tx.connection.prepare_cached(REMOVE)?.execute([name])?;
    }
    Ok(Ok(()))
}

/// [`longhaul_core::store::ScheduleStore::advance_schedule`].
pub(crate) fn advance(
    tx: &mut Tx<'_>,
    name: &str,
    plan: &str,
    advance: &ScheduleAdvance,
) -> Result<Result<bool, StoreError>> {
    change(tx, name, |schedule| schedule.advance(plan, advance))
}

/// [`longhaul_core::store::ScheduleStore::set_schedule_paused`].
pub(crate) fn set_paused(tx: &mut Tx<'_>, name: &str, paused: bool) -> Result<Result<bool, StoreError>> {
    change(tx, name, |schedule| {
        schedule.paused = paused;
        true
    })
}

/// Writes a schedule that is known, if `change` says that it has changed it.
fn change(
    tx: &Tx<'_>,
    name: &str,
    change: impl FnOnce(&mut ScheduleRecord) -> bool,
) -> Result<Result<bool, StoreError>> {
    let Some(mut schedule) = by_name(tx.connection, name)? else {
        return Ok(Ok(false));
    };
    let changed = change(&mut schedule);
    if changed {
        write(tx, &schedule)?;
    }
    Ok(Ok(changed))
}
