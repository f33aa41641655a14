//! Converts tasks to rows and back.

use super::code::{self, ATTEMPT_STATES, ORIGINS, STOP_REASONS};
use longhaul_core::{
    Attempt, Blocked, HostId, InputKey, Json, Lineage, Millis, NodeId, Outcome, Owner, Principal, Progress, RpcFailure,
    SessionKey, SpecId, State, Stop, Task, TaskHeader, TaskId, UnixMillis, Verdict, store::Idempotency,
};
use rusqlite::{
    CachedStatement, Connection, Result, Row, ToSql, params,
    types::{ToSqlOutput, Type, ValueRef},
};
use std::{borrow::Cow, sync::Arc};

/// `SELECT` of tasks, and of `more` columns, with the rest of the query. The tail names the index; `CROSS JOIN` makes SQLite look up
/// the other tables from the task and never the other way round.
macro_rules! select_tasks {
    ($more:literal, $($tail:literal),+ $(,)?) => {
        concat!(
            "SELECT tasks.seq, tasks.id, principal, session, tool, specs.id, origin, front, announced, tasks.state, stop_reason, \
             stop_at, attempt_epoch, attempt_node, attempt_host, attempt_state, attempts_used, created_at, updated_at, ready_at, \
             queue_timeout, deadline, retention, announced_until, ended_at, status, progress, progress_total, open_inputs, \
             inputs_asked, version, idempotency_key IS NOT NULL, journaled, woken, resume_at, tasks.parent, parent_entry, root, depth, blocked, attempt_changes, retry_until",
            $more,
            " FROM tasks ",
            $($tail),+
        )
    };
}
pub(super) use select_tasks;

/// The first column after those of the task.
pub(super) const MORE: usize = 42;

/// The columns that change in a task's life, in the order of [`changing`].
const CHANGING: [&str; 27] = [
    "announced",
    "state",
    "stop_reason",
    "stop_at",
    "attempt_epoch",
    "attempt_node",
    "attempt_host",
    "attempt_state",
    "attempt_changes",
    "attempts_used",
    "updated_at",
    "ready_at",
    "announced_until",
    "retry_until",
    "ended_at",
    "status",
    "progress",
    "progress_total",
    "open_inputs",
    "inputs_asked",
    "journaled",
    "woken",
    "resume_at",
    "blocked",
    "version",
    "wake_at",
    "delete_at",
];

/// Their values.
fn changing(task: &Task) -> [Cell<'_>; 27] {
    let attempt = task.attempt.as_ref();
    [
        Cell::flag(task.announced),
        Cell::Integer(code::of_state(task.state)),
        Cell::integer(task.stop.map(|stop| code::of(&STOP_REASONS, stop.reason))),
        Cell::timestamp(task.stop.map(|stop| stop.at)),
        Cell::integer(attempt.map(|attempt| i64::from(attempt.epoch))),
        Cell::integer(attempt.map(|attempt| attempt.node.0)),
        Cell::text(attempt.and_then(|attempt| attempt.host.as_ref()).map(|host| &*host.0)),
        Cell::integer(attempt.map(|attempt| code::of(&ATTEMPT_STATES, attempt.state))),
        Cell::integer(attempt.map(|attempt| i64::from(attempt.changes))),
        Cell::Integer(i64::from(task.attempts_used)),
        Cell::Integer(task.updated_at.0),
        Cell::Integer(task.ready_at.0),
        Cell::Integer(task.announced_until.0),
        Cell::timestamp(task.retry_until),
        Cell::timestamp(task.ended_at),
        Cell::text(task.status.as_deref()),
        Cell::real(task.progress.map(|progress| progress.current)),
        Cell::real(task.progress.and_then(|progress| progress.total)),
        Cell::Text(join(&task.open_inputs)),
        Cell::Integer(i64::from(task.inputs_asked)),
        Cell::Integer(i64::from(task.journaled)),
        Cell::Integer(i64::from(task.woken)),
        Cell::timestamp(task.resume_at),
        blocked_cell(task),
        Cell::Integer(task.version.cast_signed()),
        Cell::timestamp(task.wake_at()),
        Cell::timestamp(task.delete_at()),
    ]
}

/// Why a task is blocked. The text is not borrowed, but hardly any task has one.
fn blocked_cell(task: &Task) -> Cell<'_> {
    match &task.blocked {
        Some(blocked) => Cell::Text(Cow::Owned(blocked.to_json().as_str().to_owned())),
        None => Cell::Null,
    }
}

/// One value, borrowed from its task where possible.
#[derive(PartialEq)]
enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Blob(&'a [u8]),
}

impl<'a> Cell<'a> {
    fn flag(value: bool) -> Self {
        Self::Integer(i64::from(value))
    }

    fn integer(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Integer)
    }

    fn timestamp(value: Option<UnixMillis>) -> Self {
        Self::integer(value.map(|at| at.0))
    }

    fn real(value: Option<f64>) -> Self {
        value.map_or(Self::Null, Self::Real)
    }

    fn text(value: Option<&'a str>) -> Self {
        value.map_or(Self::Null, |text| Self::Text(Cow::Borrowed(text)))
    }
}

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
pub(super) fn insert(connection: &Connection, task: &Task, idempotency: Option<&Idempotency>) -> Result<i64> {
    const SQL: &str = "INSERT INTO tasks (id, principal, session, tool, spec, origin, front, created_at, queue_timeout, deadline, \
         retention, idempotency_key, idempotency_digest, parent, parent_entry, root, depth, announced, state, stop_reason, stop_at, attempt_epoch, attempt_node, attempt_host, attempt_state, \
         attempt_changes, attempts_used, updated_at, ready_at, announced_until, retry_until, ended_at, status, progress, progress_total, open_inputs, \
         inputs_asked, journaled, woken, resume_at, blocked, version, wake_at, delete_at) \
         VALUES (?,?,?,?,(SELECT seq FROM specs WHERE id = ?),?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    let mut statement = connection.prepare_cached(SQL)?;
    let lineage = task.lineage.as_ref();
    let fixed: [Cell; 17] = [
        Cell::text(Some(task.id.as_str())),
        Cell::text(Some(task.owner.principal.as_str())),
        Cell::text(task.owner.session.as_ref().map(SessionKey::as_str)),
        Cell::text(Some(&task.tool)),
        Cell::text(Some(task.spec.as_str())),
        Cell::Integer(code::of(&ORIGINS, task.origin)),
        Cell::Integer(task.front.0),
        Cell::Integer(task.created_at.0),
        Cell::integer(task.queue_timeout.map(u64::cast_signed)),
        Cell::integer(task.deadline.map(u64::cast_signed)),
        Cell::Integer(task.retention.cast_signed()),
        Cell::text(idempotency.map(|idempotency| &*idempotency.key)),
        idempotency.map_or(Cell::Null, |idempotency| Cell::Blob(&idempotency.digest)),
        Cell::text(lineage.map(|lineage| lineage.parent.as_str())),
        Cell::integer(lineage.map(|lineage| i64::from(lineage.entry))),
        Cell::text(lineage.map(|lineage| lineage.root.as_str())),
        Cell::integer(lineage.map(|lineage| i64::from(lineage.depth))),
    ];
    bind(&mut statement, fixed.iter().chain(&changing(task)))?;
    statement.raw_execute()?;
    Ok(connection.last_insert_rowid())
}

/// Writes what differs between `before` and `after`, and nothing else: SQLite leaves every index alone whose columns are not named.
pub(super) fn update(connection: &Connection, seq: i64, before: &Task, after: &Task) -> Result<()> {
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
pub(super) fn insert_outcome(connection: &Connection, seq: i64, outcome: &Outcome) -> Result<()> {
    let (json, code, message) = match outcome {
        Outcome::Result { json, .. } => (Some(json), None, None),
        Outcome::RpcError(failure) => (failure.data.as_ref(), Some(failure.code), Some(&*failure.message)),
        Outcome::Cancelled => return Ok(()),
    };
    connection
        .prepare_cached("INSERT INTO outcomes (task, json, code, message) VALUES (?, ?, ?, ?)")?
        .execute(params![seq, json.map(Json::as_str), code, message])?;
    Ok(())
}

/// Reads the task from a row of [`select_tasks`], with its `seq`.
pub(super) fn task(row: &Row<'_>) -> Result<(i64, Task)> {
    let header = TaskHeader {
        id: id(row, 1)?,
        owner: Owner {
            principal: Principal::named(row.get::<_, Arc<str>>(2)?),
            session: row.get::<_, Option<Arc<str>>>(3)?.map(SessionKey::named),
        },
        tool: row.get(4)?,
        spec: SpecId::named(row.get::<_, Arc<str>>(5)?),
        origin: code::read(row, 6, &ORIGINS)?,
        front: NodeId(row.get(7)?),
        created_at: UnixMillis(row.get(17)?),
        queue_timeout: length(row, 20)?,
        deadline: length(row, 21)?,
        retention: row.get::<_, i64>(22)?.cast_unsigned(),
        lineage: lineage(row)?,
    };
    let task = Task {
        header: Arc::new(header),
        announced: row.get(8)?,
        keyed: row.get(31)?,
        state: code::read_state(row, 9)?,
        stop: stop(row)?,
        attempt: attempt(row)?,
        attempts_used: row.get(16)?,
        updated_at: UnixMillis(row.get(18)?),
        ready_at: UnixMillis(row.get(19)?),
        announced_until: UnixMillis(row.get(23)?),
        retry_until: row.get::<_, Option<i64>>(41)?.map(UnixMillis),
        ended_at: row.get::<_, Option<i64>>(24)?.map(UnixMillis),
        status: row.get(25)?,
        progress: match row.get(26)? {
            Some(current) => Some(Progress {
                current,
                total: row.get(27)?,
            }),
            None => None,
        },
        open_inputs: split(row.get_ref(28)?.as_str()?),
        inputs_asked: row.get(29)?,
        journaled: row.get(32)?,
        woken: row.get(33)?,
        resume_at: row.get::<_, Option<i64>>(34)?.map(UnixMillis),
        blocked: blocked(row)?,
        version: row.get::<_, i64>(30)?.cast_unsigned(),
    };
    Ok((row.get(0)?, task))
}

/// Reads the outcome of `task` from the columns `json, code, message` of `outcomes`, beginning at `at`.
pub(super) fn outcome(row: &Row<'_>, at: usize, task: &Task) -> Result<Option<Outcome>> {
    let State::Done(verdict) = task.state else {
        return Ok(None);
    };
    Ok(Some(match verdict {
        Verdict::Succeeded | Verdict::ToolError => Outcome::Result {
            json: json(row, at)?,
            is_error: verdict == Verdict::ToolError,
        },
        Verdict::RpcError => Outcome::RpcError(RpcFailure {
            code: row.get(at + 1)?,
            message: row.get(at + 2)?,
            data: row.get::<_, Option<Arc<str>>>(at)?.map(Json::trusted),
        }),
        Verdict::Cancelled => Outcome::Cancelled,
    }))
}

/// Reads a JSON text that was checked before it was stored.
pub(super) fn json(row: &Row<'_>, column: usize) -> Result<Json> {
    Ok(Json::trusted(row.get::<_, Arc<str>>(column)?))
}

fn length(row: &Row<'_>, column: usize) -> Result<Option<Millis>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
}

pub(super) fn id(row: &Row<'_>, column: usize) -> Result<TaskId> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|_| code::meaningless(column, Type::Text))
}

fn stop(row: &Row<'_>) -> Result<Option<Stop>> {
    let Some(at) = row.get(11)? else { return Ok(None) };
    Ok(Some(Stop {
        reason: code::read(row, 10, &STOP_REASONS)?,
        at: UnixMillis(at),
    }))
}

fn attempt(row: &Row<'_>) -> Result<Option<Attempt>> {
    let Some(epoch) = row.get(12)? else { return Ok(None) };
    Ok(Some(Attempt {
        epoch,
        node: NodeId(row.get(13)?),
        host: row.get::<_, Option<Arc<str>>>(14)?.map(HostId),
        state: code::read(row, 15, &ATTEMPT_STATES)?,
        changes: row.get::<_, Option<u32>>(40)?.unwrap_or_default(),
    }))
}

fn blocked(row: &Row<'_>) -> Result<Option<Arc<Blocked>>> {
    let text = row.get_ref(39)?.as_str_or_null()?;
    let read = |text| Blocked::from_json(text).map_err(|_| code::meaningless(39, Type::Text));
    text.map(read).transpose().map(|blocked| blocked.map(Arc::new))
}

fn lineage(row: &Row<'_>) -> Result<Option<Lineage>> {
    let Some(entry) = row.get(36)? else { return Ok(None) };
    Ok(Some(Lineage {
        parent: id(row, 35)?,
        entry,
        root: id(row, 37)?,
        depth: row.get(38)?,
    }))
}

/// Keys hold no spaces: they are minted by us.
fn join(keys: &[InputKey]) -> Cow<'_, str> {
    match keys {
        [] => Cow::Borrowed(""),
        [one] => Cow::Borrowed(one.as_str()),
        many => Cow::Owned(many.iter().map(InputKey::as_str).collect::<Vec<_>>().join(" ")),
    }
}

fn split(keys: &str) -> Vec<InputKey> {
    keys.split_ascii_whitespace().map(InputKey::named).collect()
}
