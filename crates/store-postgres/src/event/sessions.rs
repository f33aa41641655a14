//! Sessions that were ended at other nodes.

use super::PublishedState;
use crate::{
    connection::Connections,
    executor::pause,
    statement::{Execute, Fault, row},
};
use longhaul_core::{SessionKey, UnixMillis};
use std::{sync::Weak, time::Duration};

/// A node may learn five seconds late.
const INTERVAL: Duration = Duration::from_secs(4);

/// What transactions since `$1` have ended, and the oldest transaction that is not over: whatever is not seen now comes from it or from later ones.
const READ: &str = "SELECT session, until, pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM ended_sessions WHERE written_by >= $1 \
     UNION ALL SELECT NULL, NULL, pg_snapshot_xmin(pg_current_snapshot())::text::bigint";

/// Reads what is new. Returns where the next read begins.
pub(crate) async fn read(connections: &Connections, published: &PublishedState, since: i64) -> Result<i64, Fault> {
    let connection = connections.get().await?;
    let (mut ended, mut next) = (Vec::new(), since);
    let rows = connection.rows(READ, &[&since]).await;
    for row in connection.settle(rows)? {
        next = row::number(&row, 2)?;
        if let Some(until) = row.try_get::<_, Option<i64>>(1)? {
            ended.push((SessionKey::named(row::text(&row, 0)?), UnixMillis(until)));
        }
    }
    if !ended.is_empty() {
        published.sessions_ended(ended);
    }
    Ok(next)
}

/// Reads what is new, over and over, until the store is dropped.
pub(crate) async fn follow(connections: Connections, published: Weak<PublishedState>, mut since: i64) {
    loop {
        pause(INTERVAL).await;
        let Some(published) = published.upgrade() else { return };
        match read(&connections, &published, since).await {
            Ok(next) => since = next,
            Err(why) => tracing::debug!(%why, "ended sessions cannot be read"),
        }
    }
}
