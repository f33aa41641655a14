//! Nodes and their leases, by the clock of the database.

use crate::{
    change::deletion,
    connection::{Work, take_turn},
    event::{PublishedState, traffic::NodeTraffic},
    origin::Identity,
    statement::{Clock, Execute, Fault, Param, PostgresRow, Tx, encode, row},
};
use longhaul_core::{
    HostId, Millis, NodeId, UnixMillis,
    store::{
        GiveUpError, HOST_GIVEN_UP, HeldAttempt, Lease, LeaseStatus, NewNode, NodeRole, NodeStatus, Renewal, StoreError,
    },
};
use longhaul_store::{
    code::{self, DELIVERIES, NODE_ROLES, STOP_REASONS},
    task_row::{self, Row as _},
};
use std::sync::Arc;

const HELD: &str =
    "SELECT id, attempt_epoch, stop_reason FROM tasks WHERE attempt_state < 3 AND attempt_node = $1 ORDER BY id";
const RENEWED: &str =
    "UPDATE nodes SET since = $2, ends_at = $3, losses_seen = $4, sender = $5, sent = $6, delivery = $7 WHERE id = $1";
/// What the others have sent.
const SENT: &str =
    "SELECT id, sender, sent, delivery FROM nodes WHERE lost_at IS NULL AND id <> $1 AND sender IS NOT NULL";

/// A node that was paused, or cut off, in a transaction holds its own row. To wait for that would cost this node its own lease: such a node is found lost by a
/// later renewal, once the database has ended its session.
const LOSE: &str = "UPDATE nodes SET lost_at = $2 WHERE id IN ( \
         SELECT id FROM nodes WHERE lost_at IS NULL AND ends_at <= $2 AND id <> $1 ORDER BY id FOR UPDATE SKIP LOCKED \
     )";

/// How long ago a lease must have ended before the row of its node is removed, in milliseconds: 30 days.
const FORGOTTEN_AFTER: Millis = 30 * 86_400_000;
/// Removes the rows of nodes long gone that nothing refers to: no attempt, and no call whose caller is gone. The greatest number stays, so that none is used twice.
const FORGET: &str = "WITH gone AS ( \
         DELETE FROM nodes WHERE lost_at IS NOT NULL AND ends_at <= $1 AND id < (SELECT max(others.id) FROM nodes AS others) \
         AND NOT EXISTS (SELECT 1 FROM tasks WHERE attempt_node = nodes.id AND attempt_state < 3) \
         AND NOT EXISTS (SELECT 1 FROM tasks WHERE front = nodes.id AND announced = 0 AND state < 3 AND idempotency_key IS NULL AND unique_arguments IS NULL) \
         RETURNING id \
     ) UPDATE forgotten_nodes SET lost = lost + (SELECT count(*) FROM gone), greatest = greatest(greatest, (SELECT max(id) FROM gone)) \
     WHERE EXISTS (SELECT 1 FROM gone)";

/// [`longhaul_core::store::LeaseStore::open_node`].
pub(crate) struct OpenNode {
    pub(crate) new: NewNode,
    pub(crate) at: UnixMillis,
    pub(crate) length: Millis,
    pub(crate) clock: Clock,
    /// The least number that it may get.
    pub(crate) first: i64,
}

impl Work for OpenNode {
    type Answer = Lease;

    async fn run(&self, tx: &Tx<'_>) -> Result<Lease, Fault> {
        take_turn(tx, "nodes").await?;
        let now = self.clock.now(tx).await?;
        let host = encode(&self.new.host.0);
        // Locks the row: it may be renewed right now.
        let held = tx
            .rows(
                "SELECT id, ends_at, name, address, directory FROM nodes WHERE host = $1 AND lost_at IS NULL FOR UPDATE",
                &[&host],
            )
            .await?;
        for lease in &held {
            let ends_at = UnixMillis(row::number(lease, 1)?);
            if ends_at > now && !self.new.is_on_same_directory(lease.try_get(4)?) {
                let (name, address) = (
                    row::text(lease, 2)?,
                    PostgresRow(lease).text(3, |text| Arc::<str>::from(text))?,
                );
                let by = NodeStatus::describe(NodeId(row::number(lease, 0)?), &name, address.as_deref());
                let left = ends_at.since(now);
                return Err(StoreError::HostInUse { by, left }.into());
            }
        }
        tx.execute(
            "UPDATE nodes SET lost_at = $2 WHERE host = $1 AND lost_at IS NULL",
            &[&host, &now.0],
        )
        .await?;
        let ends_at = now.plus(self.length);
        let (name, address) = (encode(&self.new.name), self.new.address.as_deref().map(encode));
        let node = tx
            .row(
                "INSERT INTO nodes (id, host, opened_at, since, ends_at, losses_seen, name, address, directory, role) \
                 SELECT greatest(coalesce(max(id), 0) + 1, $9), $1, $2, $3, $4, count(lost_at) + (SELECT lost FROM forgotten_nodes), $5, $6, $7, $8 FROM nodes RETURNING id",
                &[
                    &host,
                    &self.at.0,
                    &now.0,
                    &ends_at.0,
                    &name,
                    &address,
                    &self.new.directory.as_deref(),
                    &code::of(&NODE_ROLES, self.new.role),
                    &self.first,
                ],
            )
            .await?;
        deletion::forget_sessions(tx, self.at).await?;
        let long_ago = now.0.saturating_sub_unsigned(FORGOTTEN_AFTER);
        tx.execute(FORGET, &[&long_ago]).await?;
        let node = node.map(|row| row::number(&row, 0)).transpose()?.unwrap_or_default();
        Ok(Lease {
            node: NodeId(node),
            now: Some(now),
            length: Some(self.length),
        })
    }
}

/// The lease, the losses so far, the time, and how many leases have ended that nobody has noticed. The time is that before the row is locked, so that waiting
/// for it makes no lease longer, and none lost too early.
const LEASE: &str = "SELECT since, ends_at, lost_at, losses_seen, (SELECT count(*) FROM nodes AS lost WHERE lost.lost_at IS NOT NULL) + (SELECT forgotten_nodes.lost FROM forgotten_nodes), now.millis, \
         (SELECT count(*) FROM nodes AS ended WHERE ended.lost_at IS NULL AND ended.ends_at <= now.millis AND ended.id <> $1) \
     FROM nodes, (SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2 AS millis) AS now WHERE id = $1 FOR UPDATE OF nodes";

/// [`longhaul_core::store::LeaseStore::renew`].
pub(crate) struct Renew {
    pub(crate) identity: Arc<Identity>,
    pub(crate) node: NodeId,
    pub(crate) length: Millis,
    pub(crate) clock: Clock,
    pub(crate) published: Arc<PublishedState>,
}

impl Work for Renew {
    type Answer = (Renewal, Vec<NodeTraffic>);

    async fn run(&self, tx: &Tx<'_>) -> Result<Self::Answer, Fault> {
        let offset = self.clock.offset();
        let lease = tx
            .row(LEASE, &[&self.node.0, &offset])
            .await?
            .ok_or(StoreError::LeaseLost)?;
        let read = PostgresRow(&lease);
        if read.integer(2)?.is_some() {
            return Err(StoreError::LeaseLost.into());
        }
        if self.identity.has_changed(&Identity::read(tx).await?) {
            tracing::error!(
                "the database is another one now, or the same after a failover (on a new timeline): what this server knows of it may be lost there"
            );
            return Err(StoreError::LeaseLost.into());
        }
        let now = UnixMillis(task_row::number(&read, 5)?);
        let mut since = task_row::number(&read, 0)?;
        if task_row::number(&read, 1)? <= now.0 {
            since = now.0;
        }
        let mut losses = task_row::number(&read, 4)?;
        if UnixMillis(since).plus(self.length) <= now && task_row::number(&read, 6)? > 0 {
            let lost = tx.execute(LOSE, &[&self.node.0, &now.0]).await?;
            losses += i64::try_from(lost).unwrap_or_default();
        }
        let ends_at = now.plus(self.length).0;
        let traffic = &self.published.traffic;
        let (sender, sent) = (traffic.me.cast_signed(), traffic.last_sent().cast_signed());
        let delivery = code::of(&DELIVERIES, traffic.delivery());
        let renewed: Vec<Param<'_>> = vec![&self.node.0, &since, &ends_at, &losses, &sender, &sent, &delivery];
        let of_node: Vec<Param<'_>> = vec![&self.node.0];
        let found = tx
            .rows_of_all(&[(RENEWED, renewed), (HELD, of_node.clone()), (SENT, of_node)])
            .await?;
        let renewal = Renewal {
            now: Some(now),
            held: found[1].iter().map(held_attempt).collect::<Result<_, _>>()?,
            others_died: losses > task_row::number(&read, 3)?,
        };
        let sent = found[2].iter().map(sent_by).collect::<Result<_, _>>()?;
        Ok((renewal, sent))
    }
}

fn sent_by(row: &tokio_postgres::Row) -> Result<NodeTraffic, Fault> {
    Ok(NodeTraffic {
        node: NodeId(row::number(row, 0)?),
        sender: row::number(row, 1)?.cast_unsigned(),
        number: row::number(row, 2)?.cast_unsigned(),
        delivery: code::word(&DELIVERIES, row::number(row, 3)?).unwrap_or_default(),
    })
}

fn held_attempt(row: &tokio_postgres::Row) -> Result<HeldAttempt, Fault> {
    let row = PostgresRow(row);
    Ok(HeldAttempt {
        task: task_row::id(&row, 0)?,
        epoch: task_row::count(&row, 1)?,
        stop: match row.integer(2)? {
            None => None,
            Some(_) => Some(task_row::word(&row, 2, &STOP_REASONS)?),
        },
    })
}

/// Those that live, and those that are dead and hold attempts. The last column but one is since when their host has no node that runs tasks; `$1` is the role
/// of a front.
const STATUSES: &str = "SELECT nodes.id, host, name, address, opened_at, ends_at, lost_at, count(tasks.id), count(tasks.attempt_host), \
         (SELECT CASE WHEN bool_and(others.lost_at IS NOT NULL) THEN max(others.lost_at) END FROM nodes AS others \
             WHERE others.host = nodes.host AND others.role IS DISTINCT FROM $1), role, delivery \
     FROM nodes LEFT JOIN tasks ON attempt_node = nodes.id AND attempt_state < 3 \
     WHERE lost_at IS NULL OR nodes.id IN (SELECT attempt_node FROM tasks WHERE attempt_state < 3) GROUP BY nodes.id ORDER BY nodes.id";

/// The role of a front, as it is stored.
fn front() -> i64 {
    code::of(&NODE_ROLES, NodeRole::Front)
}

/// [`longhaul_core::store::LeaseStore::nodes`].
pub(crate) async fn statuses(on: &impl Execute, clock: &Clock) -> Result<Vec<NodeStatus>, Fault> {
    let now = clock.now(on).await?;
    let rows = on.rows(STATUSES, &[&front()]).await?;
    rows.iter().map(|row| status(row, now)).collect()
}

fn status(found: &tokio_postgres::Row, now: UnixMillis) -> Result<NodeStatus, Fault> {
    let row = PostgresRow(found);
    let count = |at| row::number(found, at).map(|count| u64::try_from(count).unwrap_or_default());
    Ok(NodeStatus {
        node: NodeId(row::number(found, 0)?),
        host: HostId(row::text(found, 1)?),
        name: row::text(found, 2)?,
        address: row.text(3, |text| Arc::<str>::from(text))?,
        // A later release may know others.
        role: row
            .integer(10)?
            .and_then(|role| code::word(&NODE_ROLES, role))
            .unwrap_or_default(),
        delivery: code::word(&DELIVERIES, row::number(found, 11)?).unwrap_or_default(),
        opened_at: UnixMillis(row::number(found, 4)?),
        lease: match row.integer(6)? {
            None => LeaseStatus::Held(UnixMillis(row::number(found, 5)?).since(now)),
            Some(_) => LeaseStatus::Lost {
                host_lost_for: row.integer(9)?.map(|at| match at {
                    GIVEN_UP => HOST_GIVEN_UP,
                    at => now.since(UnixMillis(at)),
                }),
            },
        },
        attempts: count(7)?,
        bound_attempts: count(8)?,
    })
}

/// [`longhaul_core::store::LeaseStore::await_earlier_writes`]: a transaction that makes the row of a task holds a share of the row of its node until it is over. The database
/// ends one whose connection is lost after `idle_in_transaction_session_timeout`.
pub(crate) const AWAIT_EARLIER_WRITES: &str = "SELECT FROM nodes WHERE id = $1 FOR UPDATE";

/// When a lease was lost whose host was given up: longer ago than any span.
const GIVEN_UP: i64 = i64::MIN;

/// [`longhaul_core::store::LeaseStore::give_up_host`].
pub(crate) struct GiveUpHost {
    pub(crate) node: NodeId,
    pub(crate) clock: Clock,
}

impl Work for GiveUpHost {
    type Answer = Result<(), GiveUpError>;

    async fn run(&self, tx: &Tx<'_>) -> Result<Self::Answer, Fault> {
        // No node of the host begins meanwhile.
        take_turn(tx, "nodes").await?;
        let now = self.clock.now(tx).await?;
        let found = tx.row("SELECT host FROM nodes WHERE id = $1", &[&self.node.0]).await?;
        let Some(found) = found else {
            return Ok(Err(GiveUpError::UnknownNode));
        };
        let host: &str = found.try_get(0)?;
        let alive = tx
            .row(
                "SELECT id, name, address, ends_at FROM nodes WHERE host = $1 AND lost_at IS NULL AND role IS DISTINCT FROM $2 LIMIT 1",
                &[&host, &front()],
            )
            .await?;
        if let Some(alive) = alive {
            let (name, address) = (
                row::text(&alive, 1)?,
                PostgresRow(&alive).text(2, |text| Arc::<str>::from(text))?,
            );
            return Ok(Err(GiveUpError::Alive {
                by: NodeStatus::describe(NodeId(row::number(&alive, 0)?), &name, address.as_deref()),
                left: UnixMillis(row::number(&alive, 3)?).since(now),
            }));
        }
        tx.execute(
            "UPDATE nodes SET lost_at = $2 WHERE host = $1 AND lost_at IS NOT NULL",
            &[&host, &GIVEN_UP],
        )
        .await?;
        Ok(Ok(()))
    }
}

/// [`longhaul_core::store::LeaseStore::end_lease`].
pub(crate) struct EndLease {
    pub(crate) node: NodeId,
    pub(crate) clock: Clock,
}

impl Work for EndLease {
    type Answer = ();

    async fn run(&self, tx: &Tx<'_>) -> Result<(), Fault> {
        let now = self.clock.now(tx).await?;
        tx.execute(
            "UPDATE nodes SET lost_at = $2 WHERE id = $1 AND lost_at IS NULL",
            &[&self.node.0, &now.0],
        )
        .await
        .map(drop)
    }
}
