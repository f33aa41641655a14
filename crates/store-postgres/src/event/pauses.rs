//! Pauses of tools, and of what else has a name among them. A claim reads whether they have changed: a node that has not heard of a pause begins nothing of it.

use crate::{
    connection::Work,
    statement::{Execute, Fault, Tx, encode, row},
};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

const PAUSE: &str = "INSERT INTO paused_tools (tool) VALUES ($1) ON CONFLICT DO NOTHING";
const END_PAUSE: &str = "DELETE FROM paused_tools WHERE tool = $1";
const COUNT_CHANGE: &str = "UPDATE pause_version SET version = version + 1";
/// Read with what a claim reads first.
pub(crate) const PAUSE_VERSION: &str = "SELECT version FROM pause_version";
/// One row at least.
const PAUSED: &str = "SELECT version, tool FROM pause_version LEFT JOIN paused_tools ON true ORDER BY tool";

/// Nobody has asked for the pauses yet.
const UNKNOWN: i64 = -1;

/// The version of the pauses that this process has read last.
pub(crate) struct KnownPauses(AtomicI64);

impl Default for KnownPauses {
    fn default() -> Self {
        Self(AtomicI64::new(UNKNOWN))
    }
}

impl KnownPauses {
    /// Whether they have changed since they were read, by the answer to [`PAUSE_VERSION`].
    pub(crate) fn have_changed(&self, found: &[tokio_postgres::Row]) -> Result<bool, Fault> {
        let known = self.0.load(Ordering::Relaxed);
        let version = found.first().map(|row| row::number(row, 0)).transpose()?;
        Ok(known != UNKNOWN && version.is_some_and(|version| version != known))
    }
}

/// [`longhaul_core::store::QueueStore::set_paused`].
pub(crate) struct SetPaused {
    pub(crate) tool: String,
    pub(crate) paused: bool,
}

impl Work for SetPaused {
    type Answer = ();

    async fn run(&self, tx: &Tx<'_>) -> Result<(), Fault> {
        let sql = if self.paused { PAUSE } else { END_PAUSE };
        tx.execute(sql, &[&encode(&self.tool)]).await?;
        tx.execute(COUNT_CHANGE, &[]).await.map(drop)
    }
}

/// [`longhaul_core::store::QueueStore::paused`].
pub(crate) async fn paused(on: &impl Execute, known: &KnownPauses) -> Result<Vec<Arc<str>>, Fault> {
    let mut paused = Vec::new();
    let found = on.rows(PAUSED, &[]).await?;
    for row in &found {
        if row.try_get::<_, Option<&str>>(1)?.is_some() {
            paused.push(row::text(row, 1)?);
        }
    }
    if let Some(first) = found.first() {
        known.0.store(row::number(first, 0)?, Ordering::Relaxed);
    }
    Ok(paused)
}
