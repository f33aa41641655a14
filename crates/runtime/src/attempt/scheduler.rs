//! Giving free slots to queued tasks: the first ready task of a tool, and the tools in turn, those first whose task has a higher priority.

use crate::{
    attempt,
    engine::Inner,
    node::{AttemptOrigin, StoreTrouble},
    ports::LONGEST_SLEEP,
    queue::{queues::QueueGuard, slots::Slot},
};
use longhaul_core::{
    Priority, UnixMillis,
    store::{Claim, QueuePlace, StoreError},
};
use std::{sync::Arc, time::Duration};

/// After a store error, before the next look.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// After a claim that came away empty although a task was ready: another node was quicker, or has not committed yet.
const PAUSE_AFTER_MISS: u64 = 50;

/// Gives free slots to queued tasks until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut trouble = StoreTrouble::new("queued tasks could not be started");
    loop {
        let freed = inner.node.slots.freed();
        tokio::pin!(freed);
        freed.as_mut().enable();
        let next_ready = match fill_slots(&inner).await {
            Ok(_) if inner.node.is_released() => return,
            Ok(next_ready) => {
                trouble.is_over(inner.node.ports.clock.monotonic());
                next_ready
            }
            Err(error) => {
                trouble.failed(&error, inner.node.ports.clock.monotonic());
                // Nothing else may wake us: what failed has given its slot back and offered its queue again.
                inner.node.ports.clock.sleep(PAUSE_AFTER_ERROR).await;
                continue;
            }
        };
        tokio::select! {
            // The order does not matter, but a random one would make a simulated run differ from the next.
            biased;
            () = freed => {}
            () = inner.node.queues.offered() => {}
            () = until(&inner, next_ready) => {}
        }
    }
}

async fn until(inner: &Inner, at: Option<UnixMillis>) {
    match at {
        Some(at) => {
            let wait = at.since(inner.node.now()).clamp(1, LONGEST_SLEEP);
            inner.node.ports.clock.sleep(Duration::from_millis(wait)).await;
        }
        None => std::future::pending().await,
    }
}

/// Goes round the tools, one task each, until no slot or no ready task is left; returns when the next task will be ready.
async fn fill_slots(inner: &Arc<Inner>) -> Result<Option<UnixMillis>, StoreError> {
    loop {
        // Attempts that are released are queued again.
        if inner.node.is_released() {
            return Ok(None);
        }
        let now = inner.node.now();
        let turn = if inner.node.slots.is_full() {
            None
        } else {
            inner.node.queues.take_turn(now, |tool| inner.free_slot(tool))
        };
        match turn {
            Some((look, slot)) => claim_one(inner, look, slot, now).await?,
            // The same `now`: what has become ready since is not passed over.
            None => return Ok(inner.node.queues.next_ready(now)),
        }
    }
}

async fn claim_one(inner: &Arc<Inner>, look: QueueGuard, slot: Slot, now: UnixMillis) -> Result<(), StoreError> {
    // Of a queue that was not read.
    let unknown = QueuePlace {
        priority: Priority::default(),
        ready_at: now,
    };
    let looked = match inner.is_found_paused(look.tool()).await {
        // It gets no slot from now on.
        Ok(true) => Ok(Some(unknown)),
        Ok(false) => claim_from_queue(inner, look.tool(), slot, now).await,
        Err(error) => Err(error),
    };
    match looked {
        Ok(Some(place)) => inner.node.queues.offer(look.tool(), place),
        Ok(None) => {}
        Err(_) => inner.node.queues.offer(look.tool(), unknown),
    }
    looked.map(drop)
}

/// Starts the first ready task and returns the place of the next one.
async fn claim_from_queue(
    inner: &Arc<Inner>,
    tool: &Arc<str>,
    slot: Slot,
    now: UnixMillis,
) -> Result<Option<QueuePlace>, StoreError> {
    let claim = Claim {
        tool: Arc::clone(tool),
        node: inner.node.id,
        host: inner.binding(tool),
        limit: 1,
        at: now,
        rate: inner.start_rate(tool),
    };
    let rate = claim.rate;
    let before = inner.node.active.guard_claim();
    let claimed = inner.node.store.claim(claim).await.inspect_err(|error| {
        if let StoreError::OutcomeUnknown(_) = error {
            inner.node.active.claim_was_lost(AttemptOrigin::Claimed);
        }
    });
    let claimed = claimed?.pop();
    let earliest = match claimed {
        Some(claimed) => {
            inner.node.spawn(attempt::drive(
                Arc::clone(inner),
                claimed.into(),
                slot,
                AttemptOrigin::Claimed,
                before,
            ));
            now
        }
        // From here, not from before the claim, which may have taken longer than this.
        None => inner.node.now().plus(PAUSE_AFTER_MISS),
    };
    if let Some(rate) = rate {
        let last = inner.node.store.last_start(tool).await?;
        let next_start = rate.next_start(last, now);
        if next_start > now {
            inner.node.queues.hold_until(tool, next_start);
        }
    }
    let next = inner.node.store.next_ready(tool, now).await?;
    Ok(next.map(|place| QueuePlace {
        ready_at: place.ready_at.max(earliest),
        ..place
    }))
}
