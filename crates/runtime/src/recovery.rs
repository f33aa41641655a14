//! Taking up what an earlier process left behind.

use crate::{attempt, attempt::Begin, engine::Inner, timers};
use longhaul_core::{
    CancelMode, Event,
    store::{ApplyError, Change, Counts, StoreError},
};
use std::sync::Arc;

const BATCH: usize = 256;

/// What was found at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Attempts of earlier processes that were taken up again: still running, ended meanwhile, or lost.
    pub attempts: usize,
    /// Plain calls whose caller is gone; they were cancelled.
    pub forsaken: usize,
    /// Live tasks by state, after all of the above.
    pub live: Counts,
}

/// Order matters: forsaken calls are cancelled before their attempts are taken up, so that these are stopped and not awaited;
/// deadlines that passed while nobody ran are applied before anything is claimed.
pub(crate) async fn recover(inner: &Arc<Inner>) -> Result<Recovered, StoreError> {
    let forsaken = cancel_forsaken(inner).await?;
    let attempts = adopt(inner).await?;
    while matches!(timers::fire(inner).await?, timers::Fired::Some) {}
    for tool in inner.store.queued_tools().await? {
        inner.queues.offer(&tool);
    }
    Ok(Recovered {
        attempts,
        forsaken,
        live: inner.store.counts().await?,
    })
}

async fn cancel_forsaken(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let tasks = inner.store.forsaken(inner.node, BATCH).await?;
        if tasks.is_empty() {
            return Ok(count);
        }
        for task in tasks {
            let event = Event::CancelRequested(CancelMode::AtOnce);
            match inner
                .store
                .apply(Change::of(&task.id, event, inner.ports.clock.now()))
                .await
            {
                Ok(_) => count += 1,
                Err(ApplyError::Store(error)) => return Err(error),
                Err(_) => {}
            }
        }
    }
}

async fn adopt(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let claimed = inner
            .store
            .adopt(inner.node, &inner.host, BATCH, inner.ports.clock.now())
            .await?;
        if claimed.is_empty() {
            return Ok(count);
        }
        count += claimed.len();
        for claimed in claimed {
            let slot = inner.slots.take_anyway(&claimed.task.tool);
            inner.spawn(attempt::drive(Arc::clone(inner), claimed, slot, Begin::Resumed));
        }
    }
}
