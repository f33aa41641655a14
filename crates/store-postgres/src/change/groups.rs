//! Letting tasks into their groups, by one transaction of a group at a time.
//!
//! What a transaction counts lacks what others have not committed yet. So each one that creates a task of a group, or may end one, holds an advisory lock for the group
//! until it ends. It takes all of them in one order, after the [turns of quotas](super::quota_turns) and before any row, so nobody who holds a row waits for one.
//! Which group a task is in never changes, so it is known before the task is locked. A task that waits for its group is changed only by those that hold the group's
//! lock, so letting it in waits for no row.

use crate::{
    connection::Work,
    event::Effects,
    statement::{Fault, Param, PostgresRow, Tx, encode, row},
};
use longhaul_core::{ConcurrencyGroup, UnixMillis, store::QueuePlace};
use longhaul_store::task_row;
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

/// So many groups are filled in one transaction, where all are.
const CHUNK: i64 = 256;

/// Locks the groups of new tasks, and those of tasks that are named. Groups share 256 locks, since a database has room for few: the first byte of a digest is as good a number
/// as any. Locks of two numbers are apart from those of one, which quotas have.
pub(crate) const LOCK: &str = "SELECT turn, pg_advisory_xact_lock(hashtext(current_schema()::text), turn) FROM ( \
         SELECT DISTINCT get_byte(concurrency_group, 0) AS turn FROM ( \
             SELECT unnest($1::bytea[]) AS concurrency_group \
             UNION ALL SELECT concurrency_group FROM tasks WHERE id = ANY($2::text[]) AND concurrency_group IS NOT NULL \
         ) AS named ORDER BY turn \
     ) AS turns";
/// Lets tasks into groups as far as there is room.
pub(crate) const FILL: &str = "UPDATE tasks SET waits_for_group = 0 WHERE id = ANY(ARRAY( \
         SELECT waiting.id FROM unnest($1::text[], $2::bytea[]) AS named (tool, concurrency_group) \
         LEFT JOIN tool_limits ON tool_limits.tool = named.tool \
         CROSS JOIN LATERAL ( \
             SELECT id FROM tasks WHERE state = 0 AND waits_for_group = 1 AND tasks.tool = named.tool AND tasks.concurrency_group = named.concurrency_group \
             ORDER BY priority DESC, ready_at, id LIMIT per_group - ( \
                 SELECT count(*) FROM ( \
                     SELECT 1 FROM tasks WHERE concurrency_group IS NOT NULL AND waits_for_group = 0 AND (state < 3 OR attempt_state < 3) \
                     AND tasks.tool = named.tool AND tasks.concurrency_group = named.concurrency_group LIMIT per_group \
                 ) AS present \
             ) \
         ) AS waiting \
     )) RETURNING tool, priority, ready_at";
/// Groups that others wait for although there is room.
const WITH_ROOM: &str = "SELECT named.tool, named.concurrency_group FROM ( \
         SELECT DISTINCT tool, concurrency_group FROM tasks WHERE state = 0 AND waits_for_group = 1 \
     ) AS named LEFT JOIN tool_limits ON tool_limits.tool = named.tool \
     WHERE per_group IS NULL OR per_group > ( \
         SELECT count(*) FROM ( \
             SELECT 1 FROM tasks WHERE concurrency_group IS NOT NULL AND waits_for_group = 0 AND (state < 3 OR attempt_state < 3) \
             AND tasks.tool = named.tool AND tasks.concurrency_group = named.concurrency_group LIMIT per_group \
         ) AS present \
     ) LIMIT $1";

/// Groups of tools that are to be filled, and the locks that a transaction holds.
#[derive(Default)]
pub(crate) struct Groups {
    named: BTreeSet<(Arc<str>, ConcurrencyGroup)>,
    locks: BTreeSet<i64>,
}

/// Groups as statements take them.
pub(crate) struct GroupColumns<'a> {
    tools: Vec<Cow<'a, str>>,
    groups: Vec<&'a [u8]>,
}

impl Groups {
    /// Takes over what [`LOCK`] has locked.
    pub(crate) fn locked(&mut self, rows: &[tokio_postgres::Row]) -> Result<(), Fault> {
        for row in rows {
            self.locks.insert(row::number(row, 0)?);
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, tool: &Arc<str>, group: ConcurrencyGroup) {
        self.named.insert((Arc::clone(tool), group));
    }

    /// # Errors
    /// A task was created after the groups were locked, and its group was not: the transaction must begin again.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let is_locked = |group: &ConcurrencyGroup| self.locks.contains(&group.0[0].into());
        match self.named.iter().all(|(_, group)| is_locked(group)) {
            true => Ok(()),
            false => Err(Fault::Conflict("a group is not locked".to_owned())),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    pub(crate) fn columns(&self) -> GroupColumns<'_> {
        GroupColumns {
            tools: self.named.iter().map(|(tool, _)| encode(tool)).collect(),
            groups: self.named.iter().map(|(_, group)| &group.0[..]).collect(),
        }
    }
}

impl GroupColumns<'_> {
    /// The parameters of [`FILL`].
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        vec![&self.tools, &self.groups]
    }
}

/// Tells of tasks that [`FILL`] has let in.
pub(crate) fn note(filled: &[tokio_postgres::Row], effects: &mut Effects) -> Result<(), Fault> {
    for row in filled {
        let place = QueuePlace {
            priority: task_row::priority(&PostgresRow(row), 1)?,
            ready_at: UnixMillis(row::number(row, 2)?),
        };
        effects.queue_ready(row::text(row, 0)?, place);
    }
    Ok(())
}

/// [`longhaul_core::store::QueueStore::fill_groups`], of some of the groups that have room. Answers how many tasks were let in; `None` if no group has room.
pub(crate) struct FillSome;

impl Work for FillSome {
    type Answer = Option<(usize, Effects)>;

    async fn run(&self, tx: &Tx<'_>) -> Result<Option<(usize, Effects)>, Fault> {
        let found = tx.rows_of_all(&[(WITH_ROOM, vec![&CHUNK])]).await?;
        let mut groups = Groups::default();
        for row in found.iter().flatten() {
            let digest = task_row::Row::digest(&PostgresRow(row), 1)?;
            if let Some(group) = digest.map(ConcurrencyGroup) {
                groups.add(&row::text(row, 0)?, group);
            }
        }
        if groups.is_empty() {
            return Ok(None);
        }
        let (columns, no_tasks) = (groups.columns(), Vec::<&str>::new());
        let locked = (LOCK, vec![&columns.groups as Param<'_>, &no_tasks]);
        let filled = tx.rows_of_all(&[locked, (FILL, columns.params())]).await?;
        let filled = filled.into_iter().nth(1).unwrap_or_default();
        let mut effects = Effects::default();
        note(&filled, &mut effects)?;
        Ok(Some((filled.len(), effects)))
    }
}
