//! Recovering what processes that have died left behind: at the start, and from time to time.

use super::timers;
use crate::{
    attempt,
    engine::Inner,
    node::{AttemptOrigin, Node, cancel_children_of_finished_parents},
};
use futures_util::future::join_all;
use longhaul_core::{
    CancelMode, Event, Millis, Task, TaskId,
    store::{ApplyError, Change, Claimed, Counts, LeaseStatus, NodeStatus, StoreError, TaskLookup},
};
use std::{sync::Arc, time::Duration};
use tracing::{info, warn};

const BATCH: usize = 256;

/// What was found at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Attempts of earlier processes that were taken over at the start, whether still running, already ended, or lost.
    pub attempts: usize,
    /// Plain calls whose caller is gone for good; they were cancelled.
    pub orphaned_calls: usize,
    /// Live tasks by state, after all of the above.
    pub live: Counts,
}

/// How often other nodes that have died, and hosts that are given up, are looked for.
const RECOVER_EVERY: Duration = Duration::from_secs(60);
/// The shortest pause between two looks: what cannot be taken over yet is not looked for over and over.
const SHORTEST_LOOK: Duration = Duration::from_millis(500);
/// The pause while a host is away: what is bound to it and is asked to stop is ended soon.
const LOOK_WHILE_AWAY: Duration = Duration::from_secs(2);
/// How long a plain call whose server has died is kept for a client that may come back, in milliseconds.
pub const KEPT_FOR_CLIENT: Millis = 60_000;
/// As many deleted tasks of this host are looked through for work that still runs.
const MOST_TOMBSTONES: usize = 10_000;

/// The usual [`EngineOptions::lost_after`](crate::EngineOptions::lost_after).
pub const HOST_LOST_AFTER: Millis = 10 * 60_000;

/// Takes over from nodes that die while this one runs, until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        let pause = until_next_look(&inner).await;
        let is_due = tokio::select! {
            biased;
            // What they held is taken over when that is noticed. Only the time has changed at which a host is given up.
            () = inner.node.others_died() => false,
            () = inner.node.ports.clock.sleep(pause) => true,
        };
        if inner.node.is_released() {
            return;
        }
        if is_due {
            take_over_if_any(&inner).await;
            end_given_up_work_beside(&inner).await;
        }
    }
}

/// How long it may take until there is something to take over.
async fn until_next_look(inner: &Inner) -> Duration {
    let longest = RECOVER_EVERY.min(Duration::from_millis(inner.lost_after));
    if !inner.node.store.capabilities().many_nodes || !inner.node.runs_tasks() {
        return longest;
    }
    let Ok(nodes) = inner.node.store.nodes().await else {
        return longest;
    };
    let given_up_in = |node: &NodeStatus| match node.lease {
        LeaseStatus::Lost { host_lost_for } if node.bound_attempts > 0 => {
            Some(inner.lost_after.saturating_sub(host_lost_for?))
        }
        _ => None,
    };
    let next = nodes.iter().filter_map(given_up_in).min();
    next.map_or(longest, |millis| {
        Duration::from_millis(millis).clamp(SHORTEST_LOOK, LOOK_WHILE_AWAY)
    })
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

/// Order matters: orphaned calls are cancelled, or kept for a while, before their attempts are adopted, so that these attempts are stopped at once;
/// deadlines that passed while no server ran are applied before anything is claimed.
pub(crate) async fn recover(inner: &Arc<Inner>) -> Result<Recovered, StoreError> {
    let (attempts, orphaned_calls) = take_over(inner).await?;
    if inner.node.store.capabilities().many_nodes {
        end_given_up_work(inner).await?;
    }
    while matches!(timers::fire(&inner.node).await?, timers::FireOutcome::Some) {}
    // The limits may be other ones now, and an earlier release does not know groups.
    inner.node.store.fill_groups().await?;
    let now = inner.node.now();
    for tool in inner.node.store.queued_tools().await? {
        if let Some(place) = inner.node.store.next_ready(&tool, now).await? {
            inner.node.queues.offer(&tool, place);
        }
    }
    Ok(Recovered {
        attempts,
        orphaned_calls,
        live: inner.node.store.counts().await?,
    })
}

/// Ends work that has gone on here, outside of this process, while this host had no node, and that other nodes have given up: it would run on beside its retry.
///
/// Called after adoption: whatever was not given up by then is this node's, and nobody gives it up while the node lives.
async fn end_given_up_work(inner: &Arc<Inner>) -> Result<(), StoreError> {
    for provider in &inner.providers {
        let running = provider.running_outside().await.unwrap_or_else(|error| {
            warn!(%error, "whether commands of attempts that were given up still run is not known");
            Vec::new()
        });
        for (task, epoch) in running {
            let is_being_ended = inner.ending_outside.lock().contains_key(&(task.clone(), epoch));
            if !is_being_ended && !was_given_up(&inner.node, &task, epoch).await? {
                continue;
            }
            let found = {
                let mut ending = inner.ending_outside.lock();
                let found = ending.entry((task.clone(), epoch)).or_default();
                *found += 1;
                *found
            };
            if found.is_power_of_two() {
                warn!(
                    task = task.short(),
                    epoch,
                    "an attempt was given up while this host was away, and its command still runs here; ending it"
                );
            }
            if is_being_ended {
                continue;
            }
            let (provider, ending) = (Arc::clone(provider), Arc::clone(inner));
            inner.node.spawn(async move {
                provider.end_outside(&task, epoch).await;
                ending.ending_outside.lock().remove(&(task.clone(), epoch));
                info!(
                    task = task.short(),
                    epoch, "the command of an attempt that was given up has ended"
                );
            });
        }
    }
    Ok(())
}

/// On a host whose server runs no tasks, work of an earlier server is given up while this one runs.
async fn end_given_up_work_beside(inner: &Arc<Inner>) {
    if inner.node.runs_tasks() || !inner.node.store.capabilities().many_nodes {
        return;
    }
    if let Err(error) = end_given_up_work(inner).await {
        warn!(%error, "which attempts of this host were given up could not be read");
    }
}

/// Whether an attempt that was bound to this host is not any more, or its task is deleted.
async fn was_given_up(node: &Node, id: &TaskId, epoch: u32) -> Result<bool, StoreError> {
    match node.store.get_unscoped(id).await? {
        Some(record) => {
            let latest = record.task.attempt;
            Ok(
                latest
                    .is_some_and(|latest| latest.epoch > epoch || latest.host.as_ref() != Some(&node.registered.host)),
            )
        }
        // Without a tombstone nothing is known of it: the database may have been replaced.
        None => Ok(node
            .store
            .tombstones(&node.registered.host, MOST_TOMBSTONES)
            .await?
            .contains(id)),
    }
}

/// Cancels the calls whose clients cannot come back, and keeps the others for a while; returns how many were cancelled. Side by side, so that they share commits.
async fn cancel_orphaned_calls(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let tasks = inner
            .node
            .store
            .find(TaskLookup::OrphanedCalls(inner.node.id), BATCH)
            .await?;
        if tasks.is_empty() {
            return Ok(count);
        }
        for cancelled in join_all(tasks.iter().map(|task| cancel(&inner.node, task))).await {
            count += usize::from(cancelled?);
        }
    }
}

async fn cancel(node: &Node, task: &Task) -> Result<bool, StoreError> {
    if task.client_may_return() && keep_for_client(node, task).await? {
        return Ok(false);
    }
    let event = Event::CancelRequested(CancelMode::AtOnce);
    match node.store.apply(Change::of(&task.id, event, node.now())).await {
        Ok(_) => Ok(true),
        Err(ApplyError::Store(error)) => Err(error),
        // Another node that starts was quicker.
        Err(_) => Ok(false),
    }
}

/// Keeps a call for a client that may resume its stream. Returns whether it is kept: it is not, if it was asked to stop.
async fn keep_for_client(node: &Node, task: &Task) -> Result<bool, StoreError> {
    let event = Event::RetryAwaited {
        until: node.now().plus(KEPT_FOR_CLIENT),
    };
    match node.store.apply(Change::of(&task.id, event, node.now())).await {
        Ok(_) => Ok(true),
        Err(ApplyError::Store(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

/// Takes over the attempts of dead nodes: those that this host can resume, and those that were lost with their host.
async fn take_over_attempts(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    if !inner.begins_work() {
        return Ok(0);
    }
    let (store, node, host) = (&inner.node.store, inner.node.id, &inner.node.registered.host);
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
