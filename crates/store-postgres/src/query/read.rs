//! Statements that only read.

use crate::statement::{Execute, Fault, Param, PostgresRow, encode, row, select_tasks, texts};
use longhaul_core::{
    Entry, Input, InputKey, Json, NodeId, Principal, Priority, Scope, SpecId, Task, TaskId, ToolSpec, UnixMillis,
    store::{Claimed, Counts, LiveTasks, Page, QueuePlace, Record, TaskLookup, ToolLimit},
};
use longhaul_store::{
    code,
    task_row::{self, MORE, Row as _},
};
use std::sync::Arc;

/// With all open questions, as one array for each column, so that one statement reads one state of the task.
macro_rules! select_record {
    ($which:literal) => {
        select_tasks!(
            ", outcomes.json, outcomes.code, outcomes.message, \
             (SELECT array_agg(key) FROM inputs WHERE task = tasks.id AND inputs.state = 0), \
             (SELECT array_agg(name) FROM inputs WHERE task = tasks.id AND inputs.state = 0), \
             (SELECT array_agg(request) FROM inputs WHERE task = tasks.id AND inputs.state = 0), \
             (SELECT array_agg(asked_at) FROM inputs WHERE task = tasks.id AND inputs.state = 0)",
            "LEFT JOIN outcomes ON outcomes.task = tasks.id WHERE ",
            $which
        )
    };
}

const GET: &str = select_record!("tasks.id = $1 AND principal = $2 AND announced = 1");
const PEEK: &str = select_record!("tasks.id = $1");
const KEYED: &str = select_tasks!(
    "",
    "WHERE principal = $1 AND tool = $2 AND idempotency_key = $3 AND ($4::bytea IS NULL OR idempotency_digest = $4)"
);
const LIST_OWNED: &str = select_tasks!(
    "",
    "WHERE announced = 1 AND principal = $1 AND id < $2 ORDER BY id DESC LIMIT $3"
);
const LIST_SESSION: &str = select_tasks!(
    "",
    "WHERE announced = 1 AND principal = $1 AND session = $4 AND id < $2 ORDER BY id DESC LIMIT $3"
);
const LIVE: &str = select_tasks!(
    "",
    "WHERE announced = 1 AND state < 3 AND principal = $1 AND session = $2 AND id > $3 ORDER BY id LIMIT $4"
);
const DUE: &str = select_tasks!("", "WHERE wake_at <= $1 ORDER BY wake_at LIMIT $2");
const EXPIRED: &str = "SELECT id FROM tasks WHERE delete_at <= $1 ORDER BY delete_at LIMIT $2";
const QUEUED_BEFORE: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks \
     WHERE state = 0 AND tool = $1 AND principal = $2 AND priority = $6 AND (ready_at, id) < ($3, $4) ORDER BY ready_at, id LIMIT $5) AS queued";
const QUEUED_ABOVE: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks \
     WHERE state = 0 AND tool = $1 AND principal = $2 AND priority > $3 LIMIT $4) AS queued";
/// Of the highest priority below the second parameter that has queued tasks.
const NEXT_READY: &str = "SELECT priority, ready_at FROM tasks WHERE state = 0 AND waits_for_group = 0 AND tool = $1 \
     AND priority = (SELECT max(priority) FROM tasks WHERE state = 0 AND waits_for_group = 0 AND tool = $1 AND priority < $2) ORDER BY ready_at LIMIT 1";
/// Of dead nodes, unless the one that asks is dead itself.
const ORPHANED_CALLS: &str = select_tasks!(
    "",
    "WHERE announced = 0 AND state < 3 AND idempotency_key IS NULL AND unique_arguments IS NULL AND retry_until IS NULL \
     AND front IN (SELECT nodes.id FROM nodes WHERE lost_at IS NOT NULL) \
     AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = $1 AND lost_at IS NOT NULL) ORDER BY front, tasks.id LIMIT $2"
);
const HELD: &str = select_tasks!(
    ", arguments.json, arguments.requestor",
    "JOIN arguments ON arguments.task = tasks.id WHERE tasks.id = $1 AND attempt_state < 3 AND attempt_node = $2"
);
/// Jumps from tool to tool in the index instead of walking through every queue.
const QUEUED_TOOLS: &str = "WITH RECURSIVE queued (tool) AS ( \
         SELECT min(tool) FROM tasks WHERE state = 0 AND waits_for_group = 0 \
         UNION ALL \
         SELECT (SELECT min(tasks.tool) FROM tasks WHERE state = 0 AND waits_for_group = 0 AND tasks.tool > queued.tool) FROM queued WHERE queued.tool IS NOT NULL \
     ) SELECT tool FROM queued WHERE tool IS NOT NULL";
const CHILDREN: &str = select_tasks!(
    "",
    "WHERE parent = $1 AND state < 3 AND stop_at IS NULL ORDER BY id LIMIT $2"
);
const STARTED_BY: &str = select_tasks!("", "WHERE parent = $1 AND id > $2 ORDER BY id LIMIT $3");
const CHILDREN_OF_FINISHED_PARENTS: &str = select_tasks!(
    "",
    "WHERE tasks.parent IS NOT NULL AND tasks.state < 3 AND tasks.stop_at IS NULL AND NOT EXISTS ( \
         SELECT 1 FROM tasks AS parents WHERE parents.id = tasks.parent AND parents.state < 3 AND parents.stop_at IS NULL \
     ) ORDER BY tasks.parent, tasks.id LIMIT $1"
);
const BLOCKED: &str = select_tasks!("", "WHERE state = -1 AND id > $1 ORDER BY id LIMIT $2");
const LIVE_TASKS: &str = "SELECT tool, state, count(*), count(*) FILTER (WHERE open_inputs <> ''), min(ready_at) \
     FROM tasks WHERE ended_at IS NULL GROUP BY tool, state ORDER BY tool, state";
const INPUT: &str = "SELECT key, name, request, state, answer, asked_at, settled_at, answered_by FROM inputs WHERE task = $1 AND key = $2";
const INPUTS: &str = "SELECT key, name, request, state, answer, asked_at, settled_at, answered_by FROM inputs WHERE task = $1 \
     ORDER BY asked_at, key LIMIT $2";
const JOURNAL: &str = "SELECT seq, kind, nth, beside, at, path, name, value, epoch FROM journal WHERE task = $1 AND seq > $2 ORDER BY seq LIMIT $3";
const EMITTED: &str = "SELECT seq, kind, nth, beside, at, path, name, value, epoch FROM journal \
     WHERE task = $1 AND seq > $2 AND kind = 5 ORDER BY seq LIMIT $3";

/// [`longhaul_core::store::TaskStore::get`].
pub(crate) async fn get(on: &impl Execute, scope: &Scope, id: &TaskId) -> Result<Option<Record>, Fault> {
    let principal = encode(scope.principal.as_str());
    on.row(GET, &[&id.as_str(), &principal]).await?.map(record).transpose()
}

/// [`longhaul_core::store::TaskStore::get_unscoped`].
pub(crate) async fn get_unscoped(on: &impl Execute, id: &TaskId) -> Result<Option<Record>, Fault> {
    on.row(PEEK, &[&id.as_str()]).await?.map(record).transpose()
}

fn record(row: tokio_postgres::Row) -> Result<Record, Fault> {
    let (task, outcome) = row::with_outcome(&row)?;
    let inputs = if task.open_inputs.is_empty() {
        Vec::new()
    } else {
        row::open_inputs(&row, MORE + 3, &task)?
    };
    Ok(Record { task, outcome, inputs })
}

/// [`longhaul_core::store::TaskStore::versions`].
pub(crate) async fn versions(on: &impl Execute, ids: &[TaskId]) -> Result<Vec<(TaskId, u64)>, Fault> {
    let ids = texts(ids);
    let rows = on
        .rows("SELECT id, version FROM tasks WHERE id = ANY($1::text[])", &[&ids])
        .await?;
    let version = |row| Ok((row::id(row, 0)?, row::number(row, 1)?.cast_unsigned()));
    rows.iter().map(version).collect()
}

/// [`longhaul_core::store::TaskStore::find_by_idempotency_key`].
pub(crate) async fn find_by_idempotency_key(
    on: &impl Execute,
    principal: &Principal,
    tool: &str,
    key: &str,
    digest: Option<[u8; 32]>,
) -> Result<Option<Task>, Fault> {
    let (principal, tool, key) = (encode(principal.as_str()), encode(tool), encode(key));
    let digest = digest.as_ref().map(|digest| &digest[..]);
    let row = on.row(KEYED, &[&principal, &tool, &key, &digest]).await?;
    row.as_ref().map(row::task).transpose()
}

/// [`longhaul_core::store::JournalStore::input`].
pub(crate) async fn input(on: &impl Execute, id: &TaskId, key: &InputKey) -> Result<Option<Input>, Fault> {
    let row = on.row(INPUT, &[&id.as_str(), &key.as_str()]).await?;
    row.as_ref().map(row::input).transpose()
}

/// [`longhaul_core::store::JournalStore::inputs`].
pub(crate) async fn inputs(on: &impl Execute, id: &TaskId, limit: usize) -> Result<Vec<Input>, Fault> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = on.rows(INPUTS, &[&id.as_str(), &limit]).await?;
    rows.iter().map(row::input).collect()
}

/// [`longhaul_core::store::TaskStore::requestor`].
pub(crate) async fn requestor(on: &impl Execute, id: &TaskId) -> Result<Option<Json>, Fault> {
    json(on, "SELECT requestor FROM arguments WHERE task = $1", id).await
}

/// [`longhaul_core::store::TaskStore::arguments`].
pub(crate) async fn arguments(on: &impl Execute, id: &TaskId) -> Result<Option<Json>, Fault> {
    json(on, "SELECT json FROM arguments WHERE task = $1", id).await
}

async fn json(on: &impl Execute, sql: &str, id: &TaskId) -> Result<Option<Json>, Fault> {
    let row = on.row(sql, &[&id.as_str()]).await?;
    row.map(|row| task_row::json(&PostgresRow(&row), 0)).transpose()
}

/// [`longhaul_core::store::QueueStore::spec`].
pub(crate) async fn spec(on: &impl Execute, id: &SpecId) -> Result<Option<ToolSpec>, Fault> {
    let row = on
        .row("SELECT id, kind, definition FROM specs WHERE id = $1", &[&id.as_str()])
        .await?;
    let spec = |row: tokio_postgres::Row| {
        Ok(ToolSpec {
            id: SpecId::named(row::text(&row, 0)?),
            kind: row::text(&row, 1)?,
            definition: task_row::json(&PostgresRow(&row), 2)?,
        })
    };
    row.map(spec).transpose()
}

/// [`longhaul_core::store::QueueStore::limits`].
pub(crate) async fn limits(on: &impl Execute) -> Result<Vec<ToolLimit>, Fault> {
    let rows = on
        .rows(
            "SELECT tool, concurrency FROM tool_limits WHERE concurrency IS NOT NULL ORDER BY tool",
            &[],
        )
        .await?;
    let limit = |row| {
        Ok(ToolLimit {
            tool: row::text(row, 0)?,
            concurrency: usize::try_from(row::number(row, 1)?).unwrap_or(usize::MAX),
        })
    };
    rows.iter().map(limit).collect()
}

/// [`longhaul_core::store::QueueStore::queued_tools`].
pub(crate) async fn queued_tools(on: &impl Execute) -> Result<Vec<Arc<str>>, Fault> {
    tools(on, QUEUED_TOOLS).await
}

async fn tools(on: &impl Execute, sql: &str) -> Result<Vec<Arc<str>>, Fault> {
    let rows = on.rows(sql, &[]).await?;
    rows.iter().map(|row| row::text(row, 0)).collect()
}

/// [`longhaul_core::store::QueueStore::next_ready`].
pub(crate) async fn next_ready(on: &impl Execute, tool: &str, at: UnixMillis) -> Result<Option<QueuePlace>, Fault> {
    let tool = encode(tool);
    let mut places = Vec::new();
    let mut below = i64::try_from(Priority::COUNT).unwrap_or(i64::MAX);
    while below > 0 {
        let Some(row) = on.row(NEXT_READY, &[&tool, &below]).await? else {
            break;
        };
        let place = QueuePlace {
            priority: task_row::priority(&PostgresRow(&row), 0)?,
            ready_at: UnixMillis(row::number(&row, 1)?),
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
pub(crate) async fn last_start(on: &impl Execute, tool: &str) -> Result<Option<UnixMillis>, Fault> {
    let tool = encode(tool);
    first_timestamp(
        on.row("SELECT last_start FROM start_times WHERE tool = $1", &[&tool])
            .await?,
    )
}

/// [`longhaul_core::store::TimerStore::next_wake`].
pub(crate) async fn next_wake(on: &impl Execute) -> Result<Option<UnixMillis>, Fault> {
    first_timestamp(
        on.row("SELECT min(wake_at) FROM tasks WHERE wake_at IS NOT NULL", &[])
            .await?,
    )
}

/// [`longhaul_core::store::TimerStore::newest_created_at`].
pub(crate) async fn newest_created_at(on: &impl Execute) -> Result<Option<UnixMillis>, Fault> {
    first_timestamp(
        on.row("SELECT created_at FROM tasks ORDER BY id DESC LIMIT 1", &[])
            .await?,
    )
}

fn first_timestamp(row: Option<tokio_postgres::Row>) -> Result<Option<UnixMillis>, Fault> {
    match row {
        Some(row) => task_row::timestamp(&PostgresRow(&row), 0),
        None => Ok(None),
    }
}

/// [`longhaul_core::store::QueueStore::queued_before`].
pub(crate) async fn queued_before(on: &impl Execute, task: &Task, most: usize) -> Result<usize, Fault> {
    let (tool, principal) = (encode(&task.tool), encode(task.owner.principal.as_str()));
    let (priority, most_counted) = (i64::from(task.priority.get()), row::bound(most));
    let by: [Param<'_>; 6] = [
        &tool,
        &principal,
        &task.ready_at.0,
        &task.id.as_str(),
        &most_counted,
        &priority,
    ];
    let mut before = 0;
    for (sql, by) in [
        (QUEUED_BEFORE, &by[..]),
        (QUEUED_ABOVE, &[&tool, &principal, &priority, &most_counted]),
    ] {
        let row = on.row(sql, by).await?;
        before += row.map(|row| row::number(&row, 0)).transpose()?.unwrap_or_default();
    }
    Ok(usize::try_from(before).unwrap_or(most).min(most))
}

/// [`longhaul_core::store::TaskStore::held`].
pub(crate) async fn held(on: &impl Execute, node: NodeId, id: &TaskId) -> Result<Option<Claimed>, Fault> {
    let row = on.row(HELD, &[&id.as_str(), &node.0]).await?;
    row.as_ref().map(row::claimed).transpose()
}

/// [`longhaul_core::store::JournalStore::journal`].
pub(crate) async fn journal(on: &impl Execute, id: &TaskId, after: u32, limit: usize) -> Result<Vec<Entry>, Fault> {
    entries(on, JOURNAL, id, after, limit).await
}

/// [`longhaul_core::store::JournalStore::emitted`].
pub(crate) async fn emitted(on: &impl Execute, id: &TaskId, after: u32, limit: usize) -> Result<Vec<Entry>, Fault> {
    entries(on, EMITTED, id, after, limit).await
}

async fn entries(on: &impl Execute, sql: &str, id: &TaskId, after: u32, limit: usize) -> Result<Vec<Entry>, Fault> {
    let rows = on
        .rows(sql, &[&id.as_str(), &i64::from(after), &row::bound(limit)])
        .await?;
    rows.iter().map(row::entry).collect()
}

/// [`longhaul_core::store::SearchStore::find`].
pub(crate) async fn find(on: &impl Execute, lookup: &TaskLookup, limit: usize) -> Result<Vec<Task>, Fault> {
    let limit = row::bound(limit);
    // Sorts before every id.
    let or_first = |after: &Option<TaskId>| after.as_ref().map_or("", TaskId::as_str).to_owned();
    let found = match lookup {
        TaskLookup::ChildrenOf(parent) => on.rows(CHILDREN, &[&parent.as_str(), &limit]).await?,
        TaskLookup::StartedBy { parent, after } => {
            let by: [Param<'_>; 3] = [&parent.as_str(), &or_first(after), &limit];
            on.rows(STARTED_BY, &by).await?
        }
        TaskLookup::ChildrenOfFinishedParents => on.rows(CHILDREN_OF_FINISHED_PARENTS, &[&limit]).await?,
        TaskLookup::BlockedAfter(after) => on.rows(BLOCKED, &[&or_first(after), &limit]).await?,
        TaskLookup::OrphanedCalls(node) => on.rows(ORPHANED_CALLS, &[&node.0, &limit]).await?,
        TaskLookup::LiveInSession { owner, session, after } => {
            let (owner, session) = (encode(owner.as_str()), encode(session.as_str()));
            on.rows(LIVE, &[&owner, &session, &or_first(after), &limit]).await?
        }
        TaskLookup::DueTimers(at) => on.rows(DUE, &[&at.0, &limit]).await?,
    };
    row::tasks(&found)
}

/// [`longhaul_core::store::SearchStore::list`].
pub(crate) async fn list(
    on: &impl Execute,
    scope: &Scope,
    before: Option<&TaskId>,
    limit: usize,
) -> Result<Page, Fault> {
    // Sorts after every id.
    let before = before.map_or("~", TaskId::as_str);
    let one_more = row::bound(limit.saturating_add(1));
    let principal = encode(scope.principal.as_str());
    let rows = match &scope.session {
        None => on.rows(LIST_OWNED, &[&principal, &before, &one_more]).await?,
        Some(session) => {
            let session = encode(session.as_str());
            on.rows(LIST_SESSION, &[&principal, &before, &one_more, &session])
                .await?
        }
    };
    let more = rows.len() > limit;
    let tasks = row::tasks(&rows[..rows.len().min(limit)])?;
    Ok(Page { tasks, more })
}

/// [`longhaul_core::store::TimerStore::expired`].
pub(crate) async fn expired(on: &impl Execute, at: UnixMillis, limit: usize) -> Result<Vec<TaskId>, Fault> {
    ids(&on.rows(EXPIRED, &[&at.0, &row::bound(limit)]).await?)
}

/// [`longhaul_core::store::LeaseStore::tombstones`].
pub(crate) async fn tombstones(on: &impl Execute, host: &str, limit: usize) -> Result<Vec<TaskId>, Fault> {
    let host = encode(host);
    ids(&on
        .rows(
            "SELECT task FROM tombstones WHERE host = $1 ORDER BY task LIMIT $2",
            &[&host, &row::bound(limit)],
        )
        .await?)
}

fn ids(rows: &[tokio_postgres::Row]) -> Result<Vec<TaskId>, Fault> {
    rows.iter().map(|row| row::id(row, 0)).collect()
}

/// [`longhaul_core::store::SearchStore::counts`].
pub(crate) async fn counts(on: &impl Execute) -> Result<Counts, Fault> {
    let mut counts = Counts::default();
    let rows = on
        .rows(
            "SELECT state, count(*) FROM tasks WHERE ended_at IS NULL GROUP BY state",
            &[],
        )
        .await?;
    for row in &rows {
        let count = row::number(row, 1)?.cast_unsigned();
        match row::number(row, 0)? {
            -1 => counts.blocked = count,
            0 => counts.queued = count,
            1 => counts.running = count,
            _ => counts.suspended = count,
        }
    }
    Ok(counts)
}

/// [`longhaul_core::store::SearchStore::live_tasks`].
pub(crate) async fn live_tasks(on: &impl Execute) -> Result<Vec<LiveTasks>, Fault> {
    let group = |row: &tokio_postgres::Row| {
        let state = code::state(row::number(row, 1)?);
        Ok(LiveTasks {
            tool: row::text(row, 0)?,
            state: state.ok_or_else(|| PostgresRow(row).meaningless(1))?,
            count: row::number(row, 2)?.cast_unsigned(),
            asking: row::number(row, 3)?.cast_unsigned(),
            ready_at: UnixMillis(row::number(row, 4)?),
        })
    };
    on.rows(LIVE_TASKS, &[]).await?.iter().map(group).collect()
}
