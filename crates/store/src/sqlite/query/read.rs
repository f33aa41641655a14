//! Statements that only read.

use super::{MORE, row, select_tasks};
use crate::{
    code,
    sqlite::directory::node_file::LatestNode,
    task_row::{self, Row as _},
};
use longhaul_core::{
    Input, InputKey, InputState, Json, NodeId, Principal, Priority, Scope, SpecId, Task, TaskId, ToolSpec, UnixMillis,
    Usage,
    store::{Claimed, Counts, HeldAttempt, LiveTasks, Page, QueuePlace, Record, SigningKey, TaskLookup, ToolLimit},
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Result, Row, ToSql, params, types::ValueRef};
use std::sync::Arc;

/// Every statement has a name, so that a test can read its query plan. `+` keeps the owner from choosing the index: an id is enough.
pub(crate) const GET: &str = select_tasks!(
    ", outcomes.json, outcomes.code, outcomes.message",
    "CROSS JOIN specs ON specs.seq = tasks.spec LEFT JOIN outcomes ON outcomes.task = tasks.seq \
     WHERE tasks.id = ?1 AND +principal = ?2 AND announced = 1"
);
pub(crate) const PEEK: &str = select_tasks!(
    ", outcomes.json, outcomes.code, outcomes.message",
    "CROSS JOIN specs ON specs.seq = tasks.spec LEFT JOIN outcomes ON outcomes.task = tasks.seq WHERE tasks.id = ?1"
);
pub(crate) const VERSION: &str = "SELECT version FROM tasks WHERE id = ?1";
pub(crate) const LOAD: &str = select_tasks!("", "CROSS JOIN specs ON specs.seq = tasks.spec WHERE tasks.id = ?1");
pub(crate) const OPEN_INPUTS: &str = "SELECT key, request, state, answer, asked_at, name, settled_at, answered_by FROM inputs INDEXED BY inputs_open WHERE task = ?1 AND state = 0 ORDER BY seq";
pub(crate) const INPUT: &str = "SELECT key, request, inputs.state, answer, asked_at, name, settled_at, answered_by FROM tasks CROSS JOIN inputs \
     ON inputs.task = tasks.seq WHERE tasks.id = ?1 AND key = ?2";
pub(crate) const INPUTS: &str = "SELECT key, request, inputs.state, answer, asked_at, name, settled_at, answered_by FROM tasks CROSS JOIN inputs \
    ON inputs.task = tasks.seq WHERE tasks.id = ?1 ORDER BY asked_at, key LIMIT ?2";
pub(crate) const REQUESTOR: &str =
    "SELECT requestor FROM tasks CROSS JOIN arguments ON arguments.task = tasks.seq WHERE tasks.id = ?1";
pub(crate) const ARGUMENTS: &str =
    "SELECT json FROM tasks CROSS JOIN arguments ON arguments.task = tasks.seq WHERE tasks.id = ?1";
pub(crate) const USAGE: &str = "SELECT live, bytes FROM usage WHERE principal = ?1";
pub(crate) const USAGE_IN_ALL: &str = "SELECT live, bytes FROM usage_in_all WHERE one = 1";
pub(crate) const SPEC: &str = "SELECT id, kind, definition FROM specs WHERE id = ?1";
pub(crate) const LIST_OWNED: &str = select_tasks!(
    "",
    "INDEXED BY tasks_of_principal CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE announced = 1 AND principal = ?1 AND tasks.id < ?2 ORDER BY tasks.id DESC LIMIT ?3"
);
pub(crate) const LIST_SESSION: &str = select_tasks!(
    "",
    "INDEXED BY tasks_session CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE announced = 1 AND principal = ?1 AND session = ?4 AND tasks.id < ?2 ORDER BY tasks.id DESC LIMIT ?3"
);
pub(crate) const LIVE: &str = select_tasks!(
    "",
    "INDEXED BY tasks_live CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE announced = 1 AND tasks.state < 3 AND +principal = ?1 AND session = ?2 AND tasks.id > ?3 \
     ORDER BY tasks.id LIMIT ?4"
);
pub(crate) const DUE: &str = select_tasks!(
    "",
    "INDEXED BY tasks_wake CROSS JOIN specs ON specs.seq = tasks.spec WHERE wake_at <= ?1 ORDER BY wake_at LIMIT ?2"
);
pub(crate) const NEWEST: &str = "SELECT created_at FROM tasks ORDER BY id DESC LIMIT 1";
pub(crate) const LIMITS: &str = "SELECT tool, concurrency FROM tool_limits WHERE concurrency IS NOT NULL ORDER BY tool";
pub(crate) const QUEUED_BEFORE: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_queued_of_principal \
     WHERE state = 0 AND tool = ?1 AND principal = ?2 AND priority = ?6 AND (ready_at, id) < (?3, ?4) ORDER BY ready_at, id LIMIT ?5)";
pub(crate) const QUEUED_ABOVE: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_queued_of_principal \
     WHERE state = 0 AND tool = ?1 AND principal = ?2 AND priority > ?3 LIMIT ?4)";
pub(crate) const NEXT_WAKE: &str = "SELECT min(wake_at) FROM tasks INDEXED BY tasks_wake WHERE wake_at IS NOT NULL";
pub(crate) const EXPIRED: &str =
    "SELECT id FROM tasks INDEXED BY tasks_delete WHERE delete_at <= ?1 ORDER BY delete_at LIMIT ?2";
pub(crate) const ORPHANED_CALLS: &str = select_tasks!(
    "",
    "INDEXED BY tasks_unheard CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE announced = 0 AND tasks.state < 3 AND idempotency_key IS NULL AND unique_arguments IS NULL AND retry_until IS NULL \
     AND front < ?1 ORDER BY front, tasks.id LIMIT ?2"
);
pub(crate) const HELD_ATTEMPTS: &str = "SELECT id, attempt_epoch, stop_reason FROM tasks INDEXED BY tasks_working \
     WHERE attempt_state < 3 AND attempt_node = ?1 ORDER BY id";
pub(crate) const HELD: &str = select_tasks!(
    ", arguments.json, arguments.requestor",
    "CROSS JOIN specs ON specs.seq = tasks.spec CROSS JOIN arguments ON arguments.task = tasks.seq \
     WHERE tasks.id = ?1 AND attempt_state < 3 AND attempt_node = ?2"
);
pub(crate) const LAST_START: &str = "SELECT last_start FROM start_times WHERE tool = ?1";
/// Of the highest priority below the second parameter that has queued tasks.
pub(crate) const NEXT_READY: &str = "SELECT priority, ready_at FROM tasks INDEXED BY tasks_queued WHERE state = 0 AND waits_for_group = 0 AND tool = ?1 \
     AND priority = (SELECT max(priority) FROM tasks INDEXED BY tasks_queued WHERE state = 0 AND waits_for_group = 0 AND tool = ?1 AND priority < ?2) \
     ORDER BY ready_at LIMIT 1";
/// Jumps from tool to tool in the index instead of walking through every queue.
pub(crate) const QUEUED_TOOLS: &str = "WITH RECURSIVE queued (tool) AS ( \
         SELECT min(tool) FROM tasks INDEXED BY tasks_queued WHERE state = 0 AND waits_for_group = 0 \
         UNION ALL \
         SELECT (SELECT min(tool) FROM tasks INDEXED BY tasks_queued WHERE state = 0 AND waits_for_group = 0 AND tool > queued.tool) \
         FROM queued WHERE queued.tool IS NOT NULL \
     ) SELECT tool FROM queued WHERE tool IS NOT NULL";
pub(crate) const CHILDREN: &str = select_tasks!(
    "",
    "INDEXED BY tasks_children CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE tasks.parent = ?1 AND tasks.state < 3 AND tasks.stop_at IS NULL ORDER BY tasks.id LIMIT ?2"
);
pub(crate) const STARTED_BY: &str = select_tasks!(
    "",
    "INDEXED BY tasks_started CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE tasks.parent = ?1 AND tasks.id > ?2 ORDER BY tasks.id LIMIT ?3"
);
pub(crate) const CHILDREN_OF_FINISHED_PARENTS: &str = select_tasks!(
    "",
    "INDEXED BY tasks_children CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE tasks.parent IS NOT NULL AND tasks.state < 3 AND tasks.stop_at IS NULL AND NOT EXISTS ( \
         SELECT 1 FROM tasks AS parents WHERE parents.id = tasks.parent AND parents.state < 3 AND parents.stop_at IS NULL \
     ) ORDER BY tasks.parent, tasks.id LIMIT ?1"
);
/// Reads live tasks only.
pub(crate) const COUNT_QUEUED: &str = "SELECT count(*) FROM tasks INDEXED BY tasks_queued_of_principal WHERE state = 0";
pub(crate) const COUNT_RUNNING: &str =
    "SELECT count(*) FROM tasks INDEXED BY tasks_working WHERE attempt_state < 3 AND state = 1";
pub(crate) const COUNT_SUSPENDED: &str = "SELECT count(*) FROM tasks INDEXED BY tasks_parked WHERE state = 2";
pub(crate) const COUNT_BLOCKED: &str = "SELECT count(*) FROM tasks INDEXED BY tasks_blocked WHERE state = -1";
pub(crate) const LIVE_TASKS: &str = "SELECT tool, state, count(*), sum(open_inputs <> ''), min(ready_at) \
     FROM tasks INDEXED BY tasks_open WHERE ended_at IS NULL GROUP BY tool, state ORDER BY tool, state";
pub(crate) const BLOCKED: &str = select_tasks!(
    "",
    "INDEXED BY tasks_blocked CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE tasks.state = -1 AND tasks.id > ?1 ORDER BY tasks.id LIMIT ?2"
);
pub(crate) const KEYED: &str = select_tasks!(
    ", idempotency_digest",
    "INDEXED BY tasks_keyed CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE principal = ?1 AND tool = ?2 AND idempotency_key = ?3"
);
pub(crate) const LIVE_UNIQUE: &str = select_tasks!(
    ", unique_arguments",
    "INDEXED BY tasks_unique CROSS JOIN specs ON specs.seq = tasks.spec \
     WHERE tool = ?1 AND unique_value = ?2 AND tasks.state < 3"
);
pub(crate) const SIGNING_KEYS: &str = "SELECT id, secret FROM signing_keys WHERE purpose = ?1 ORDER BY id DESC";

/// [`longhaul_core::store::TaskStore::get`].
pub(crate) fn get(connection: &Connection, scope: &Scope, id: &TaskId) -> Result<Option<Record>> {
    record(connection, GET, params![id.as_str(), scope.principal.as_str()])
}

/// [`longhaul_core::store::TaskStore::get_unscoped`].
pub(crate) fn get_unscoped(connection: &Connection, id: &TaskId) -> Result<Option<Record>> {
    record(connection, PEEK, params![id.as_str()])
}

/// [`longhaul_core::store::TaskStore::versions`].
pub(crate) fn versions(connection: &Connection, ids: Vec<TaskId>) -> Result<Vec<(TaskId, u64)>> {
    let mut statement = connection.prepare_cached(VERSION)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let version = statement.query_row([id.as_str()], number).optional()?;
        found.extend(version.map(|version| (id, version)));
    }
    Ok(found)
}

/// The task of the call with this key, and the digest of its arguments.
pub(crate) fn find_by_idempotency_key(
    connection: &Connection,
    principal: &Principal,
    tool: &str,
    key: &str,
) -> Result<Option<(Task, [u8; 32])>> {
    connection
        .prepare_cached(KEYED)?
        .query_row(params![principal.as_str(), tool, key], |row| {
            Ok((row::task(row)?.1, row.get(MORE)?))
        })
        .optional()
}

/// The live task of a tool with this unique value, and the digest of its arguments.
pub(crate) fn find_live_unique(
    connection: &Connection,
    tool: &str,
    value: &[u8; 32],
) -> Result<Option<(Task, [u8; 32])>> {
    connection
        .prepare_cached(LIVE_UNIQUE)?
        .query_row(params![tool, value], |row| Ok((row::task(row)?.1, row.get(MORE)?)))
        .optional()
}

fn record(connection: &Connection, sql: &str, by: impl Params) -> Result<Option<Record>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(by)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (seq, task) = row::task(row)?;
    let outcome = row::outcome(row, MORE, &task)?;
    // The first statement is still open here, and with it the snapshot that both read.
    let inputs = if task.open_inputs.is_empty() {
        Vec::new()
    } else {
        connection
            .prepare_cached(OPEN_INPUTS)?
            .query_map([seq], read_input)?
            .collect::<Result<_>>()?
    };
    Ok(Some(Record { task, outcome, inputs }))
}

/// A task with its `seq`, for a change of it.
pub(crate) fn load(connection: &Connection, id: &TaskId) -> Result<Option<(i64, Task)>> {
    connection
        .prepare_cached(LOAD)?
        .query_row([id.as_str()], row::task)
        .optional()
}

/// [`longhaul_core::store::JournalStore::input`].
pub(crate) fn input(connection: &Connection, id: &TaskId, key: &InputKey) -> Result<Option<Input>> {
    connection
        .prepare_cached(INPUT)?
        .query_row([id.as_str(), key.as_str()], read_input)
        .optional()
}

/// [`longhaul_core::store::JournalStore::inputs`].
pub(crate) fn inputs(connection: &Connection, id: &TaskId, limit: usize) -> Result<Vec<Input>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(INPUTS)?;
    statement.query_map(params![id.as_str(), limit], read_input)?.collect()
}

/// [`longhaul_core::store::TaskStore::requestor`].
pub(crate) fn requestor(connection: &Connection, id: &TaskId) -> Result<Option<Json>> {
    connection
        .prepare_cached(REQUESTOR)?
        .query_row([id.as_str()], |row| row::json(row, 0))
        .optional()
}

/// [`longhaul_core::store::TaskStore::arguments`].
pub(crate) fn arguments(connection: &Connection, id: &TaskId) -> Result<Option<Json>> {
    connection
        .prepare_cached(ARGUMENTS)?
        .query_row([id.as_str()], |row| row::json(row, 0))
        .optional()
}

fn read_input(row: &Row<'_>) -> Result<Input> {
    Ok(Input {
        key: InputKey::named(row.get::<_, Arc<str>>(0)?),
        name: row.get(5)?,
        request: row::json(row, 1)?,
        state: match row.get::<_, i64>(2)? {
            0 => InputState::Open,
            1 => InputState::Answered(row::json(row, 3)?),
            2 => InputState::Withdrawn,
            _ => return Err(row.meaningless(2)),
        },
        asked_at: UnixMillis(row.get(4)?),
        settled_at: row.get::<_, Option<i64>>(6)?.map(UnixMillis),
        answered_by: task_row::answered_by(row, 7)?,
    })
}

/// [`longhaul_core::store::QueueStore::spec`].
pub(crate) fn spec(connection: &Connection, id: &SpecId) -> Result<Option<ToolSpec>> {
    let spec = |row: &Row<'_>| {
        Ok(ToolSpec {
            id: SpecId::named(row.get::<_, Arc<str>>(0)?),
            kind: row.get(1)?,
            definition: row::json(row, 2)?,
        })
    };
    connection
        .prepare_cached(SPEC)?
        .query_row([id.as_str()], spec)
        .optional()
}

/// [`longhaul_core::store::SearchStore::list`].
pub(crate) fn list(connection: &Connection, scope: &Scope, before: Option<&TaskId>, limit: usize) -> Result<Page> {
    // Sorts after every id.
    let before = before.map_or("~", TaskId::as_str);
    let one_more = bound(limit.saturating_add(1));
    let principal = scope.principal.as_str();
    let mut tasks = match &scope.session {
        None => tasks(
            connection.prepare_cached(LIST_OWNED)?,
            params![principal, before, one_more],
        ),
        Some(session) => tasks(
            connection.prepare_cached(LIST_SESSION)?,
            params![principal, before, one_more, session.as_str()],
        ),
    }?;
    let more = tasks.len() > limit;
    tasks.truncate(limit);
    Ok(Page { tasks, more })
}

pub(crate) fn has_tasks_of(connection: &Connection, principal: &Principal) -> Result<bool> {
    let mut statement = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM tasks WHERE principal = ?1)")?;
    statement.query_row([principal.as_str()], |row| row.get(0))
}

/// [`longhaul_core::store::SearchStore::find`].
pub(crate) fn find(connection: &Connection, lookup: &TaskLookup, limit: usize) -> Result<Vec<Task>> {
    let limit = bound(limit);
    // Sorts before every id.
    let or_first = |after: &Option<TaskId>| after.as_ref().map_or("", TaskId::as_str).to_owned();
    let found = |sql, by: &[&dyn ToSql]| tasks(connection.prepare_cached(sql)?, by);
    match lookup {
        TaskLookup::ChildrenOf(parent) => found(CHILDREN, params![parent.as_str(), limit]),
        TaskLookup::StartedBy { parent, after } => found(STARTED_BY, params![parent.as_str(), or_first(after), limit]),
        TaskLookup::ChildrenOfFinishedParents => found(CHILDREN_OF_FINISHED_PARENTS, params![limit]),
        TaskLookup::BlockedAfter(after) => found(BLOCKED, params![or_first(after), limit]),
        TaskLookup::OrphanedCalls(node) => found(ORPHANED_CALLS, params![node.0, limit]),
        TaskLookup::LiveInSession { owner, session, after } => {
            let by = params![owner.as_str(), session.as_str(), or_first(after), limit];
            found(LIVE, by)
        }
        TaskLookup::DueTimers(at) => found(DUE, params![at.0, limit]),
    }
}

/// [`longhaul_core::store::TimerStore::next_wake`].
pub(crate) fn next_wake(connection: &Connection) -> Result<Option<UnixMillis>> {
    let earliest: Option<i64> = connection.prepare_cached(NEXT_WAKE)?.query_row([], |row| row.get(0))?;
    Ok(earliest.map(UnixMillis))
}

/// [`longhaul_core::store::QueueStore::paused`].
pub(crate) fn paused(connection: &Connection) -> Result<Vec<Arc<str>>> {
    let mut statement = connection.prepare_cached("SELECT tool FROM paused_tools ORDER BY tool")?;
    let tools = statement.query_map([], |row| row.get(0))?;
    tools.collect()
}

/// [`longhaul_core::store::QueueStore::limits`].
pub(crate) fn limits(connection: &Connection) -> Result<Vec<ToolLimit>> {
    let mut statement = connection.prepare_cached(LIMITS)?;
    let limits = statement.query_map([], |row| {
        let most: i64 = row.get(1)?;
        Ok(ToolLimit {
            tool: row.get(0)?,
            concurrency: usize::try_from(most).unwrap_or(usize::MAX),
        })
    })?;
    limits.collect()
}

/// [`longhaul_core::store::QueueStore::queued_before`].
pub(crate) fn queued_before(connection: &Connection, task: &Task, most: usize) -> Result<usize> {
    let by = params![
        &task.tool,
        task.owner.principal.as_str(),
        task.ready_at.0,
        task.id.as_str(),
        bound(most),
        task.priority.get()
    ];
    let count: i64 = connection
        .prepare_cached(QUEUED_BEFORE)?
        .query_row(by, |row| row.get(0))?;
    let above = params![
        &task.tool,
        task.owner.principal.as_str(),
        task.priority.get(),
        bound(most)
    ];
    let above: i64 = connection
        .prepare_cached(QUEUED_ABOVE)?
        .query_row(above, |row| row.get(0))?;
    Ok(usize::try_from(count + above).unwrap_or(most).min(most))
}

/// [`longhaul_core::store::TimerStore::newest_created_at`].
pub(crate) fn newest_created_at(connection: &Connection) -> Result<Option<UnixMillis>> {
    let newest = connection.prepare_cached(NEWEST)?.query_row([], |row| row.get(0));
    Ok(newest.optional()?.map(UnixMillis))
}

/// [`longhaul_core::store::QueueStore::next_ready`].
pub(crate) fn next_ready(connection: &Connection, tool: &str, at: UnixMillis) -> Result<Option<QueuePlace>> {
    let mut places = Vec::new();
    let mut below = i64::try_from(Priority::COUNT).unwrap_or(i64::MAX);
    while below > 0 {
        let place = |row: &Row<'_>| {
            Ok(QueuePlace {
                priority: task_row::priority(row, 0)?,
                ready_at: UnixMillis(row.get(1)?),
            })
        };
        let mut next = connection.prepare_cached(NEXT_READY)?;
        let Some(place) = next.query_row(params![tool, below], place).optional()? else {
            break;
        };
        if place.ready_at <= at {
            return Ok(Some(place));
        }
        below = place.priority.get().into();
        places.push(place);
    }
    Ok(QueuePlace::first(places, at))
}

/// [`longhaul_core::store::QueueStore::last_start`].
pub(crate) fn last_start(connection: &Connection, tool: &str) -> Result<Option<UnixMillis>> {
    let last = connection
        .prepare_cached(LAST_START)?
        .query_row([tool], |row| row.get(0));
    Ok(last.optional()?.map(UnixMillis))
}

/// [`longhaul_core::store::TimerStore::expired`].
pub(crate) fn expired(connection: &Connection, at: UnixMillis, limit: usize) -> Result<Vec<TaskId>> {
    let mut statement = connection.prepare_cached(EXPIRED)?;
    let ids = statement.query_map(params![at.0, bound(limit)], |row| row::id(row, 0))?;
    ids.collect()
}

/// [`longhaul_core::Renewal::held`](longhaul_core::store::Renewal::held).
pub(crate) fn held_attempts(connection: &Connection, node: NodeId) -> Result<Vec<HeldAttempt>> {
    let mut statement = connection.prepare_cached(HELD_ATTEMPTS)?;
    let held = statement.query_map([node.0], |row| {
        Ok(HeldAttempt {
            task: row::id(row, 0)?,
            epoch: row.get(1)?,
            stop: match row.get_ref(2)? {
                ValueRef::Null => None,
                _ => Some(task_row::word(row, 2, &code::STOP_REASONS)?),
            },
        })
    })?;
    held.collect()
}

/// [`longhaul_core::store::TaskStore::held`].
pub(crate) fn held(connection: &Connection, node: NodeId, id: &TaskId) -> Result<Option<Claimed>> {
    let mut statement = connection.prepare_cached(HELD)?;
    let claimed = |row: &Row<'_>| {
        Ok(Claimed {
            task: row::task(row)?.1,
            arguments: row::json(row, MORE)?,
            requestor: row::json(row, MORE + 1)?,
        })
    };
    statement.query_row(params![id.as_str(), node.0], claimed).optional()
}

/// [`longhaul_core::store::QueueStore::queued_tools`].
pub(crate) fn queued_tools(connection: &Connection) -> Result<Vec<Arc<str>>> {
    let mut statement = connection.prepare_cached(QUEUED_TOOLS)?;
    let tools = statement.query_map([], |row| row.get(0))?;
    tools.collect()
}

/// [`longhaul_core::store::SearchStore::counts`].
pub(crate) fn counts(connection: &Connection) -> Result<Counts> {
    // One transaction, so that a task on its way from queued to running is counted once.
    let snapshot = connection.unchecked_transaction()?;
    let count = |sql| snapshot.prepare_cached(sql)?.query_row([], number);
    Ok(Counts {
        queued: count(COUNT_QUEUED)?,
        running: count(COUNT_RUNNING)?,
        suspended: count(COUNT_SUSPENDED)?,
        blocked: count(COUNT_BLOCKED)?,
    })
}

/// [`longhaul_core::store::SearchStore::live_tasks`].
pub(crate) fn live_tasks(connection: &Connection) -> Result<Vec<LiveTasks>> {
    let group = |row: &Row<'_>| {
        Ok(LiveTasks {
            tool: row.get(0)?,
            state: code::state(row.get(1)?).ok_or_else(|| row.meaningless(1))?,
            count: row.get::<_, i64>(2)?.cast_unsigned(),
            asking: row.get::<_, i64>(3)?.cast_unsigned(),
            ready_at: UnixMillis(row.get(4)?),
        })
    };
    let mut statement = connection.prepare_cached(LIVE_TASKS)?;
    let groups = statement.query_map([], group)?;
    groups.collect()
}

/// [`longhaul_core::store::SearchStore::usage`].
pub(crate) fn usage(connection: &Connection, of: Option<&Principal>) -> Result<Usage> {
    let usage = |row: &Row<'_>| {
        Ok(Usage {
            live: row.get::<_, i64>(0)?.cast_unsigned(),
            bytes: row.get::<_, i64>(1)?.cast_unsigned(),
        })
    };
    let found = match of {
        Some(principal) => connection.prepare_cached(USAGE)?.query_row([principal.as_str()], usage),
        None => connection.prepare_cached(USAGE_IN_ALL)?.query_row([], usage),
    };
    // A principal without tasks has no row.
    Ok(found.optional()?.unwrap_or_default())
}

fn number(row: &Row<'_>) -> Result<u64> {
    Ok(row.get::<_, i64>(0)?.cast_unsigned())
}

/// The keys of [`longhaul_core::store::SessionStore::signing_keys`], as far as there are any.
pub(crate) fn signing_keys(connection: &Connection, purpose: &str) -> Result<Vec<SigningKey>> {
    let key = |row: &Row<'_>| {
        Ok(SigningKey {
            id: row.get(0)?,
            secret: row.get(1)?,
        })
    };
    let mut statement = connection.prepare_cached(SIGNING_KEYS)?;
    let keys = statement.query_map([purpose], key)?;
    keys.collect()
}

fn tasks(mut statement: CachedStatement<'_>, by: impl Params) -> Result<Vec<Task>> {
    let tasks = statement.query_map(by, |row| Ok(row::task(row)?.1))?;
    tasks.collect()
}

/// A limit as SQLite counts.
pub(crate) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The latest start of a server.
pub(crate) fn latest_node(connection: &Connection) -> Result<LatestNode> {
    let row = |row: &Row<'_>| {
        Ok(LatestNode {
            id: row.get(0)?,
            noted: row.get(1)?,
            removals: row.get(2)?,
        })
    };
    connection
        .prepare_cached("SELECT id, noted, removals FROM nodes ORDER BY id DESC LIMIT 1")?
        .query_row([], row)
        .optional()
        .map(Option::unwrap_or_default)
}
