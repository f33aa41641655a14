//! A task's journal as rows.

use super::{read::bound, row};
use crate::{
    code::{self, ENTRY_KINDS},
    decision::EntryWrite,
    task_row,
};
use longhaul_core::{Entry, EntryKey, TaskId, UnixMillis};
use rusqlite::{Connection, Result, Row, params};

macro_rules! select_entries {
    ($index:literal, $which:literal) => {
        concat!(
            "SELECT journal.seq, kind, nth, beside, at, path, name, value, epoch FROM tasks CROSS JOIN journal ",
            $index,
            " ON journal.task = tasks.seq WHERE tasks.id = ?1 AND journal.seq > ?2 ",
            $which,
            " ORDER BY journal.seq LIMIT ?3"
        )
    };
}

const INSERT: &str = "INSERT INTO journal (task, seq, kind, nth, beside, at, path, name, value, epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
pub(crate) const LENGTH: &str = "SELECT octet_length(value) FROM journal WHERE task = ?1 AND seq = ?2";
pub(crate) const REWRITE: &str =
    "UPDATE journal SET value = ?3, epoch = coalesce(?4, epoch) WHERE task = ?1 AND seq = ?2";
pub(crate) const READ: &str = select_entries!("", "");
/// The index covers the entries of this kind's number, so the statement names the number too.
pub(crate) const EMITTED: &str = select_entries!("INDEXED BY journal_emitted", "AND kind = 5");

/// Writes one entry, and returns how many bytes it replaced.
pub(crate) fn write(connection: &Connection, task: i64, entry: &EntryWrite<'_>) -> Result<i64> {
    match entry {
        EntryWrite::Appended(entry) => {
            connection.prepare_cached(INSERT)?.execute(params![
                task,
                entry.seq,
                code::of(&ENTRY_KINDS, entry.key.kind),
                entry.key.nth,
                entry.beside,
                entry.at.0,
                &entry.key.path,
                &entry.key.name,
                entry.value.as_str(),
                entry.epoch,
            ])?;
            Ok(0)
        }
        EntryWrite::Rewritten { seq, value, epoch } => {
            let length = connection
                .prepare_cached(LENGTH)?
                .query_row(params![task, seq], |row| row.get(0))?;
            connection
                .prepare_cached(REWRITE)?
                .execute(params![task, seq, value.as_str(), epoch])?;
            Ok(length)
        }
    }
}

/// [`longhaul_core::store::JournalStore::journal`] by [`READ`], [`longhaul_core::store::JournalStore::emitted`] by [`EMITTED`].
pub(crate) fn read(connection: &Connection, sql: &str, id: &TaskId, after: u32, limit: usize) -> Result<Vec<Entry>> {
    let mut statement = connection.prepare_cached(sql)?;
    let entries = statement.query_map(params![id.as_str(), after, bound(limit)], entry)?;
    entries.collect()
}

fn entry(row: &Row<'_>) -> Result<Entry> {
    Ok(Entry {
        seq: row.get(0)?,
        key: EntryKey {
            path: row.get(5)?,
            kind: task_row::word(row, 1, &ENTRY_KINDS)?,
            name: row.get(6)?,
            nth: row.get(2)?,
        },
        beside: row.get(3)?,
        value: row::json(row, 7)?,
        at: UnixMillis(row.get(4)?),
        epoch: row.get(8)?,
    })
}
