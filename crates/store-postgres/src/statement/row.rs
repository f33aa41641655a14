//! Converts tasks to rows and back.

use super::{Fault, Param, encode, text::decode};
use longhaul_core::{
    Entry, EntryKey, Input, InputKey, InputState, Json, Outcome, Task, TaskId, UnixMillis,
    store::{Claimed, Idempotency, StoreError, Uniqueness},
};
use longhaul_store::{
    code::ENTRY_KINDS,
    task_row::{self, CHANGING, Cell, FIXED, MORE, Row as _},
};
use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};
use tokio_postgres::types::Type;

/// `SELECT` of tasks, and of `more` columns, with the rest of the query. The first column is the bytes of a task's payloads.
macro_rules! select_tasks {
    ($more:literal, $($tail:literal),+ $(,)?) => {
        concat!(
            "SELECT tasks.bytes, ",
            longhaul_store::task_columns!("spec"),
            $more,
            " FROM tasks ",
            $($tail),+
        )
    };
}
pub(crate) use select_tasks;

/// One row of a result.
pub(crate) struct PostgresRow<'a>(pub(crate) &'a tokio_postgres::Row);

impl PostgresRow<'_> {
    fn get<'a, T: tokio_postgres::types::FromSql<'a>>(&'a self, column: usize) -> Result<Option<T>, Fault> {
        Ok(self.0.try_get(column)?)
    }
}

impl task_row::Row for PostgresRow<'_> {
    type Error = Fault;

    fn integer(&self, column: usize) -> Result<Option<i64>, Fault> {
        let kind = self.0.columns().get(column).map(tokio_postgres::Column::type_);
        Ok(match kind {
            Some(&Type::BOOL) => self.get::<bool>(column)?.map(i64::from),
            Some(&Type::INT2) => self.get::<i16>(column)?.map(i64::from),
            Some(&Type::INT4) => self.get::<i32>(column)?.map(i64::from),
            _ => self.get(column)?,
        })
    }

    fn real(&self, column: usize) -> Result<Option<f64>, Fault> {
        self.get(column)
    }

    fn text<T>(&self, column: usize, read: impl FnOnce(&str) -> T) -> Result<Option<T>, Fault> {
        let text: Option<&str> = self.get(column)?;
        Ok(text.map(|text| read(&decode(text))))
    }

    fn digest(&self, column: usize) -> Result<Option<[u8; 32]>, Fault> {
        let digest: Option<&[u8]> = self.get(column)?;
        let whole = |digest: &[u8]| digest.try_into().map_err(|_| self.meaningless(column));
        digest.map(whole).transpose()
    }

    fn meaningless(&self, column: usize) -> Fault {
        let name = self.0.columns().get(column).map_or("", |column| column.name());
        StoreError::Failed(format!("the column `{name}` has a value that has no meaning here")).into()
    }
}

/// Reads a task.
pub(crate) fn task(row: &tokio_postgres::Row) -> Result<Task, Fault> {
    task_row::task(&PostgresRow(row))
}

/// Reads tasks.
pub(crate) fn tasks(rows: &[tokio_postgres::Row]) -> Result<Vec<Task>, Fault> {
    rows.iter().map(task).collect()
}

/// Reads a task that is followed by its arguments and its requestor.
pub(crate) fn claimed(row: &tokio_postgres::Row) -> Result<Claimed, Fault> {
    Ok(Claimed {
        task: task(row)?,
        arguments: task_row::json(&PostgresRow(row), MORE)?,
        requestor: task_row::json(&PostgresRow(row), MORE + 1)?,
    })
}

/// Reads a task that is followed by its outcome.
pub(crate) fn with_outcome(row: &tokio_postgres::Row) -> Result<(Task, Option<Outcome>), Fault> {
    let task = task(row)?;
    let outcome = task_row::outcome(&PostgresRow(row), MORE, &task)?;
    Ok((task, outcome))
}

/// Reads a text.
pub(crate) fn text(row: &tokio_postgres::Row, column: usize) -> Result<Arc<str>, Fault> {
    task_row::text(&PostgresRow(row), column)
}

/// Reads a number.
pub(crate) fn number(row: &tokio_postgres::Row, column: usize) -> Result<i64, Fault> {
    task_row::number(&PostgresRow(row), column)
}

/// Reads the id of a task.
pub(crate) fn id(row: &tokio_postgres::Row, column: usize) -> Result<TaskId, Fault> {
    task_row::id(&PostgresRow(row), column)
}

/// Reads the open questions of `task` from arrays of their keys, names, requests and times, beginning at `at`.
pub(crate) fn open_inputs(row: &tokio_postgres::Row, at: usize, task: &Task) -> Result<Vec<Input>, Fault> {
    let keys: Vec<&str> = row.try_get(at)?;
    let names: Vec<Option<&str>> = row.try_get(at + 1)?;
    let requests: Vec<&str> = row.try_get(at + 2)?;
    let asked_at: Vec<i64> = row.try_get(at + 3)?;
    let open = task.open_inputs.iter().filter_map(|key| {
        let place = keys.iter().position(|other| *other == key.as_str())?;
        Some(Input {
            key: key.clone(),
            name: names
                .get(place)
                .copied()
                .flatten()
                .map(|name| decode(name).as_ref().into()),
            request: Json::trusted(*requests.get(place)?),
            state: InputState::Open,
            asked_at: UnixMillis(*asked_at.get(place)?),
            settled_at: None,
            answered_by: None,
        })
    });
    Ok(open.collect())
}

/// Reads a question: `key, name, request, state, answer, asked_at, settled_at, answered_by`.
pub(crate) fn input(row: &tokio_postgres::Row) -> Result<Input, Fault> {
    let row = PostgresRow(row);
    Ok(Input {
        key: InputKey::named(task_row::text(&row, 0)?),
        name: row.text(1, |name| Arc::from(name))?,
        request: task_row::json(&row, 2)?,
        state: match row.integer(3)? {
            Some(0) => InputState::Open,
            Some(1) => InputState::Answered(task_row::json(&row, 4)?),
            Some(2) => InputState::Withdrawn,
            _ => return Err(row.meaningless(3)),
        },
        asked_at: UnixMillis(task_row::number(&row, 5)?),
        settled_at: task_row::timestamp(&row, 6)?,
        answered_by: task_row::answered_by(&row, 7)?,
    })
}

/// Reads an entry of a journal: `seq, kind, nth, beside, at, path, name, value, epoch`.
pub(crate) fn entry(row: &tokio_postgres::Row) -> Result<Entry, Fault> {
    let row = PostgresRow(row);
    Ok(Entry {
        seq: task_row::count(&row, 0)?,
        key: EntryKey {
            path: task_row::text(&row, 5)?,
            kind: task_row::word(&row, 1, &ENTRY_KINDS)?,
            name: task_row::text(&row, 6)?,
            nth: task_row::count(&row, 2)?,
        },
        beside: task_row::number(&row, 3)? != 0,
        value: task_row::json(&row, 7)?,
        at: UnixMillis(task_row::number(&row, 4)?),
        epoch: task_row::count(&row, 8)?,
    })
}

/// Ids as the value of a parameter.
pub(crate) fn texts<'a>(ids: impl IntoIterator<Item = &'a TaskId>) -> Vec<&'a str> {
    ids.into_iter().map(TaskId::as_str).collect()
}

/// The values of a column of many rows, as one parameter: statements that write many rows have one array for each column.
enum Array<'a> {
    Integers(Vec<Option<i64>>),
    Reals(Vec<Option<f64>>),
    Texts(Vec<Option<Cow<'a, str>>>),
    Blobs(Vec<Option<&'a [u8]>>),
}

impl<'a> Array<'a> {
    fn of(column: &str) -> Self {
        match kind(column) {
            "bigint" => Self::Integers(Vec::new()),
            "double precision" => Self::Reals(Vec::new()),
            "bytea" => Self::Blobs(Vec::new()),
            _ => Self::Texts(Vec::new()),
        }
    }

    /// A value of another type than the column's is stored as nothing; the contract would find it.
    fn push(&mut self, cell: Cell<'a>) {
        match (self, cell) {
            (Self::Integers(values), Cell::Integer(value)) => values.push(Some(value)),
            (Self::Integers(values), _) => values.push(None),
            (Self::Reals(values), Cell::Real(value)) => values.push(Some(value)),
            (Self::Reals(values), _) => values.push(None),
            (Self::Texts(values), Cell::Text(Cow::Borrowed(value))) => values.push(Some(encode(value))),
            (Self::Texts(values), Cell::Text(Cow::Owned(value))) => {
                values.push(Some(Cow::Owned(encode(&value).into_owned())));
            }
            (Self::Texts(values), _) => values.push(None),
            (Self::Blobs(values), Cell::Blob(value)) => values.push(Some(value)),
            (Self::Blobs(values), _) => values.push(None),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Integers(values) => values.is_empty(),
            Self::Reals(values) => values.is_empty(),
            Self::Texts(values) => values.is_empty(),
            Self::Blobs(values) => values.is_empty(),
        }
    }

    fn param(&self) -> Param<'_> {
        match self {
            Self::Integers(values) => values,
            Self::Reals(values) => values,
            Self::Texts(values) => values,
            Self::Blobs(values) => values,
        }
    }
}

/// The type of a column's values as they are sent. Numbers are narrowed by the server.
fn kind(column: &str) -> &'static str {
    match column {
        "id" | "principal" | "session" | "tool" | "spec" | "idempotency_key" | "parent" | "root" | "attempt_host"
        | "status" | "open_inputs" | "blocked" | "labels" => "text",
        "progress" | "progress_total" => "double precision",
        "idempotency_digest" | "unique_value" | "unique_arguments" | "concurrency_group" => "bytea",
        _ => "bigint",
    }
}

/// A task that is written for the first time.
pub(crate) struct InsertedRow<'a> {
    pub(crate) task: &'a Task,
    pub(crate) idempotency: Option<&'a Idempotency>,
    pub(crate) unique: Option<&'a Uniqueness>,
    pub(crate) bytes: i64,
}

/// Rows of tasks to be written with one statement.
pub(crate) struct TaskRows<'a>(Vec<Array<'a>>);

impl<'a> TaskRows<'a> {
    /// Rows for [`INSERT`].
    pub(crate) fn inserted(rows: impl Iterator<Item = InsertedRow<'a>>) -> Self {
        let mut arrays: Vec<Array<'_>> = insert_columns().map(Array::of).collect();
        for row in rows {
            let cells = task_row::fixed(row.task, row.idempotency, row.unique)
                .into_iter()
                .chain(task_row::changing(row.task));
            fill(&mut arrays, cells.chain([Cell::Integer(row.bytes)]));
        }
        Self(arrays)
    }

    /// Rows for [`UPDATE`].
    pub(crate) fn updated(rows: impl Iterator<Item = (&'a Task, i64)>) -> Self {
        let mut arrays: Vec<Array<'_>> = update_columns().map(Array::of).collect();
        for (task, bytes) in rows {
            let id = Cell::Text(Cow::Borrowed(task.id.as_str()));
            let cells = [id].into_iter().chain(task_row::changing(task));
            fill(&mut arrays, cells.chain([Cell::Integer(bytes)]));
        }
        Self(arrays)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.first().is_none_or(Array::is_empty)
    }

    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        self.0.iter().map(Array::param).collect()
    }
}

fn fill<'a>(arrays: &mut [Array<'a>], cells: impl Iterator<Item = Cell<'a>>) {
    for (array, cell) in arrays.iter_mut().zip(cells) {
        array.push(cell);
    }
}

/// The columns of a task's row.
pub(crate) fn insert_columns() -> impl Iterator<Item = &'static str> {
    FIXED.into_iter().chain(CHANGING).chain(["bytes"])
}

fn update_columns() -> impl Iterator<Item = &'static str> {
    ["id"].into_iter().chain(CHANGING).chain(["bytes"])
}

/// Writes new tasks. If another transaction has written one meanwhile, under its id, its idempotency key or its unique value, this fails, and with it the transaction.
pub(crate) static INSERT: LazyLock<String> = LazyLock::new(|| {
    let columns: Vec<&str> = insert_columns().collect();
    format!(
        "INSERT INTO tasks ({}) SELECT * FROM unnest({})",
        columns.join(", "),
        arrays(&columns)
    )
});

/// Writes all that changes of tasks. PostgreSQL compares the values, so an index whose columns stay the same is left alone.
pub(crate) static UPDATE: LazyLock<String> = LazyLock::new(|| {
    let columns: Vec<&str> = update_columns().collect();
    let set: Vec<String> = columns[1..]
        .iter()
        .map(|column| format!("{column} = new.{column}"))
        .collect();
    format!(
        "UPDATE tasks SET {} FROM unnest({}) AS new ({}) WHERE tasks.id = new.id",
        set.join(", "),
        arrays(&columns),
        columns.join(", ")
    )
});

/// `$1::text[], $2::bigint[], …`
fn arrays(columns: &[&str]) -> String {
    let arrays = (1..)
        .zip(columns)
        .map(|(nth, column)| format!("${nth}::{}[]", kind(column)));
    arrays.collect::<Vec<_>>().join(", ")
}

/// A limit as PostgreSQL counts.
pub(crate) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
