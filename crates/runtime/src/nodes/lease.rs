//! The node's lease: taking and renewing it, and acting on what the store says that the node holds.

use crate::{
    attempt::{self, recovery},
    engine::Inner,
    node::AttemptOrigin,
    ports::engine_clock::EngineClock,
};
use longhaul_core::{
    Clock, Fence, Millis, Store, TaskId,
    store::{HeldAttempt, Lease, NewNode, StoreError},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tracing::{error, info, warn};

/// How often a lease is renewed while it lasts.
const RENEWALS_PER_LEASE: Millis = 3;
/// After an error of the store.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The longest pause before the lease of a host is asked for again.
const LONGEST_PAUSE: Millis = 1_000;
/// How much longer than the store said the lease of a host is waited for, in milliseconds.
const TOLERANCE: Millis = 2_000;

/// Registers this process as a new node. If the host has a lease from another boot of the machine, or from another directory, its end is waited for: that
/// process may have died with the machine.
///
/// # Errors
/// The store's; [`StoreError::HostInUse`] if the lease of the host has been renewed meanwhile, so that its node lives.
pub(crate) async fn open_node(store: &dyn Store, new: &NewNode, clock: &EngineClock) -> Result<Lease, StoreError> {
    let mut give_up_at = None;
    loop {
        let asked = clock.monotonic();
        let (by, left) = match store.open_node(new, clock.now()).await {
            Err(StoreError::HostInUse { by, left }) => (by, left),
            Ok(lease) => {
                if let Some(now) = lease.now {
                    clock.set(asked, now);
                }
                return Ok(lease);
            }
            Err(error) => return Err(error),
        };
        if give_up_at.is_none() {
            let left = longhaul_core::approximate_duration(left);
            warn!("another server of this host, {by}, has not given up its lease; waiting {left} for its end");
        }
        let last = clock.monotonic() + Duration::from_millis(left.saturating_add(TOLERANCE));
        if clock.monotonic() > *give_up_at.get_or_insert(last) {
            return Err(StoreError::HostInUse { by, left });
        }
        let pause = Duration::from_millis(left.clamp(1, LONGEST_PAUSE));
        clock.sleep(pause).await;
    }
}

/// Renews a lease of `length` until the node stops.
pub(crate) async fn renew_periodically(inner: Arc<Inner>, length: Millis) {
    let node = &inner.node;
    loop {
        let pause = Duration::from_millis(length / RENEWALS_PER_LEASE);
        node.ports.clock.sleep(pause).await;
        let mut has_failed = false;
        // A renewal that gets no answer must not delay the next one until the lease has ended.
        while let Err(error) = node.ports.within(pause, renew(&inner)).await.unwrap_or_else(no_answer) {
            if error == StoreError::LeaseLost {
                return;
            }
            warn!(%error, "the lease of this server could not be renewed, or what it holds not read; trying again");
            has_failed = true;
            node.ports.clock.sleep(PAUSE_AFTER_ERROR).await;
        }
        if has_failed {
            // The lost answer may have said that other nodes have died.
            take_over_beside(&inner);
        }
    }
}

fn no_answer() -> Result<(), StoreError> {
    Err(StoreError::OutcomeUnknown("no answer to the renewal".to_owned()))
}

/// Takes over from dead nodes in a tokio task of its own: it may take longer than the lease lasts.
fn take_over_beside(inner: &Arc<Inner>) {
    if !inner.node.is_released() {
        let taking = Arc::clone(inner);
        inner
            .node
            .spawn(async move { recovery::take_over_if_any(&taking).await });
    }
}

/// Renews the lease once. Asks attempts to stop whose tasks were asked to, drops those that the node no longer holds, runs those whose claims were lost,
/// and takes over from nodes that have died.
///
/// Called by one task of the node only: [`ActiveAttempts::take_unattended`](crate::node::active_attempts::ActiveAttempts::take_unattended) relies on it.
pub(crate) async fn renew(inner: &Arc<Inner>) -> Result<(), StoreError> {
    let node = &inner.node;
    let asked = inner.clock.monotonic();
    // Before the store is asked: one of these that is missing from the answer was taken over.
    let active = node.active.fences();
    let renewal = match node.store.renew(node.id).await {
        Err(StoreError::LeaseLost) => {
            error!(
                "the lease of this server was lost: it was not renewed in time. All work of this process is stopped"
            );
            node.lose_lease();
            return Err(StoreError::LeaseLost);
        }
        renewed => renewed?,
    };
    if let Some(now) = renewal.now {
        *inner.lease_renewed.lock() = Some(asked);
        inner.clock.follow(asked, now);
    }
    for held in &renewal.held {
        if let Some(reason) = held.stop {
            node.active.stop_attempt(&held.task, held.epoch, reason);
        }
    }
    leave_lost_attempts(inner, &active, &renewal.held);
    for (id, origin) in node.active.take_unattended(&renewal.held) {
        run_unattended(inner, &id, origin).await?;
    }
    if renewal.others_died {
        info!("a server has died: its lease has ended");
        node.note_deaths();
        take_over_beside(inner);
    }
    Ok(())
}

/// Another node has taken them over, so nothing of them can be written any more.
fn leave_lost_attempts(inner: &Inner, active: &[(TaskId, Fence)], held: &[HeldAttempt]) {
    let held: BTreeMap<&TaskId, u32> = held.iter().map(|held| (&held.task, held.epoch)).collect();
    for (task, fence) in active {
        if held.get(task) != Some(&fence.epoch) {
            inner.node.active.remove(task, *fence);
        }
    }
}

async fn run_unattended(inner: &Arc<Inner>, id: &TaskId, origin: AttemptOrigin) -> Result<(), StoreError> {
    let before = inner.node.active.guard_claim();
    if let Some(claimed) = inner.node.store.held(inner.node.id, id).await? {
        warn!(
            task = id.short(),
            "the answer of a claim was lost; its attempt is run now"
        );
        let slot = inner.node.slots.take_anyway(&claimed.task.tool);
        let attempt = attempt::drive(Arc::clone(inner), claimed.into(), slot, origin, before);
        inner.node.spawn(attempt);
    }
    Ok(())
}
