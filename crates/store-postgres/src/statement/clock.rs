//! The time of the database.

use super::{Execute, Fault, row};
use longhaul_core::UnixMillis;
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// The clock of the database, by which leases end.
#[derive(Clone)]
pub(crate) struct Clock {
    pub(crate) offset: Arc<AtomicI64>,
}

impl Clock {
    /// What is added to it.
    pub(crate) fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    pub(crate) async fn now(&self, on: &impl Execute) -> Result<UnixMillis, Fault> {
        let now = on
            .row("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", &[])
            .await?;
        let now = now.map(|row| row::number(&row, 0)).transpose()?.unwrap_or_default();
        Ok(UnixMillis(now + self.offset()))
    }
}
