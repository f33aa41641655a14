//! How a task is kept as the row of a table, in every database alike.

use crate::code::{self, ANSWERED_BY, ATTEMPT_STATES, CONFIRM_BY, ORIGINS, STOP_REASONS};
use longhaul_core::{
    AnsweredBy, Attempt, Blocked, ConcurrencyGroup, ConfirmBy, HostId, InputKey, Json, Labels, Lineage, Millis, NodeId,
    Outcome, Owner, Principal, Priority, Progress, RpcFailure, SessionKey, SpecId, State, Stop, Task, TaskHeader,
    TaskId, UnixMillis, Verdict,
    store::{Idempotency, Uniqueness},
};
use std::{borrow::Cow, sync::Arc};

/// One row of a result, as the database's driver has it.
pub trait Row {
    /// Why a column cannot be read.
    type Error;

    /// A number or a truth value.
    ///
    /// # Errors
    /// When the column holds something else.
    fn integer(&self, column: usize) -> Result<Option<i64>, Self::Error>;

    /// A number with a fraction.
    ///
    /// # Errors
    /// When the column holds something else.
    fn real(&self, column: usize) -> Result<Option<f64>, Self::Error>;

    /// What `read` makes of a text.
    ///
    /// # Errors
    /// When the column holds something else.
    fn text<T>(&self, column: usize, read: impl FnOnce(&str) -> T) -> Result<Option<T>, Self::Error>;

    /// The bytes of a digest.
    ///
    /// # Errors
    /// When the column holds something else.
    fn digest(&self, column: usize) -> Result<Option<[u8; 32]>, Self::Error>;

    /// The error of a value that this release never wrote.
    fn meaningless(&self, column: usize) -> Self::Error;
}

/// The columns that [`task`] reads, between the first one, which is the store's own, and those that a query adds. `$spec` is the column with the
/// id of the tool's definition.
#[macro_export]
macro_rules! task_columns {
    ($spec:literal) => {
        concat!(
            "tasks.id, principal, session, tool, ",
            $spec,
            ", origin, front, announced, tasks.state, stop_reason, \
             stop_at, attempt_epoch, attempt_node, attempt_host, attempt_state, attempts_used, created_at, updated_at, ready_at, \
             queue_timeout, deadline, retention, announced_until, ended_at, status, progress, progress_total, open_inputs, \
             inputs_asked, version, idempotency_key IS NOT NULL OR unique_arguments IS NOT NULL, journaled, woken, resume_at, tasks.parent, parent_entry, root, depth, blocked, attempt_changes, retry_until, priority, labels, tasks.concurrency_group, waits_for_group, confirm_by"
        )
    };
}

/// The first column after those of the task.
pub const MORE: usize = 47;

/// The columns that change in a task's life, in the order of [`changing`].
pub const CHANGING: [&str; 29] = [
    "announced",
    "state",
    "waits_for_group",
    "stop_reason",
    "stop_at",
    "attempt_epoch",
    "attempt_node",
    "attempt_host",
    "attempt_state",
    "attempt_changes",
    "attempts_used",
    "updated_at",
    "priority",
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

/// The values of [`CHANGING`].
pub fn changing(task: &Task) -> [Cell<'_>; 29] {
    let attempt = task.attempt.as_ref();
    [
        Cell::flag(task.announced),
        Cell::Integer(code::of_state(task.state)),
        Cell::flag(task.waits_for_group),
        Cell::integer(task.stop.map(|stop| code::of(&STOP_REASONS, stop.reason))),
        Cell::timestamp(task.stop.map(|stop| stop.at)),
        Cell::integer(attempt.map(|attempt| i64::from(attempt.epoch))),
        Cell::integer(attempt.map(|attempt| attempt.node.0)),
        Cell::text(attempt.and_then(|attempt| attempt.host.as_ref()).map(|host| &*host.0)),
        Cell::integer(attempt.map(|attempt| code::of(&ATTEMPT_STATES, attempt.state))),
        Cell::integer(attempt.map(|attempt| i64::from(attempt.changes))),
        Cell::Integer(i64::from(task.attempts_used)),
        Cell::Integer(task.updated_at.0),
        Cell::Integer(task.priority.get().into()),
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
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// Nothing.
    Null,
    /// A number or a truth value.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes.
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

    fn digest(value: Option<&'a [u8; 32]>) -> Self {
        value.map_or(Self::Null, |digest| Self::Blob(digest))
    }

    fn text(value: Option<&'a str>) -> Self {
        value.map_or(Self::Null, |text| Self::Text(Cow::Borrowed(text)))
    }
}

/// The columns that never change, in the order of [`fixed`].
pub const FIXED: [&str; 22] = [
    "id",
    "principal",
    "session",
    "tool",
    "spec",
    "origin",
    "front",
    "created_at",
    "queue_timeout",
    "deadline",
    "retention",
    "idempotency_key",
    "idempotency_digest",
    "parent",
    "parent_entry",
    "root",
    "depth",
    "unique_value",
    "unique_arguments",
    "labels",
    "concurrency_group",
    "confirm_by",
];

/// The values of [`FIXED`].
pub fn fixed<'a>(
    task: &'a Task,
    idempotency: Option<&'a Idempotency>,
    unique: Option<&'a Uniqueness>,
) -> [Cell<'a>; 22] {
    let lineage = task.lineage.as_ref();
    [
        Cell::text(Some(task.id.as_str())),
        Cell::text(Some(task.owner.principal.as_str())),
        Cell::text(task.owner.session.as_ref().map(SessionKey::as_str)),
        Cell::text(Some(&task.tool)),
        Cell::text(Some(task.spec.as_str())),
        Cell::Integer(code::of(&ORIGINS, task.origin)),
        Cell::Integer(task.accepted_by.0),
        Cell::Integer(task.created_at.0),
        Cell::integer(task.queue_timeout.map(u64::cast_signed)),
        Cell::integer(task.deadline.map(u64::cast_signed)),
        Cell::Integer(task.retention.cast_signed()),
        Cell::text(idempotency.map(|idempotency| &*idempotency.key)),
        Cell::digest(idempotency.map(|idempotency| &idempotency.digest)),
        Cell::text(lineage.map(|lineage| lineage.parent.as_str())),
        Cell::integer(lineage.map(|lineage| i64::from(lineage.entry))),
        Cell::text(lineage.map(|lineage| lineage.root.as_str())),
        Cell::integer(lineage.map(|lineage| i64::from(lineage.depth))),
        Cell::digest(unique.map(|unique| &unique.value)),
        Cell::digest(unique.map(|unique| &unique.arguments)),
        match task.labels.is_empty() {
            true => Cell::Null,
            false => Cell::Text(Cow::Owned(task.labels.to_json().as_str().to_owned())),
        },
        Cell::digest(task.group.as_ref().map(|group| &group.0)),
        Cell::integer(task.confirm_by.map(|by| code::of(&CONFIRM_BY, by))),
    ]
}

/// The columns `json, code, message` of an outcome. `None` for a cancelled task, which has only its state.
pub fn outcome_columns(outcome: &Outcome) -> Option<(Option<&Json>, Option<i64>, Option<&str>)> {
    match outcome {
        Outcome::Result { json, .. } => Some((Some(json), None, None)),
        Outcome::RpcError(failure) => Some((
            failure.data.as_ref(),
            Some(failure.code.into()),
            Some(&*failure.message),
        )),
        Outcome::Cancelled => None,
    }
}

/// Reads the task from a row of [`task_columns!`](crate::task_columns).
///
/// # Errors
/// When a column holds what no release has written.
pub fn task<R: Row>(row: &R) -> Result<Task, R::Error> {
    let header = TaskHeader {
        id: id(row, 1)?,
        owner: Owner {
            principal: Principal::named(text(row, 2)?),
            session: row.text(3, |text| SessionKey::named(Arc::<str>::from(text)))?,
        },
        tool: text(row, 4)?,
        spec: SpecId::named(text(row, 5)?),
        origin: word(row, 6, &ORIGINS)?,
        accepted_by: NodeId(number(row, 7)?),
        created_at: UnixMillis(number(row, 17)?),
        queue_timeout: length(row, 20)?,
        deadline: length(row, 21)?,
        retention: number(row, 22)?.cast_unsigned(),
        lineage: lineage(row)?,
        labels: labels(row)?,
        group: row.digest(44)?.map(ConcurrencyGroup),
    };
    Ok(Task {
        header: Arc::new(header),
        announced: number(row, 8)? != 0,
        keyed: number(row, 31)? != 0,
        confirm_by: confirm_by(row)?,
        state: code::state(number(row, 9)?).ok_or_else(|| row.meaningless(9))?,
        waits_for_group: number(row, 45)? != 0,
        stop: stop(row)?,
        attempt: attempt(row)?,
        attempts_used: count(row, 16)?,
        updated_at: UnixMillis(number(row, 18)?),
        priority: priority(row, 42)?,
        ready_at: UnixMillis(number(row, 19)?),
        announced_until: UnixMillis(number(row, 23)?),
        retry_until: timestamp(row, 41)?,
        ended_at: timestamp(row, 24)?,
        status: row.text(25, |text| Arc::from(text))?,
        progress: match row.real(26)? {
            Some(current) => Some(Progress {
                current,
                total: row.real(27)?,
            }),
            None => None,
        },
        open_inputs: row.text(28, split)?.unwrap_or_default(),
        inputs_asked: count(row, 29)?,
        journaled: count(row, 32)?,
        woken: count(row, 33)?,
        resume_at: timestamp(row, 34)?,
        blocked: blocked(row)?,
        version: number(row, 30)?.cast_unsigned(),
    })
}

/// Reads the outcome of `task` from the columns of [`outcome_columns`], beginning at `at`.
///
/// # Errors
/// When a column holds what no release has written.
pub fn outcome<R: Row>(row: &R, at: usize, task: &Task) -> Result<Option<Outcome>, R::Error> {
    let State::Done(verdict) = task.state else {
        return Ok(None);
    };
    Ok(Some(match verdict {
        Verdict::Succeeded | Verdict::ToolError => Outcome::Result {
            json: json(row, at)?,
            is_error: verdict == Verdict::ToolError,
        },
        Verdict::RpcError => Outcome::RpcError(RpcFailure {
            code: i32::try_from(number(row, at + 1)?).map_err(|_| row.meaningless(at + 1))?,
            message: text(row, at + 2)?,
            data: row.text(at, |text| Json::trusted(Arc::<str>::from(text)))?,
        }),
        Verdict::Cancelled => Outcome::Cancelled,
    }))
}

/// Reads a JSON text that was checked before it was stored.
///
/// # Errors
/// Without a text.
pub fn json<R: Row>(row: &R, column: usize) -> Result<Json, R::Error> {
    Ok(Json::trusted(text(row, column)?))
}

/// Reads the id of a task.
///
/// # Errors
/// Without an id.
pub fn id<R: Row>(row: &R, column: usize) -> Result<TaskId, R::Error> {
    let id = row.text(column, |text| text.parse().ok())?;
    id.flatten().ok_or_else(|| row.meaningless(column))
}

/// Reads a text.
///
/// # Errors
/// Without one.
pub fn text<R: Row>(row: &R, column: usize) -> Result<Arc<str>, R::Error> {
    row.text(column, |text| Arc::from(text))?
        .ok_or_else(|| row.meaningless(column))
}

/// Reads a number.
///
/// # Errors
/// Without one.
pub fn number<R: Row>(row: &R, column: usize) -> Result<i64, R::Error> {
    row.integer(column)?.ok_or_else(|| row.meaningless(column))
}

/// Reads a number of 32 bits.
///
/// # Errors
/// Without one.
pub fn count<R: Row>(row: &R, column: usize) -> Result<u32, R::Error> {
    u32::try_from(number(row, column)?).map_err(|_| row.meaningless(column))
}

/// Reads who answered a question.
///
/// # Errors
/// When the column holds something else.
pub fn answered_by<R: Row>(row: &R, column: usize) -> Result<Option<AnsweredBy>, R::Error> {
    let by = |number| code::word(&ANSWERED_BY, number).ok_or_else(|| row.meaningless(column));
    row.integer(column)?.map(by).transpose()
}

fn confirm_by<R: Row>(row: &R) -> Result<Option<ConfirmBy>, R::Error> {
    let by = |number| code::word(&CONFIRM_BY, number).ok_or_else(|| row.meaningless(46));
    row.integer(46)?.map(by).transpose()
}

/// Reads a timestamp.
///
/// # Errors
/// When the column holds something else.
pub fn timestamp<R: Row>(row: &R, column: usize) -> Result<Option<UnixMillis>, R::Error> {
    Ok(row.integer(column)?.map(UnixMillis))
}

/// Reads the word whose number stands in a column.
///
/// # Errors
/// When no word of `table` has this number.
pub fn word<R: Row, T: Copy>(row: &R, column: usize, table: &[T]) -> Result<T, R::Error> {
    code::word(table, number(row, column)?).ok_or_else(|| row.meaningless(column))
}

/// Reads a priority.
///
/// # Errors
/// When the column holds something else.
pub fn priority<R: Row>(row: &R, column: usize) -> Result<Priority, R::Error> {
    let number = u8::try_from(number(row, column)?).ok();
    number.and_then(Priority::new).ok_or_else(|| row.meaningless(column))
}

fn length<R: Row>(row: &R, column: usize) -> Result<Option<Millis>, R::Error> {
    Ok(row.integer(column)?.map(i64::cast_unsigned))
}

fn stop<R: Row>(row: &R) -> Result<Option<Stop>, R::Error> {
    let Some(at) = timestamp(row, 11)? else { return Ok(None) };
    let reason = word(row, 10, &STOP_REASONS)?;
    Ok(Some(Stop { reason, at }))
}

fn attempt<R: Row>(row: &R) -> Result<Option<Attempt>, R::Error> {
    if row.integer(12)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Attempt {
        epoch: count(row, 12)?,
        node: NodeId(number(row, 13)?),
        host: row.text(14, |text| HostId(text.into()))?,
        state: word(row, 15, &ATTEMPT_STATES)?,
        changes: match row.integer(40)? {
            Some(_) => count(row, 40)?,
            None => 0,
        },
    }))
}

fn blocked<R: Row>(row: &R) -> Result<Option<Arc<Blocked>>, R::Error> {
    let blocked = row.text(39, |text| Blocked::from_json(text).ok().map(Arc::new))?;
    blocked
        .map(|blocked| blocked.ok_or_else(|| row.meaningless(39)))
        .transpose()
}

fn labels<R: Row>(row: &R) -> Result<Labels, R::Error> {
    let labels = row.text(43, Labels::from_json)?;
    labels.map_or(Ok(Labels::default()), |labels| {
        labels.ok_or_else(|| row.meaningless(43))
    })
}

fn lineage<R: Row>(row: &R) -> Result<Option<Lineage>, R::Error> {
    if row.integer(36)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Lineage {
        parent: id(row, 35)?,
        entry: count(row, 36)?,
        root: id(row, 37)?,
        depth: count(row, 38)?,
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
