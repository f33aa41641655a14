//! Letting tasks into their groups.

use super::Tx;
use crate::task_row;
use longhaul_core::{
    ConcurrencyGroup, UnixMillis,
    store::{QueuePlace, StoreError},
};
use rusqlite::{OptionalExtension, Result, Row, params};
use std::sync::Arc;

pub(crate) const LIMIT: &str = "SELECT per_group FROM tool_limits WHERE tool = ?1";
/// Counts no further than the limit.
pub(crate) const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_in_group \
     WHERE concurrency_group IS NOT NULL AND waits_for_group = 0 AND (state < 3 OR attempt_state < 3) AND tool = ?1 AND concurrency_group = ?2 LIMIT ?3)";
pub(crate) const WAITING: &str = "SELECT seq, priority, ready_at FROM tasks INDEXED BY tasks_waiting_for_group \
     WHERE state = 0 AND waits_for_group = 1 AND tool = ?1 AND concurrency_group = ?2 ORDER BY priority DESC, ready_at, id LIMIT ?3";
pub(crate) const LET_IN: &str = "UPDATE tasks SET waits_for_group = 0 WHERE seq = ?1";
/// Only at a start, and after a limit has changed.
pub(crate) const GROUPS: &str = "SELECT DISTINCT tool, concurrency_group FROM tasks INDEXED BY tasks_waiting_for_group \
     WHERE state = 0 AND waits_for_group = 1";

/// Lets tasks into a group of `tool` as far as there is room, and returns how many.
pub(super) fn fill(tx: &mut Tx<'_>, tool: &Arc<str>, group: ConcurrencyGroup) -> Result<usize> {
    if waiting(tx, tool, group, 1)?.is_empty() {
        return Ok(0);
    }
    let mut limit = tx.connection.prepare_cached(LIMIT)?;
    let limit: Option<Option<i64>> = limit.query_row([tool], |row| row.get(0)).optional()?;
    let limit = limit.flatten().unwrap_or(i64::MAX);
    let mut count = tx.connection.prepare_cached(COUNT)?;
    let present: i64 = count.query_row(params![tool, group.0, limit], |row| row.get(0))?;
    let first = waiting(tx, tool, group, limit - present)?;
    let mut let_in = tx.connection.prepare_cached(LET_IN)?;
    for (seq, place) in &first {
        let_in.execute([seq])?;
        tx.queue_ready(tool, *place);
    }
    Ok(first.len())
}

/// The first tasks that wait for a group.
fn waiting(tx: &Tx<'_>, tool: &str, group: ConcurrencyGroup, most: i64) -> Result<Vec<(i64, QueuePlace)>> {
    let waiting = |row: &Row<'_>| {
        let place = QueuePlace {
            priority: task_row::priority(row, 1)?,
            ready_at: UnixMillis(row.get(2)?),
        };
        Ok((row.get(0)?, place))
    };
    let mut first = tx.connection.prepare_cached(WAITING)?;
    first.query_map(params![tool, group.0, most], waiting)?.collect()
}

/// [`longhaul_core::store::QueueStore::fill_groups`].
pub(crate) fn fill_all(tx: &mut Tx<'_>) -> Result<Result<usize, StoreError>> {
    let group = |row: &Row<'_>| Ok((row.get::<_, Arc<str>>(0)?, ConcurrencyGroup(row.get(1)?)));
    let mut groups = tx.connection.prepare_cached(GROUPS)?;
    let groups: Vec<_> = groups.query_map([], group)?.collect::<Result<_>>()?;
    let mut filled = 0;
    for (tool, group) in groups {
        filled += fill(tx, &tool, group)?;
    }
    Ok(Ok(filled))
}
