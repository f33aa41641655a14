//! Changes, each as it runs inside the writer's transaction.
//!
//! A change answers `Ok(Ok(_))` when it was made, `Ok(Err(_))` when it was refused and *nothing was written*, and `Err(_)` when SQLite
//! failed, in which case the whole transaction is rolled back.

use super::{Tx, groups, schedules};
use crate::{
    backend::{Backend, Insertion},
    code::{self, ANSWERED_BY},
    decision::{Decision, EntryWrite, InputWrite},
    refusal,
    sqlite::{
        connection,
        query::{MORE, bound, journal, read, row, select_tasks},
    },
    usage::{self, UsageChange},
};
use longhaul_core::{
    ConcurrencyGroup, Event, HostId, InputState, NodeId, Principal, Priority, QuotaScope, SessionKey, Task, TaskId,
    ToolSpec, UnixMillis, Usage,
    store::{Claim, Claimed, History, Idempotency, NewTask, ScheduleRecord, SigningKey, StoreError, Uniqueness},
    transition,
};
use rusqlite::{CachedStatement, Error, OptionalExtension, Params, Result, Row, ffi, params};
use std::sync::Arc;

/// Of the highest priority below the fourth parameter that has queued tasks, so that those of a higher one that are not ready are not walked through.
pub(crate) const CLAIM: &str = select_tasks!(
    ", arguments.json, arguments.requestor",
    "INDEXED BY tasks_queued CROSS JOIN specs ON specs.seq = tasks.spec CROSS JOIN arguments ON arguments.task = tasks.seq \
     WHERE tasks.state = 0 AND waits_for_group = 0 AND tool = ?1 \
     AND priority = (SELECT max(priority) FROM tasks INDEXED BY tasks_queued WHERE state = 0 AND waits_for_group = 0 AND tool = ?1 AND priority < ?4) \
     AND ready_at <= ?2 ORDER BY ready_at, tasks.id LIMIT ?3"
);
pub(crate) const NEXT_PRIORITY: &str = "SELECT max(priority) FROM tasks INDEXED BY tasks_queued WHERE state = 0 AND waits_for_group = 0 AND tool = ?1 AND priority < ?2";
pub(crate) const ADOPT: &str = select_tasks!(
    ", arguments.json, arguments.requestor",
    "INDEXED BY tasks_working CROSS JOIN specs ON specs.seq = tasks.spec CROSS JOIN arguments ON arguments.task = tasks.seq \
     WHERE attempt_state < 3 AND attempt_node < ?1 ORDER BY attempt_node, tasks.id LIMIT ?2"
);
/// With the bytes that are deleted with it; SQLite knows the lengths without reading the values.
pub(crate) const DELETABLE: &str = "SELECT seq, principal, \
     (SELECT octet_length(json) + octet_length(requestor) FROM arguments WHERE task = tasks.seq) \
     + coalesce((SELECT coalesce(octet_length(json), 0) + coalesce(octet_length(message), 0) FROM outcomes WHERE task = tasks.seq), 0) \
     + coalesce((SELECT sum(octet_length(request) + coalesce(octet_length(answer), 0)) FROM inputs WHERE task = tasks.seq), 0) \
     + coalesce((SELECT sum(octet_length(path) + octet_length(name) + octet_length(value)) FROM journal WHERE task = tasks.seq), 0), \
     labels IS NOT NULL FROM tasks WHERE id = ?1 AND delete_at <= ?2";
pub(crate) const DELETE_LABELS: &str = "DELETE FROM task_labels WHERE task = ?1";
pub(crate) const SET_ANSWER: &str =
    "UPDATE inputs SET state = 1, answer = ?3, settled_at = ?4, answered_by = ?5 WHERE task = ?1 AND key = ?2";
pub(crate) const WITHDRAW: &str = "UPDATE inputs SET state = 2, settled_at = ?3 WHERE task = ?1 AND key = ?2";
pub(crate) const HASTEN: &str = "UPDATE tasks INDEXED BY tasks_wake SET resume_at = ?1, wake_at = min(wake_at, ?1) \
     WHERE wake_at IS NOT NULL AND state = 2 AND resume_at > ?1 AND attempt_epoch IS NOT NULL";
pub(crate) const FORGET_SESSIONS: &str = "DELETE FROM ended_sessions WHERE until <= ?1";
const SET_LAST_START: &str = "INSERT INTO start_times (tool, last_start) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET last_start = excluded.last_start";
/// Of a task that another one with the same value replaces.
pub(crate) const FREE_UNIQUE: &str =
    "UPDATE tasks SET unique_value = NULL WHERE id = ?1 AND tool = ?2 AND unique_value = ?3";
/// A task and all that belongs to it.
pub(crate) const DELETE: [&str; 5] = [
    "DELETE FROM journal WHERE task = ?1",
    "DELETE FROM inputs WHERE task = ?1",
    "DELETE FROM outcomes WHERE task = ?1",
    "DELETE FROM arguments WHERE task = ?1",
    "DELETE FROM tasks WHERE seq = ?1",
];

impl Backend for Tx<'_> {
    type Error = Error;
    type Loaded = (i64, Task);

    fn load<T>(&mut self, id: &TaskId, read: impl FnOnce(&Task) -> T) -> Result<Option<(Self::Loaded, T)>> {
        let found = read::load(self.connection, id)?;
        Ok(found.map(|(seq, task)| {
            let answer = read(&task);
            ((seq, task), answer)
        }))
    }

    fn find_repeated(&mut self, new: &NewTask) -> Result<Option<(Task, [u8; 32])>> {
        let Some(Idempotency { key, .. }) = &new.idempotency else {
            return Ok(None);
        };
        read::find_by_idempotency_key(self.connection, &new.owner.principal, &new.tool, key)
    }

    fn find_live_unique(&mut self, new: &NewTask, unique: &Uniqueness) -> Result<Option<(Task, [u8; 32])>> {
        read::find_live_unique(self.connection, &new.tool, &unique.value)
    }

    fn usage(&mut self, new: &NewTask, scope: QuotaScope, _more: Usage) -> Result<Usage> {
        self.usage_of(scope.principal(&new.owner.principal))
    }

    fn insert(&mut self, new: Insertion<'_>) -> Result<Result<(), StoreError>> {
        let Decision { task, outcome, .. } = new.decision;
        let freed = free_unique(self, &new)?;
        let seq = match row::insert(self.connection, task, new.idempotency, new.unique) {
            Ok(seq) => seq,
            Err(error) => {
                let refused = refused_insert(error)?;
                if let Some((replaced, value)) = freed {
                    self.connection
                        .prepare_cached("UPDATE tasks SET unique_value = ?2 WHERE id = ?1")?
                        .execute(params![replaced.as_str(), value])?;
                }
                return Ok(Err(refused));
            }
        };
        self.connection
            .prepare_cached("INSERT INTO arguments (task, json, requestor) VALUES (?, ?, ?)")?
            .execute(params![seq, new.arguments.as_str(), new.requestor.as_str()])?;
        if let Some(history) = new.history {
            insert_history(self, seq, history)?;
        }
        for label in task.labels.iter() {
            self.connection
                .prepare_cached("INSERT INTO task_labels (label, task) VALUES (?, ?)")?
                .execute(params![label.to_string(), task.id.as_str()])?;
        }
        write_parts(self, seq, new.decision)?;
        self.add_usage(&task.owner.principal, new.usage.into());
        self.changed(task, outcome.as_ref());
        Ok(Ok(()))
    }

    fn write(&mut self, (seq, before): Self::Loaded, decision: &Decision<'_>) -> Result<()> {
        row::update(self.connection, seq, &before, &decision.task)?;
        let written_over = write_parts(self, seq, decision)?;
        let change = usage::change_of(decision, before.is_done(), written_over);
        self.add_usage(&before.owner.principal, change);
        if decision.task.version != before.version {
            self.changed(&decision.task, decision.outcome.as_ref());
        }
        Ok(())
    }

    fn fill_group(&mut self, tool: &Arc<str>, group: ConcurrencyGroup) -> Result<()> {
        groups::fill(self, tool, group).map(drop)
    }

    fn load_schedule(&mut self, name: &str) -> Result<Option<(ScheduleRecord, bool)>> {
        schedules::load(self, name)
    }

    fn write_schedule(&mut self, schedule: &ScheduleRecord) -> Result<()> {
        schedules::write(self, schedule)
    }
}

/// The replaced task is written after the new one, so it gives up its unique value before that takes it.
fn free_unique<'a>(tx: &Tx<'_>, new: &Insertion<'a>) -> Result<Option<(&'a TaskId, &'a [u8; 32])>> {
    let (Some(unique), Some(replaced)) = (new.unique, new.replaces) else {
        return Ok(None);
    };
    let freed = tx.connection.prepare_cached(FREE_UNIQUE)?.execute(params![
        replaced.as_str(),
        &new.decision.task.tool,
        unique.value
    ])?;
    Ok((freed > 0).then_some((replaced, &unique.value)))
}

/// Writes all that belongs to the task and is not its row, and returns how many bytes it replaced.
fn write_parts(tx: &Tx<'_>, seq: i64, decision: &Decision<'_>) -> Result<i64> {
    if let Some(outcome) = &decision.outcome {
        row::insert_outcome(tx.connection, seq, outcome)?;
    }
    for question in &decision.inputs {
        write_input(tx, seq, question)?;
    }
    let mut written_over = 0;
    for place in &decision.entries {
        written_over += journal::write(tx.connection, seq, place)?;
    }
    Ok(written_over)
}

fn insert_history(tx: &Tx<'_>, seq: i64, history: &History) -> Result<()> {
    for entry in history.entries() {
        journal::write(tx.connection, seq, &EntryWrite::Appended(entry))?;
    }
    let mut insert = tx.connection.prepare_cached(
        "INSERT INTO inputs (task, key, name, request, state, answer, asked_at, settled_at, answered_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for input in history.inputs() {
        let (state, answer) = match &input.state {
            InputState::Open => (0, None),
            InputState::Answered(answer) => (1, Some(answer.as_str())),
            InputState::Withdrawn => (2, None),
        };
        insert.execute(params![
            seq,
            input.key.as_str(),
            input.name,
            input.request.as_str(),
            state,
            answer,
            input.asked_at.0,
            input.settled_at.map(|at| at.0),
            input.answered_by.map(|by| code::of(&ANSWERED_BY, by)),
        ])?;
    }
    Ok(())
}

/// SQLite undoes a statement that violates a constraint, so these are plain refusals.
fn refused_insert(error: Error) -> Result<StoreError> {
    match error.sqlite_error().map(|inner| inner.extended_code) {
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE) => Ok(refusal::id_taken()),
        Some(ffi::SQLITE_CONSTRAINT_NOTNULL) => Ok(refusal::spec_unknown()),
        _ => Err(error),
    }
}

fn write_input(tx: &Tx<'_>, seq: i64, question: &InputWrite<'_>) -> Result<()> {
    match question {
        InputWrite::Asked { key, name, request, at } => tx
            .connection
            .prepare_cached("INSERT INTO inputs (task, key, name, request, state, asked_at) VALUES (?, ?, ?, ?, 0, ?)")?
            .execute(params![seq, key.as_str(), name, request.as_str(), at.0])?,
        InputWrite::Answered { key, answer, by, at } => tx.connection.prepare_cached(SET_ANSWER)?.execute(params![
            seq,
            key.as_str(),
            answer.as_str(),
            at.0,
            code::of(&ANSWERED_BY, *by)
        ])?,
        InputWrite::Withdrawn { key, at } => {
            tx.connection
                .prepare_cached(WITHDRAW)?
                .execute(params![seq, key.as_str(), at.0])?
        }
    };
    Ok(())
}

/// [`longhaul_core::store::QueueStore::claim`].
pub(crate) fn claim(tx: &mut Tx<'_>, claim: &Claim) -> Result<Result<Vec<Claimed>, StoreError>> {
    let event = Event::Claimed {
        node: claim.node,
        host: claim.host.clone(),
    };
    let most = match claim.rate {
        Some(rate) => {
            let last = read::last_start(tx.connection, &claim.tool)?;
            claim
                .limit
                .min(usize::from(rate.next_start(last, claim.at) <= claim.at))
        }
        None => claim.limit,
    };
    let mut taken = Vec::new();
    let mut below = i64::try_from(Priority::COUNT).unwrap_or(i64::MAX);
    loop {
        let queue = tx.connection.prepare_cached(CLAIM)?;
        let limit = bound(most - taken.len());
        let params = params![&claim.tool, claim.at.0, limit, below];
        let of_one_priority = take(tx, queue, params, &event, claim.at)?;
        let read = of_one_priority.last().map(|claimed| claimed.task.priority.get().into());
        taken.extend(of_one_priority);
        if taken.len() >= most {
            break;
        }
        let read = match read {
            Some(read) => Some(read),
            None => next_priority(tx, &claim.tool, below)?,
        };
        match read {
            Some(read) if read > 0 => below = read,
            _ => break,
        }
    }
    if claim.rate.is_some() && !taken.is_empty() {
        tx.connection
            .prepare_cached(SET_LAST_START)?
            .execute(params![&claim.tool, claim.at.0])?;
    }
    Ok(Ok(taken))
}

/// The highest priority below `below` that has queued tasks.
fn next_priority(tx: &Tx<'_>, tool: &str, below: i64) -> Result<Option<i64>> {
    let mut next = tx.connection.prepare_cached(NEXT_PRIORITY)?;
    next.query_row(params![tool, below], |row| row.get(0))
}

/// [`longhaul_core::store::LeaseStore::adopt`].
///
/// A data directory is one host. Earlier releases called it `data-dir`, and its id is a new one if the file `host` was lost.
pub(crate) fn adopt(
    tx: &mut Tx<'_>,
    node: NodeId,
    limit: usize,
    at: UnixMillis,
) -> Result<Result<Vec<Claimed>, StoreError>> {
    let orphans = tx.connection.prepare_cached(ADOPT)?;
    take(tx, orphans, params![node.0, bound(limit)], &Event::Adopted { node }, at).map(Ok)
}

/// Applies `event` to each task that `which` finds, with its arguments.
fn take(
    tx: &mut Tx<'_>,
    mut which: CachedStatement<'_>,
    by: impl Params,
    event: &Event,
    at: UnixMillis,
) -> Result<Vec<Claimed>> {
    let found = which.query_map(by, |row| {
        Ok((row::task(row)?, row::json(row, MORE)?, row::json(row, MORE + 1)?))
    })?;
    // All of them before the first is written: the index must not move while it is walked.
    let found: Vec<_> = found.collect::<Result<_>>()?;
    let mut taken = Vec::with_capacity(found.len());
    for ((seq, before), arguments, requestor) in found {
        // The query asked for tasks to which the event is legal.
        let mut task = before.clone();
        if transition(&mut task, event, at).is_err() {
            continue;
        }
        row::update(tx.connection, seq, &before, &task)?;
        tx.changed(&task, None);
        taken.push(Claimed {
            task,
            arguments,
            requestor,
        });
    }
    Ok(taken)
}

/// [`longhaul_core::store::TimerStore::make_timers_due`].
pub(crate) fn make_timers_due(tx: &mut Tx<'_>, at: UnixMillis) -> Result<Result<(), StoreError>> {
    tx.connection.prepare_cached(HASTEN)?.execute([at.0])?;
    Ok(Ok(()))
}

/// [`longhaul_core::store::TaskStore::delete`].
pub(crate) fn delete(tx: &mut Tx<'_>, ids: &[TaskId], at: UnixMillis) -> Result<Result<usize, StoreError>> {
    forget_sessions(tx, at)?;
    delete_due(tx, ids, at).map(Ok)
}

/// [`longhaul_core::store::TaskStore::delete_ended`].
///
/// SQLite overwrites the values with zeros, also in pages that become free and would otherwise not be written. That is too much to write for all that
/// expires. The write-ahead log still has the values, until it is truncated. So have unused parts of pages from which SQLite has moved rows to
/// others: `secure_delete` does not clear what rebalancing a tree leaves behind, and only `VACUUM` does.
pub(crate) fn delete_ended(tx: &mut Tx<'_>, ids: &[TaskId], at: UnixMillis) -> Result<Result<usize, StoreError>> {
    forget_sessions(tx, at)?;
    connection::overwrite_deleted(tx.connection, true)?;
    let deleted = delete_due(tx, ids, UnixMillis(i64::MAX));
    connection::overwrite_deleted(tx.connection, false)?;
    tx.truncates_log();
    deleted.map(Ok)
}

/// Deletes those whose [`Task::delete_at`] is `due` or earlier.
fn delete_due(tx: &mut Tx<'_>, ids: &[TaskId], due: UnixMillis) -> Result<usize> {
    let mut deleted = 0;
    for id in ids {
        let mut deletable = tx.connection.prepare_cached(DELETABLE)?;
        let found = |row: &Row<'_>| {
            let principal = Principal::named(row.get::<_, Arc<str>>(1)?);
            Ok((row.get(0)?, principal, row.get(2)?, row.get(3)?))
        };
        let found: Option<(i64, Principal, i64, bool)> =
            deletable.query_row(params![id.as_str(), due.0], found).optional()?;
        let Some((seq, principal, bytes, is_labelled)) = found else {
            continue;
        };
        if is_labelled {
            tx.connection.prepare_cached(DELETE_LABELS)?.execute([id.as_str()])?;
        }
        tx.add_usage(&principal, UsageChange { live: 0, bytes: -bytes });
        for sql in DELETE {
            tx.connection.prepare_cached(sql)?.execute([seq])?;
        }
        tx.deleted(id);
        deleted += 1;
    }
    Ok(deleted)
}

/// [`longhaul_core::store::LeaseStore::open_node`].
///
/// The number was noted outside of the database before.
pub(crate) fn open_node(
    tx: &mut Tx<'_>,
    node: NodeId,
    host: &HostId,
    at: UnixMillis,
) -> Result<Result<NodeId, StoreError>> {
    forget_sessions(tx, at)?;
    tx.connection
        .prepare_cached("INSERT INTO nodes (id, host, opened_at, noted) VALUES (?, ?, ?, 1)")?
        .execute(params![node.0, &host.0, at.0])?;
    Ok(Ok(node))
}

/// [`longhaul_core::store::LeaseStore::record_removal`].
pub(crate) fn set_removals(tx: &mut Tx<'_>, node: NodeId, removals: i64) -> Result<Result<(), StoreError>> {
    tx.connection
        .prepare_cached("UPDATE nodes SET removals = ?2 WHERE id = ?1")?
        .execute([node.0, removals])?;
    Ok(Ok(()))
}

/// [`longhaul_core::store::QueueStore::put_spec`].
pub(crate) fn put_spec(tx: &mut Tx<'_>, spec: &ToolSpec) -> Result<Result<(), StoreError>> {
    tx.connection
        .prepare_cached("INSERT INTO specs (id, kind, definition) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")?
        .execute(params![spec.id.as_str(), &spec.kind, spec.definition.as_str()])?;
    Ok(Ok(()))
}

/// [`longhaul_core::store::QueueStore::put_limit`].
pub(crate) fn put_limit(
    tx: &mut Tx<'_>,
    tool: &str,
    concurrency: Option<usize>,
    per_group: Option<usize>,
) -> Result<Result<(), StoreError>> {
    let [concurrency, per_group] = [concurrency, per_group].map(|most| most.map(bound));
    tx.connection
        .prepare_cached(
            "INSERT INTO tool_limits (tool, concurrency, per_group) VALUES (?, ?, ?) \
             ON CONFLICT DO UPDATE SET concurrency = excluded.concurrency, per_group = excluded.per_group \
             WHERE (concurrency, per_group) IS NOT (excluded.concurrency, excluded.per_group)",
        )?
        .execute(params![tool, concurrency, per_group])?;
    Ok(Ok(()))
}

/// [`longhaul_core::store::QueueStore::set_paused`].
pub(crate) fn set_paused(tx: &mut Tx<'_>, tool: &str, paused: bool) -> Result<Result<(), StoreError>> {
    let sql = match paused {
        true => "INSERT INTO paused_tools (tool) VALUES (?) ON CONFLICT DO NOTHING",
        false => "DELETE FROM paused_tools WHERE tool = ?",
    };
    tx.connection.prepare_cached(sql)?.execute([tool])?;
    Ok(Ok(()))
}

/// [`longhaul_core::store::SessionStore::signing_keys`].
pub(crate) fn signing_keys(
    tx: &mut Tx<'_>,
    purpose: &str,
    fresh: &SigningKey,
) -> Result<Result<Vec<SigningKey>, StoreError>> {
    let known = read::signing_keys(tx.connection, purpose)?;
    let keys = SigningKey::rotate(known.clone(), fresh.clone());
    for gone in known.iter().filter(|key| !keys.contains(key)) {
        tx.connection
            .prepare_cached("DELETE FROM signing_keys WHERE purpose = ? AND id = ?")?
            .execute(params![purpose, gone.id])?;
    }
    for new in keys.iter().filter(|key| !known.contains(key)) {
        tx.connection
            .prepare_cached("INSERT INTO signing_keys (purpose, id, secret) VALUES (?, ?, ?)")?
            .execute(params![purpose, new.id, new.secret])?;
    }
    Ok(Ok(keys))
}

/// [`longhaul_core::store::SessionStore::end_session`].
pub(crate) fn end_session(tx: &mut Tx<'_>, session: &SessionKey, until: UnixMillis) -> Result<Result<(), StoreError>> {
    tx.connection
        .prepare_cached(
            "INSERT INTO ended_sessions (session, until) VALUES (?, ?) \
             ON CONFLICT DO UPDATE SET until = max(until, excluded.until)",
        )?
        .execute(params![session.as_str(), until.0])?;
    tx.session_ended(session, until);
    Ok(Ok(()))
}

fn forget_sessions(tx: &mut Tx<'_>, at: UnixMillis) -> Result<()> {
    tx.connection.prepare_cached(FORGET_SESSIONS)?.execute([at.0])?;
    tx.sessions_forgotten(at);
    Ok(())
}
