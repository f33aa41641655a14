//! Recovering what an earlier process left behind.

use crate::{
    attempt,
    attempt::Begin,
    engine::Inner,
    node::{Node, cancel_children_of_finished_parents},
    timers,
};
use futures_util::future::join_all;
use longhaul_core::{
    CancelMode, Event, Task,
    store::{ApplyError, Change, Counts, StoreError},
};
use std::sync::Arc;

const BATCH: usize = 256;

/// What was found at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Attempts of earlier processes that were adopted again: still running, ended meanwhile, or lost.
    pub attempts: usize,
    /// Plain calls whose caller is gone; they were cancelled.
    pub orphaned_calls: usize,
    /// Live tasks by state, after all of the above.
    pub live: Counts,
}

/// Order matters: orphaned calls are cancelled before their attempts are adopted, so that these are stopped and not awaited;
/// deadlines that passed while nobody ran are applied before anything is claimed.
pub(crate) async fn recover(inner: &Arc<Inner>) -> Result<Recovered, StoreError> {
    let orphaned_calls = cancel_orphaned_calls(inner).await?;
    cancel_children_of_finished_parents(&inner.node).await?;
    let attempts = adopt(inner).await?;
    while matches!(timers::fire(&inner.node).await?, timers::Fired::Some) {}
    let now = inner.node.now();
    for tool in inner.node.store.queued_tools().await? {
        inner.node.queues.offer(&tool, now);
    }
    Ok(Recovered {
        attempts,
        orphaned_calls,
        live: inner.node.store.counts().await?,
    })
}

/// Side by side, so that they share commits.
async fn cancel_orphaned_calls(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let tasks = inner.node.store.orphaned_calls(inner.node.id, BATCH).await?;
        if tasks.is_empty() {
            return Ok(count);
        }
        for cancelled in join_all(tasks.iter().map(|task| cancel(&inner.node, task))).await {
            count += usize::from(cancelled?);
        }
    }
}

async fn cancel(node: &Node, task: &Task) -> Result<bool, StoreError> {
    let event = Event::CancelRequested(CancelMode::AtOnce);
    match node.store.apply(Change::of(&task.id, event, node.now())).await {
        Ok(_) => Ok(true),
        Err(ApplyError::Store(error)) => Err(error),
        // Another node that starts was quicker.
        Err(_) => Ok(false),
    }
}

async fn adopt(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let missed = inner.node.active.missed();
        let claimed = (inner.node.store)
            .adopt(inner.node.id, &inner.node.host, BATCH, inner.node.now())
            .await?;
        if claimed.is_empty() {
            return Ok(count);
        }
        count += claimed.len();
        for claimed in claimed {
            let slot = inner.node.slots.take_anyway(&claimed.task.tool);
            let attempt = attempt::drive(Arc::clone(inner), claimed, slot, Begin::Resumed, missed);
            inner.node.spawn(attempt);
        }
    }
}
