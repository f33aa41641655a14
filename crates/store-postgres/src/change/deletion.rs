//! What is deleted, and what is forgotten with time.

use super::{Ledger, Part};
use crate::{
    connection::Work,
    statement::{Execute, Fault, Param, Then, Tx, encode, row, texts},
};
use longhaul_core::{HostId, Principal, TaskId, UnixMillis, store::TOMBSTONE_RETENTION};
use longhaul_store::usage::UsageChange;

const LOCK: &str = "SELECT id, principal, bytes, labels IS NOT NULL FROM tasks WHERE id = ANY($1::text[]) AND delete_at <= $2 ORDER BY id FOR UPDATE";
/// The same of those that no other node deletes now.
const LOCK_FREE: &str = "SELECT id, principal, bytes, labels IS NOT NULL FROM tasks WHERE id = ANY($1::text[]) AND delete_at <= $2 ORDER BY id FOR UPDATE SKIP LOCKED";
const LEAVE_TOMBSTONES: &str = "INSERT INTO tombstones (host, task, at) \
     SELECT host, task, $3 FROM task_hosts WHERE task = ANY($1::text[]) AND host <> $2 ON CONFLICT DO NOTHING";
const DELETE_LABELS: &str = "DELETE FROM task_labels WHERE task = ANY($1::text[])";
/// A task and all that belongs to it.
const DELETE: [&str; 6] = [
    "DELETE FROM task_hosts WHERE task = ANY($1::text[])",
    "DELETE FROM journal WHERE task = ANY($1::text[])",
    "DELETE FROM inputs WHERE task = ANY($1::text[])",
    "DELETE FROM outcomes WHERE task = ANY($1::text[])",
    "DELETE FROM arguments WHERE task = ANY($1::text[])",
    "DELETE FROM tasks WHERE id = ANY($1::text[])",
];

/// When what was asked to be deleted is due.
pub(crate) const WHENEVER: UnixMillis = UnixMillis(i64::MAX);

/// [`longhaul_core::store::TaskStore::delete`], and [`longhaul_core::store::TaskStore::delete_ended`] with `due` [`WHENEVER`].
pub(crate) struct Delete {
    pub(crate) host: HostId,
    pub(crate) ids: Vec<TaskId>,
    pub(crate) due: UnixMillis,
    pub(crate) at: UnixMillis,
    pub(crate) part: Part,
}

impl Work for Delete {
    type Answer = usize;

    async fn run(&self, tx: &Tx<'_>) -> Result<usize, Fault> {
        forget_sessions(tx, self.at).await?;
        let oldest = self.at.0.saturating_sub_unsigned(TOMBSTONE_RETENTION);
        tx.execute("DELETE FROM tombstones WHERE at <= $1", &[&oldest]).await?;
        let ids = texts(&self.ids);
        // What somebody has asked to delete must be gone, whoever deletes it.
        let lock = if self.due == WHENEVER { LOCK } else { LOCK_FREE };
        let found = tx.rows(lock, &[&ids, &self.due.0]).await?;
        if found.is_empty() {
            return Ok(0);
        }
        let (mut deleted, mut ledger) = (Vec::with_capacity(found.len()), Ledger::default());
        let mut are_labelled = false;
        for row in &found {
            deleted.push(row::id(row, 0)?);
            are_labelled |= row.try_get::<_, bool>(3)?;
            let change = UsageChange {
                live: 0,
                bytes: -row::number(row, 2)?,
            };
            ledger.add(&Principal::named(row::text(row, 1)?), change);
        }
        let ids = texts(&deleted);
        let host = encode(&self.host.0);
        tx.execute(LEAVE_TOMBSTONES, &[&ids, &host, &self.at.0]).await?;
        let labels = are_labelled.then_some(DELETE_LABELS);
        let statements: Vec<_> = labels
            .into_iter()
            .chain(DELETE)
            .map(|sql| (sql, vec![&ids as Param<'_>]))
            .collect();
        tx.execute_all(&statements, Then::Continue).await?;
        let changes = ledger.changes(self.part);
        let mut statements = Vec::new();
        changes.add_to(&mut statements);
        tx.execute_all(&statements, Then::Continue).await?;
        Ok(deleted.len())
    }
}

/// Forgets ended sessions whose time is over.
pub(crate) async fn forget_sessions(tx: &Tx<'_>, at: UnixMillis) -> Result<(), Fault> {
    tx.execute("DELETE FROM ended_sessions WHERE until <= $1", &[&at.0])
        .await
        .map(drop)
}
