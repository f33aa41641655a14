//! The permits of nodes.

use crate::{
    change::batch::dead_nodes,
    connection::{Work, take_turn},
    event::Effects,
    statement::{Clock, Execute, Fault, PostgresRow, Tx, encode, row},
};
use longhaul_core::{
    NodeId,
    store::{PermitHolder, PermitReport, Permits, StoreError},
};
use longhaul_store::task_row;
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

const HOLDERS: &str = "SELECT node, held, wanted, share, short_since, got_at FROM permits WHERE tool = $1";
const WRITE: &str = "INSERT INTO permits (tool, node, held, wanted, share, short_since, got_at) VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (tool, node) DO UPDATE SET held = excluded.held, wanted = excluded.wanted, share = excluded.share, \
     short_since = excluded.short_since, got_at = excluded.got_at";
const DROP_OTHERS: &str = "DELETE FROM permits WHERE node = $1 AND tool <> ALL($2::text[]) RETURNING tool";
const DROP_DEAD: &str = "DELETE FROM permits WHERE node IN (SELECT id FROM nodes WHERE lost_at IS NOT NULL)";
/// The limit, and how many attempts are still those of dead nodes.
const LIMIT: &str = "SELECT (SELECT concurrency FROM tool_limits WHERE tool = $1), \
     (SELECT count(*) FROM tasks WHERE attempt_state < 3 AND tool = $1 AND attempt_node IN (SELECT nodes.id FROM nodes WHERE lost_at IS NOT NULL))";

/// [`longhaul_core::store::QueueStore::share_permits`].
pub(crate) struct Share {
    pub(crate) node: NodeId,
    pub(crate) report: PermitReport,
    pub(crate) clock: Clock,
}

impl Work for Share {
    type Answer = (Vec<Permits>, Effects);

    async fn run(&self, tx: &Tx<'_>) -> Result<Self::Answer, Fault> {
        take_turn(tx, "permits").await?;
        let node = self.node;
        if dead_nodes(tx, &[node.0]).await?.contains(&node) {
            return Err(StoreError::LeaseLost.into());
        }
        let number = i64::try_from(self.report.number).unwrap_or(i64::MAX);
        let is_later = tx
            .execute(
                "UPDATE nodes SET report = $2 WHERE id = $1 AND report < $2",
                &[&node.0, &number],
            )
            .await?;
        if is_later == 0 {
            return Err(StoreError::Failed("a later report was made already".to_owned()).into());
        }
        let now = self.clock.now(tx).await?;
        tx.execute(DROP_DEAD, &[]).await?;
        let mut changed: BTreeSet<Arc<str>> = BTreeSet::new();
        let requests = &self.report.requests;
        let tools: Vec<Cow<'_, str>> = requests.iter().map(|request| encode(&request.tool)).collect();
        for row in tx.rows(DROP_OTHERS, &[&node.0, &tools]).await? {
            changed.insert(row::text(&row, 0)?);
        }
        let mut permits = Vec::with_capacity(requests.len());
        for (request, tool) in requests.iter().zip(&tools) {
            let holders = tx.rows(HOLDERS, &[tool]).await?;
            let holders: Vec<PermitHolder> = holders.iter().map(holder).collect::<Result<_, _>>()?;
            let (own, others): (Vec<PermitHolder>, Vec<PermitHolder>) =
                holders.into_iter().partition(|holder| holder.node == node);
            let before = own.first().copied();
            let limit = limit(tx, tool).await?;
            let (after, count) = PermitHolder::answer(node, request, before, &others, limit, now);
            if before != Some(after) {
                changed.insert(Arc::clone(&request.tool));
                write(tx, tool, &after).await?;
            }
            permits.push(Permits {
                tool: Arc::clone(&request.tool),
                count,
            });
        }
        let mut effects = Effects::default();
        changed.into_iter().for_each(|tool| effects.permits_changed(tool, node));
        Ok((permits, effects))
    }
}

async fn limit(tx: &Tx<'_>, tool: &str) -> Result<(usize, usize), Fault> {
    let Some(found) = tx.row(LIMIT, &[&tool]).await? else {
        return Ok((usize::MAX, 0));
    };
    let limit: Option<i64> = found.try_get(0)?;
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok((limit, count(&found, 1)?))
}

async fn write(tx: &Tx<'_>, tool: &str, holder: &PermitHolder) -> Result<(), Fault> {
    let [held, wanted, share] = [holder.held, holder.wanted, holder.share].map(row::bound);
    let short_since = holder.short_since.map(|since| since.0);
    tx.execute(
        WRITE,
        &[
            &tool,
            &holder.node.0,
            &held,
            &wanted,
            &share,
            &short_since,
            &holder.got_at.0,
        ],
    )
    .await
    .map(drop)
}

fn holder(row: &tokio_postgres::Row) -> Result<PermitHolder, Fault> {
    Ok(PermitHolder {
        node: NodeId(row::number(row, 0)?),
        held: count(row, 1)?,
        wanted: count(row, 2)?,
        share: count(row, 3)?,
        short_since: task_row::timestamp(&PostgresRow(row), 4)?,
        got_at: longhaul_core::UnixMillis(row::number(row, 5)?),
    })
}

/// The greatest number stands for no limit, on both sides.
fn count(row: &tokio_postgres::Row, column: usize) -> Result<usize, Fault> {
    match row::number(row, column)? {
        i64::MAX => Ok(usize::MAX),
        number => Ok(usize::try_from(number).unwrap_or_default()),
    }
}
