//! Who gets the next free slot: the oldest task of a tool, and the tools in turn.

use crate::{attempt, attempt::Begin, engine::Inner};
use longhaul_core::{UnixMillis, store::Claim};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;
use tracing::warn;

/// After a store error, before the next look.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The longest sleep while only tasks that are not ready yet are queued.
const LONGEST_SLEEP: u64 = 60_000;

/// The tools that may have queued tasks, in turn. The queues themselves are the store's.
#[derive(Default)]
pub(crate) struct Queues {
    turn: Mutex<VecDeque<Arc<str>>>,
    offered: Notify,
}

impl Queues {
    /// Says that `tool` has a queued task.
    pub(crate) fn offer(&self, tool: &Arc<str>) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !turn.contains(tool) {
            turn.push_back(Arc::clone(tool));
        }
        drop(turn);
        self.offered.notify_one();
    }

    /// Whether `tool` may have tasks queued, which a new one must not overtake.
    pub(crate) fn waits(&self, tool: &Arc<str>) -> bool {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    fn in_turn(&self) -> Vec<Arc<str>> {
        self.turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// Puts `tool`, which just had its turn, behind the others.
    fn rotate(&self, tool: &Arc<str>) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = turn.iter().position(|waiting| waiting == tool) {
            turn.remove(position);
            turn.push_back(Arc::clone(tool));
        }
    }

    /// Takes `tool` out of the turn *before* its queue is looked at: an offer that comes meanwhile puts it back in.
    fn remove(&self, tool: &Arc<str>) {
        self.turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|waiting| waiting != tool);
    }
}

/// Gives free slots to queued tasks until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        let freed = inner.slots.freed();
        tokio::pin!(freed);
        freed.as_mut().enable();
        let sleep = match fill_slots(&inner).await {
            Ok(next_ready) => next_ready.map(|at| until(&inner, at)),
            Err(error) => {
                warn!(%error, "the queues could not be read");
                Some(PAUSE_AFTER_ERROR)
            }
        };
        let timer = async {
            match sleep {
                Some(duration) => inner.ports.clock.sleep(duration).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = freed => {}
            () = inner.queues.offered.notified() => {}
            () = timer => {}
        }
    }
}

fn until(inner: &Inner, at: UnixMillis) -> Duration {
    Duration::from_millis(at.since(inner.ports.clock.now()).clamp(1, LONGEST_SLEEP))
}

/// Goes round the tools, one task each, until no slot or no ready task is left; returns when the next task will be ready.
async fn fill_slots(inner: &Arc<Inner>) -> Result<Option<UnixMillis>, longhaul_core::store::StoreError> {
    let mut next_ready: Option<UnixMillis> = None;
    let mut idle_round = false;
    while !idle_round && !inner.slots.is_full() {
        idle_round = true;
        for tool in inner.queues.in_turn() {
            match claim_one(inner, &tool).await? {
                Turn::Claimed => {
                    idle_round = false;
                    inner.queues.rotate(&tool);
                }
                Turn::NoSlot | Turn::Empty => {}
                Turn::ReadyAt(at) => next_ready = Some(next_ready.map_or(at, |earlier| earlier.min(at))),
            }
        }
    }
    Ok(next_ready)
}

enum Turn {
    Claimed,
    NoSlot,
    Empty,
    ReadyAt(UnixMillis),
}

async fn claim_one(inner: &Arc<Inner>, tool: &Arc<str>) -> Result<Turn, longhaul_core::store::StoreError> {
    let (concurrency, host) = inner.placement(tool);
    let Some(slot) = inner.slots.try_take(tool, concurrency) else {
        return Ok(Turn::NoSlot);
    };
    let at = inner.ports.clock.now();
    let claim = Claim {
        tool: Arc::clone(tool),
        node: inner.node,
        host,
        limit: 1,
        at,
    };
    inner.queues.remove(tool);
    let claimed = inner.store.claim(claim).await;
    if claimed.is_err() {
        inner.queues.offer(tool);
    }
    if let Some(claimed) = claimed?.pop() {
        inner.queues.offer(tool);
        inner.spawn(attempt::drive(Arc::clone(inner), claimed, slot, Begin::Fresh));
        return Ok(Turn::Claimed);
    }
    match inner.store.next_ready(tool).await? {
        Some(at) => {
            inner.queues.offer(tool);
            Ok(Turn::ReadyAt(at))
        }
        None => Ok(Turn::Empty),
    }
}
