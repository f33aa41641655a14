//! Which tools have queued tasks, and in which order the tools get slots. The queues themselves are in the store.

use super::slots::Slot;
use foldhash::HashMap;
use longhaul_core::UnixMillis;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::Notify;

/// The tools that have, or may have, queued tasks.
#[derive(Default)]
pub(crate) struct Queues {
    table: Mutex<QueueTable>,
    offered: Notify,
}

#[derive(Default)]
struct QueueTable {
    /// Every tool of `queues`, once, in turn.
    order: VecDeque<Arc<str>>,
    queues: HashMap<Arc<str>, QueueState>,
}

/// What is known of one tool's queue.
#[derive(Default)]
struct QueueState {
    /// When its first task is ready, if it is known to have one.
    ready_at: Option<UnixMillis>,
    /// Reads of the queue and additions to it in progress: until they end it may hold anything.
    unsettled: usize,
}

impl QueueState {
    /// Whether a task may be ready that a new one must not overtake.
    fn may_be_ready(&self, now: UnixMillis) -> bool {
        self.unsettled > 0 || self.is_ready(now)
    }

    fn is_ready(&self, now: UnixMillis) -> bool {
        self.ready_at.is_some_and(|at| at <= now)
    }
}

impl QueueTable {
    fn queue(&mut self, tool: &Arc<str>) -> &mut QueueState {
        let Self { order, queues } = self;
        queues.entry(Arc::clone(tool)).or_insert_with(|| {
            order.push_back(Arc::clone(tool));
            QueueState::default()
        })
    }
}

/// Where a new task goes.
pub(crate) enum Arrival {
    /// It can begin at once.
    Slot(Slot),
    /// It is to be queued. Until this is dropped, no later task of the tool passes it.
    Queue(QueueGuard),
}

/// Keeps the entry of a tool while its queue is read or added to.
pub(crate) struct QueueGuard {
    queues: Arc<Queues>,
    tool: Arc<str>,
}

impl QueueGuard {
    pub(crate) fn tool(&self) -> &Arc<str> {
        &self.tool
    }
}

impl Queues {
    /// Says that `tool` has a queued task, ready at `ready_at`. Nobody is woken for what is known already.
    pub(crate) fn offer(&self, tool: &Arc<str>, ready_at: UnixMillis) {
        let mut table = self.table.lock();
        let queue = table.queue(tool);
        if queue.ready_at.is_some_and(|earlier| earlier <= ready_at) {
            return;
        }
        queue.ready_at = Some(ready_at);
        drop(table);
        self.offered.notify_one();
    }

    /// Says that queued tasks may get a slot now that could get none before.
    pub(crate) fn look_again(&self) {
        self.offered.notify_one();
    }

    /// Completes when a task was offered since this last did.
    pub(crate) async fn offered(&self) {
        self.offered.notified().await;
    }

    /// Gives a new task of `tool` a slot, unless one of the same tool waits already.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        tool: &Arc<str>,
        now: UnixMillis,
        take_slot: impl FnOnce() -> Option<Slot>,
    ) -> Arrival {
        let mut table = self.table.lock();
        let behind = (table.queues.get(tool)).is_some_and(|queue| queue.may_be_ready(now));
        // Under the lock, so that no later task gets a slot that was just missed.
        match if behind { None } else { take_slot() } {
            Some(slot) => Arrival::Slot(slot),
            None => Arrival::Queue(self.unsettle(&mut table, tool)),
        }
    }

    /// The next tool in turn that has a ready task and for which `take_slot` finds a slot; the others go before it next time.
    pub(crate) fn take_turn(
        self: &Arc<Self>,
        now: UnixMillis,
        take_slot: impl Fn(&Arc<str>) -> Option<Slot>,
    ) -> Option<(QueueGuard, Slot)> {
        let mut table = self.table.lock();
        let ready = |tool: &Arc<str>| table.queues.get(tool).is_some_and(|queue| queue.is_ready(now));
        let (position, slot) = (table.order.iter().enumerate())
            .filter(|(_, tool)| ready(tool))
            .find_map(|(position, tool)| Some((position, take_slot(tool)?)))?;
        let tool = table.order.remove(position)?;
        table.order.push_back(Arc::clone(&tool));
        // The claim sets it again; so does an offer meanwhile.
        table.queue(&tool).ready_at = None;
        Some((self.unsettle(&mut table, &tool), slot))
    }

    /// The tools that may have a ready task.
    pub(crate) fn ready(&self, now: UnixMillis) -> Vec<Arc<str>> {
        let table = self.table.lock();
        let ready = table.queues.iter().filter(|(_, queue)| queue.may_be_ready(now));
        ready.map(|(tool, _)| Arc::clone(tool)).collect()
    }

    /// When the first task that is not ready at `now` will be.
    pub(crate) fn next_ready(&self, now: UnixMillis) -> Option<UnixMillis> {
        let table = self.table.lock();
        let ready = table.queues.values().filter_map(|queue| queue.ready_at);
        ready.filter(|at| *at > now).min()
    }

    fn unsettle(self: &Arc<Self>, table: &mut QueueTable, tool: &Arc<str>) -> QueueGuard {
        table.queue(tool).unsettled += 1;
        QueueGuard {
            queues: Arc::clone(self),
            tool: Arc::clone(tool),
        }
    }
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        let mut table = self.queues.table.lock();
        let queue = table.queue(&self.tool);
        queue.unsettled -= 1;
        if queue.unsettled == 0 && queue.ready_at.is_none() {
            table.queues.remove(&self.tool);
            table.order.retain(|tool| *tool != self.tool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::slots::Slots;

    const NOW: UnixMillis = UnixMillis(1_000);

    fn tool(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn a_new_task_does_not_pass_one_that_is_being_queued() {
        let (queues, slots) = (Arc::new(Queues::default()), Slots::new(Some(1)));
        let a = tool("a");
        let Arrival::Queue(first) = queues.arrive(&a, NOW, || None) else {
            panic!("there was no slot")
        };
        let second = queues.arrive(&a, NOW, || slots.try_take(&a, None));
        // The first is on its way to the queue.
        assert!(matches!(second, Arrival::Queue(_)));
        let other = queues.arrive(&tool("b"), NOW, || slots.try_take(&a, None));
        assert!(matches!(other, Arrival::Slot(_)), "another tool's are not in its way");
        drop((first, second));
        assert!(queues.table.lock().queues.is_empty() && queues.table.lock().order.is_empty());
    }

    #[test]
    fn a_new_task_does_not_pass_a_queue_that_is_being_read() {
        let (queues, slots) = (Arc::new(Queues::default()), Slots::new(None));
        let a = tool("a");
        queues.offer(&a, NOW);
        let (look, _slot) = queues.take_turn(NOW, |tool| slots.try_take(tool, None)).unwrap();
        assert!(matches!(
            queues.arrive(&a, NOW, || slots.try_take(&a, None)),
            Arrival::Queue(_)
        ));
        drop(look);
        assert!(matches!(
            queues.arrive(&a, NOW, || slots.try_take(&a, None)),
            Arrival::Slot(_)
        ));
    }

    #[test]
    fn an_offer_while_the_queue_is_read_is_not_lost() {
        let (queues, slots) = (Arc::new(Queues::default()), Slots::new(None));
        let a = tool("a");
        queues.offer(&a, NOW);
        let (look, slot) = queues.take_turn(NOW, |tool| slots.try_take(tool, None)).unwrap();
        queues.offer(&a, NOW);
        drop((look, slot));
        assert!(queues.take_turn(NOW, |tool| slots.try_take(tool, None)).is_some());
    }

    #[test]
    fn a_task_that_is_not_ready_does_not_block_the_queue() {
        let (queues, slots) = (Arc::new(Queues::default()), Slots::new(None));
        let a = tool("a");
        let later = NOW.plus(10_000);
        queues.offer(&a, later);
        assert!(queues.take_turn(NOW, |tool| slots.try_take(tool, None)).is_none());
        assert_eq!(queues.next_ready(NOW), Some(later));
        assert!(matches!(
            queues.arrive(&a, NOW, || slots.try_take(&a, None)),
            Arrival::Slot(_)
        ));
        assert!(queues.take_turn(later, |tool| slots.try_take(tool, None)).is_some());
    }

    #[test]
    fn tools_take_turns() {
        let (queues, slots) = (Arc::new(Queues::default()), Slots::new(None));
        let tools: Vec<Arc<str>> = (0..3).map(|n| tool(&n.to_string())).collect();
        for tool in &tools {
            queues.offer(tool, NOW);
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let (look, _slot) = queues.take_turn(NOW, |tool| slots.try_take(tool, None)).unwrap();
            queues.offer(look.tool(), NOW);
            order.push(look.tool().to_string());
        }
        assert_eq!(order, ["0", "1", "2", "0", "1", "2"]);
    }
}
