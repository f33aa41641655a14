//! Tasks that a node takes: from queues, and from dead nodes.

use crate::{
    change::{
        Ledger, Part,
        batch::{LOCK_NODES, dead, dead_nodes},
        writes::Writes,
    },
    connection::Work,
    event::{Effects, PublishedState, pauses::PAUSE_VERSION},
    statement::{Clock, Execute, Fault, Param, Then, Tx, encode, row, select_tasks, texts},
};
use longhaul_core::{
    Event, HostId, Millis, NodeId, Priority, TaskId, UnixMillis,
    store::{Claim, Claimed, NodeRole, StoreError, StoreEvent},
    transition,
};
use longhaul_store::code::{self, NODE_ROLES};
use std::{
    collections::{BTreeMap, HashMap},
    iter,
    sync::Arc,
};

/// Of the highest priority below the fourth parameter that has queued tasks, so that those of a higher one that are not ready are not walked through.
/// Tasks that others are taking are skipped.
const CLAIM: &str = select_tasks!(
    ", arguments.json, arguments.requestor",
    "JOIN arguments ON arguments.task = tasks.id \
     WHERE tasks.state = 0 AND waits_for_group = 0 AND tool = $1 \
     AND priority = (SELECT max(priority) FROM tasks WHERE state = 0 AND waits_for_group = 0 AND tool = $1 AND priority < $4) \
     AND ready_at <= $2 ORDER BY ready_at, tasks.id LIMIT $3 FOR UPDATE OF tasks SKIP LOCKED"
);
const NEXT_PRIORITY: &str =
    "SELECT max(priority) FROM tasks WHERE state = 0 AND waits_for_group = 0 AND tool = $1 AND priority < $2";
const ORPHANS: &str = "SELECT id, attempt_node FROM tasks WHERE attempt_state < 3 AND (attempt_host IS NULL OR attempt_host = $1) \
     AND attempt_node IN (SELECT nodes.id FROM nodes WHERE lost_at IS NOT NULL) ORDER BY attempt_node, id LIMIT $2";
/// Those whose host has not had a node that runs tasks since `$2`; of those that are asked to stop, whose host has none now. `$4` is the role of a front.
const LOST: &str = "SELECT tasks.id, attempt_node FROM tasks JOIN ( \
         SELECT dead.id, max(others.lost_at) AS host_lost_at FROM nodes AS dead \
         JOIN nodes AS others ON others.host = dead.host AND others.role IS DISTINCT FROM $4 \
         WHERE dead.lost_at IS NOT NULL GROUP BY dead.id HAVING bool_and(others.lost_at IS NOT NULL) \
     ) AS away ON away.id = attempt_node \
     WHERE attempt_state < 3 AND attempt_host <> $1 AND (host_lost_at <= $2 OR stop_reason IS NOT NULL) \
     ORDER BY attempt_node, tasks.id LIMIT $3";
const LOCK: &str = select_tasks!(
    ", arguments.json, arguments.requestor",
    "JOIN arguments ON arguments.task = tasks.id WHERE tasks.id = ANY($1::text[]) ORDER BY tasks.id FOR UPDATE OF tasks"
);

/// Tasks that were taken, and what is told of them.
pub(crate) type TakenTasks = (Vec<Claimed>, Effects);

/// [`longhaul_core::store::QueueStore::claim`].
pub(crate) struct TakeQueued {
    pub(crate) claim: Claim,
    pub(crate) published: Arc<PublishedState>,
}

impl Work for TakeQueued {
    type Answer = TakenTasks;

    async fn run(&self, tx: &Tx<'_>) -> Result<TakenTasks, Fault> {
        let claim = &self.claim;
        let nodes = [claim.node.0].to_vec();
        let first: [(&str, Vec<Param<'_>>); 2] = [(LOCK_NODES, vec![&nodes]), (PAUSE_VERSION, Vec::new())];
        let found = tx.rows_of_all(&first).await?;
        if !dead(&found[0])?.is_empty() {
            return Err(StoreError::LeaseLost.into());
        }
        if self.published.pauses.have_changed(&found[1])? {
            self.published.tell(&[StoreEvent::PausesChanged]);
            return Ok(TakenTasks::default());
        }
        let tool = encode(&claim.tool);
        let most = match claim.rate {
            Some(rate) => match lock_last_start(tx, &tool).await? {
                Some(last) if rate.next_start(last, claim.at) <= claim.at => claim.limit.min(1),
                _ => 0,
            },
            None => claim.limit,
        };
        if most == 0 {
            return Ok(TakenTasks::default());
        }
        let mut queue: Vec<tokio_postgres::Row> = Vec::new();
        let mut below = i64::try_from(Priority::COUNT).unwrap_or(i64::MAX);
        loop {
            let limit = row::bound(most - queue.len());
            let of_one_priority = tx.rows(CLAIM, &[&tool, &claim.at.0, &limit, &below]).await?;
            let read = match of_one_priority.last() {
                Some(row) => Some(row::task(row)?.priority.get().into()),
                None => next_priority(tx, &tool, below).await?,
            };
            queue.extend(of_one_priority);
            match read {
                Some(read) if read > 0 && queue.len() < most => below = read,
                _ => break,
            }
        }
        let event = Event::Claimed {
            node: claim.node,
            host: claim.host.clone(),
        };
        let taken = take(tx, &queue, &event, claim.at).await?;
        if claim.rate.is_some() && !taken.0.is_empty() {
            let set = "UPDATE start_times SET last_start = $2 WHERE tool = $1";
            tx.execute(set, &[&tool, &claim.at.0]).await?;
        }
        Ok(taken)
    }
}

/// The highest priority below `below` that has queued tasks.
async fn next_priority(tx: &Tx<'_>, tool: &str, below: i64) -> Result<Option<i64>, Fault> {
    let rows = tx.rows(NEXT_PRIORITY, &[&tool, &below]).await?;
    let next = rows.first().map(|row| row.try_get::<_, Option<i64>>(0)).transpose()?;
    Ok(next.flatten())
}

/// Locks when the last task of a tool with a rate has begun, so that two nodes do not begin one at the same time. `None` if another node has locked it:
/// nothing waits for that node, which may hang. The row is there before it is locked: of two nodes that add it, one waits for the other.
async fn lock_last_start(tx: &Tx<'_>, tool: &str) -> Result<Option<Option<UnixMillis>>, Fault> {
    tx.execute(
        "INSERT INTO start_times (tool) VALUES ($1) ON CONFLICT DO NOTHING",
        &[&tool],
    )
    .await?;
    let locked = tx
        .rows(
            "SELECT last_start FROM start_times WHERE tool = $1 FOR UPDATE SKIP LOCKED",
            &[&tool],
        )
        .await?;
    let last = locked.first().map(|row| row.try_get::<_, Option<i64>>(0)).transpose()?;
    Ok(last.map(|last| last.map(UnixMillis)))
}

/// [`longhaul_core::store::LeaseStore::adopt`].
pub(crate) struct Adopt {
    pub(crate) node: NodeId,
    pub(crate) host: HostId,
    pub(crate) limit: usize,
    pub(crate) at: UnixMillis,
}

impl Work for Adopt {
    type Answer = TakenTasks;

    async fn run(&self, tx: &Tx<'_>) -> Result<TakenTasks, Fault> {
        // A dead node takes nothing.
        if is_dead(tx, self.node).await? {
            return Ok(TakenTasks::default());
        }
        let host = encode(&self.host.0);
        let found = tx.rows(ORPHANS, &[&host, &row::bound(self.limit)]).await?;
        take_over(tx, &found, &Event::Adopted { node: self.node }, self.at).await
    }
}

/// [`longhaul_core::store::LeaseStore::reclaim`].
pub(crate) struct Reclaim {
    pub(crate) node: NodeId,
    pub(crate) host: HostId,
    pub(crate) lost_for: Millis,
    pub(crate) limit: usize,
    pub(crate) at: UnixMillis,
    pub(crate) clock: Clock,
}

impl Work for Reclaim {
    type Answer = TakenTasks;

    async fn run(&self, tx: &Tx<'_>) -> Result<TakenTasks, Fault> {
        if is_dead(tx, self.node).await? {
            return Ok(TakenTasks::default());
        }
        let lost_for = i64::try_from(self.lost_for).unwrap_or(i64::MAX);
        let since = self.clock.now(tx).await?.0.saturating_sub(lost_for);
        let host = encode(&self.host.0);
        let front = code::of(&NODE_ROLES, NodeRole::Front);
        let found = tx.rows(LOST, &[&host, &since, &row::bound(self.limit), &front]).await?;
        take_over(tx, &found, &Event::Reclaimed { node: self.node }, self.at).await
    }
}

async fn is_dead(tx: &Tx<'_>, node: NodeId) -> Result<bool, Fault> {
    Ok(dead_nodes(tx, &[node.0]).await?.contains(&node))
}

/// Takes attempts of dead nodes over, as far as they are still theirs once their rows are locked.
async fn take_over(
    tx: &Tx<'_>,
    found: &[tokio_postgres::Row],
    event: &Event,
    at: UnixMillis,
) -> Result<TakenTasks, Fault> {
    let mut nodes: HashMap<TaskId, i64> = HashMap::new();
    for row in found {
        nodes.insert(row::id(row, 0)?, row::number(row, 1)?);
    }
    let ids = texts(nodes.keys());
    let mut locked = Vec::new();
    for row in tx.rows(LOCK, &[&ids]).await? {
        let task = row::task(&row)?;
        let node = task.active_attempt().map(|attempt| attempt.node.0);
        if node.is_some() && node.as_ref() == nodes.get(&task.id) {
            locked.push(((node, task.id.clone()), row));
        }
    }
    locked.sort_by(|(one, _), (other, _)| one.cmp(other));
    let rows: Vec<tokio_postgres::Row> = locked.into_iter().map(|(_, row)| row).collect();
    take(tx, &rows, event, at).await
}

/// Applies `event` to each of the locked tasks.
async fn take(tx: &Tx<'_>, rows: &[tokio_postgres::Row], event: &Event, at: UnixMillis) -> Result<TakenTasks, Fault> {
    let (mut taken, mut bytes) = (Vec::new(), Vec::new());
    let (mut writes, mut effects) = (Writes::default(), Effects::default());
    for row in rows {
        let before = row::claimed(row)?;
        // The query asked for tasks to which the event is legal.
        let mut task = before.task.clone();
        if transition(&mut task, event, at).is_err() {
            continue;
        }
        writes.host(&task, Some(&before.task));
        effects.changed(&task, None);
        bytes.push(row::number(row, 0)?);
        taken.push(Claimed { task, ..before });
    }
    let changed = taken.iter().map(|claimed| &claimed.task).zip(bytes);
    let (no_sessions, no_usage) = (BTreeMap::new(), Ledger::default());
    let usage = no_usage.changes(Part::any());
    writes
        .write(tx, iter::empty(), changed, &no_sessions, &usage, Then::Continue)
        .await?;
    Ok((taken, effects))
}
