//! Converts tasks to rows and back.

use crate::task_row::{self, CHANGING, Cell, changing, fixed, outcome_columns};
use longhaul_core::{
    Json, Outcome, Task, TaskId,
    store::{Idempotency, Uniqueness},
};
use rusqlite::{
    CachedStatement, Connection, Error, Result, Row, ToSql, params,
    types::{FromSqlError, ToSqlOutput, Type, ValueRef},
};

/// `SELECT` of tasks, and of `more` columns, with the rest of the query. The tail names the index; `CROSS JOIN` makes SQLite look up
/// the other tables from the task and never the other way round. With `from` the table before the tasks.
macro_rules! select_tasks {
    (from $from:literal, $($tail:literal),+ $(,)?) => {
        concat!("SELECT tasks.seq, ", $crate::task_columns!("specs.id"), " FROM ", $from, " CROSS JOIN tasks ", $($tail),+)
    };
    ($more:literal, $($tail:literal),+ $(,)?) => {
        concat!(
            "SELECT tasks.seq, ",
            $crate::task_columns!("specs.id"),
            $more,
            " FROM tasks ",
            $($tail),+
        )
    };
}
pub(crate) use select_tasks;

pub(crate) use crate::task_row::MORE;

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

/// Writes a new row and returns its `seq`. A definition that was never put violates `tasks.spec NOT NULL`.
pub(crate) fn insert(
    connection: &Connection,
    task: &Task,
    idempotency: Option<&Idempotency>,
    unique: Option<&Uniqueness>,
) -> Result<i64> {
    const SQL: &str = "INSERT INTO tasks (id, principal, session, tool, spec, origin, front, created_at, queue_timeout, deadline, \
         retention, idempotency_key, idempotency_digest, parent, parent_entry, root, depth, unique_value, unique_arguments, labels, concurrency_group, confirm_by, announced, state, waits_for_group, stop_reason, stop_at, attempt_epoch, attempt_node, attempt_host, attempt_state, \
         attempt_changes, attempts_used, updated_at, priority, ready_at, announced_until, retry_until, ended_at, status, progress, progress_total, open_inputs, \
         inputs_asked, journaled, woken, resume_at, blocked, version, wake_at, delete_at) \
         VALUES (?,?,?,?,(SELECT seq FROM specs WHERE id = ?),?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    let mut statement = connection.prepare_cached(SQL)?;
    let fixed = fixed(task, idempotency, unique);
    bind(&mut statement, fixed.iter().chain(&changing(task)))?;
    statement.raw_execute()?;
    Ok(connection.last_insert_rowid())
}

/// Writes what differs between `before` and `after`, and nothing else: SQLite leaves every index alone whose columns are not named.
pub(crate) fn update(connection: &Connection, seq: i64, before: &Task, after: &Task) -> Result<()> {
    let (before, after) = (changing(before), changing(after));
    let differs = |column: &usize| before[*column] != after[*column];
    let changed: Vec<usize> = (0..CHANGING.len()).filter(differs).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let mut sql = String::from("UPDATE tasks SET ");
    for (n, column) in changed.iter().enumerate() {
        sql.push_str(if n == 0 { "" } else { "," });
        sql.push_str(CHANGING[*column]);
        sql.push_str("=?");
    }
    sql.push_str(" WHERE seq=?");
    let mut statement = connection.prepare_cached(&sql)?;
    let seq = Cell::Integer(seq);
    bind(
        &mut statement,
        changed.iter().map(|column| &after[*column]).chain([&seq]),
    )?;
    statement.raw_execute()?;
    Ok(())
}

fn bind<'a>(statement: &mut CachedStatement<'_>, cells: impl IntoIterator<Item = &'a Cell<'a>>) -> Result<()> {
    for (n, cell) in cells.into_iter().enumerate() {
        statement.raw_bind_parameter(n + 1, cell)?;
    }
    Ok(())
}

/// Stores the outcome of a task. A cancelled task has only its state.
pub(crate) fn insert_outcome(connection: &Connection, seq: i64, outcome: &Outcome) -> Result<()> {
    let Some((json, code, message)) = outcome_columns(outcome) else {
        return Ok(());
    };
    connection
        .prepare_cached("INSERT INTO outcomes (task, json, code, message) VALUES (?, ?, ?, ?)")?
        .execute(params![seq, json.map(Json::as_str), code, message])?;
    Ok(())
}

impl task_row::Row for Row<'_> {
    type Error = Error;

    fn integer(&self, column: usize) -> Result<Option<i64>> {
        self.get(column)
    }

    fn real(&self, column: usize) -> Result<Option<f64>> {
        self.get(column)
    }

    fn text<T>(&self, column: usize, read: impl FnOnce(&str) -> T) -> Result<Option<T>> {
        let value = self.get_ref(column)?;
        let text = value.as_str_or_null();
        let text = text
            .map_err(|error: FromSqlError| Error::FromSqlConversionFailure(column, value.data_type(), error.into()))?;
        Ok(text.map(read))
    }

    fn digest(&self, column: usize) -> Result<Option<[u8; 32]>> {
        self.get(column)
    }

    fn meaningless(&self, column: usize) -> Error {
        Error::FromSqlConversionFailure(column, Type::Null, "a value that has no meaning here".into())
    }
}

/// Reads the task from a row of [`select_tasks`], with its `seq`.
pub(crate) fn task(row: &Row<'_>) -> Result<(i64, Task)> {
    Ok((row.get(0)?, task_row::task(row)?))
}

/// Reads the outcome of `task` from the columns `json, code, message` of `outcomes`, beginning at `at`.
pub(crate) fn outcome(row: &Row<'_>, at: usize, task: &Task) -> Result<Option<Outcome>> {
    task_row::outcome(row, at, task)
}

/// Reads a JSON text that was checked before it was stored.
pub(crate) fn json(row: &Row<'_>, column: usize) -> Result<Json> {
    task_row::json(row, column)
}

pub(crate) fn id(row: &Row<'_>, column: usize) -> Result<TaskId> {
    task_row::id(row, column)
}
