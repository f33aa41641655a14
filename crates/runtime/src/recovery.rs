//! Recovering what processes that have died left behind: at the start, and from time to time.

use crate::{
    active_attempts::AttemptOrigin,
    attempt,
    engine::Inner,
    node::{Node, cancel_children_of_finished_parents},
    timers,
};
use futures_util::future::join_all;
use longhaul_core::{
    CancelMode, Event, Millis, Task,
    store::{ApplyError, Change, Claimed, Counts, StoreError},
};
use std::{sync::Arc, time::Duration};
use tracing::{info, warn};

const BATCH: usize = 256;

/// What was found at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Attempts of earlier processes that were taken over at the start, whether still running, already ended, or lost.
    pub attempts: usize,
    /// Plain calls whose caller is gone; they were cancelled.
    pub orphaned_calls: usize,
    /// Live tasks by state, after all of the above.
    pub live: Counts,
}

/// How often other nodes that have died are looked for.
const RECOVER_EVERY: Duration = Duration::from_secs(60);

/// The usual [`EngineOptions::lost_after`](crate::EngineOptions::lost_after).
pub const HOST_LOST_AFTER: Millis = 10 * 60_000;

/// Takes over from nodes that die while this one runs, until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        inner.node.ports.clock.sleep(RECOVER_EVERY).await;
        if inner.node.is_released() {
            return;
        }
        take_over_if_any(&inner).await;
    }
}

/// Takes over from nodes that have died, if there are any. What could not be read is read again later.
pub(crate) async fn take_over_if_any(inner: &Arc<Inner>) {
    match take_over(inner).await {
        Ok((0, 0)) => {}
        Ok((attempts, orphaned_calls)) => info!(attempts, orphaned_calls, "took over from a server that has died"),
        Err(StoreError::Locked | StoreError::LeaseLost) => {}
        Err(error) => warn!(%error, "what other servers have left behind could not be read"),
    }
}

/// What is done for tasks of dead nodes. Returns the number of attempts adopted or reclaimed, and of orphaned calls.
async fn take_over(inner: &Arc<Inner>) -> Result<(usize, usize), StoreError> {
    let orphaned_calls = cancel_orphaned_calls(inner).await?;
    cancel_children_of_finished_parents(&inner.node).await?;
    Ok((take_over_attempts(inner).await?, orphaned_calls))
}

/// Order matters: orphaned calls are cancelled before their attempts are adopted, so that these attempts are stopped at once;
/// deadlines that passed while no server ran are applied before anything is claimed.
pub(crate) async fn recover(inner: &Arc<Inner>) -> Result<Recovered, StoreError> {
    let (attempts, orphaned_calls) = take_over(inner).await?;
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

/// Takes over the attempts of dead nodes: those that this host can resume, and those that were lost with their host.
async fn take_over_attempts(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let (store, node, host) = (&inner.node.store, inner.node.id, &inner.node.host);
    let adopt = || store.adopt(node, host, BATCH, inner.node.now());
    let reclaim = || store.reclaim(node, host, inner.lost_after, BATCH, inner.node.now());
    Ok(take_all(inner, AttemptOrigin::Adopted, adopt).await?
        + take_all(inner, AttemptOrigin::Reclaimed, reclaim).await?)
}

async fn take_all<F>(
    inner: &Arc<Inner>,
    origin: AttemptOrigin,
    mut take: impl FnMut() -> F,
) -> Result<usize, StoreError>
where
    F: Future<Output = Result<Vec<Claimed>, StoreError>>,
{
    let mut count = 0;
    loop {
        let before = inner.node.active.guard_claim();
        let taken = take().await.inspect_err(|error| {
            if let StoreError::OutcomeUnknown(_) = error {
                // Also for reclaimed attempts: `drive` recognizes one by its missing host.
                inner.node.active.claim_was_lost(AttemptOrigin::Adopted);
            }
        })?;
        if taken.is_empty() {
            return Ok(count);
        }
        count += taken.len();
        for claimed in taken {
            let slot = inner.node.slots.take_anyway(&claimed.task.tool);
            let attempt = attempt::drive(Arc::clone(inner), claimed.into(), slot, origin, before.clone());
            inner.node.spawn(attempt);
        }
    }
}
