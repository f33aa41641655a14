//! Which tools have queued tasks, and in which order the tools get slots. The queues themselves are in the store.

use super::slots::Slot;
use foldhash::HashMap;
use longhaul_core::{Priority, UnixMillis, store::QueuePlace};
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
    /// When the first task of each priority is ready, as far as one is known.
    ready_at: [Option<UnixMillis>; Priority::COUNT],
    /// No task of it can be claimed before: the tool has a [rate](longhaul_core::StartRate).
    not_before: Option<UnixMillis>,
    /// Reads of the queue and additions to it in progress: until they end it may hold anything.
    unsettled: usize,
}

impl QueueState {
    /// Whether a task may be ready that a new one must not overtake.
    fn may_be_ready(&self, now: UnixMillis) -> bool {
        self.unsettled > 0 || self.priority(now).is_some()
    }

    /// The highest priority of its ready tasks.
    fn priority(&self, now: UnixMillis) -> Option<Priority> {
        if self.not_before.is_some_and(|not_before| not_before > now) {
            return None;
        }
        let is_ready = |priority: &Priority| self.of(*priority).is_some_and(|at| at <= now);
        Priority::descending().find(is_ready)
    }

    fn of(&self, priority: Priority) -> Option<UnixMillis> {
        self.ready_at[usize::from(priority.get())]
    }

    /// When its first task after `now` can be claimed.
    fn next_ready(&self, now: UnixMillis) -> Option<UnixMillis> {
        let ready = self.ready_at.iter().flatten();
        let ready = ready.map(|at| self.not_before.map_or(*at, |not_before| not_before.max(*at)));
        ready.filter(|at| *at > now).min()
    }

    fn is_known(&self) -> bool {
        self.ready_at.iter().any(Option::is_some)
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
    /// Says that `tool` has a queued task at `place`. Nobody is woken for what is known already.
    pub(crate) fn offer(&self, tool: &Arc<str>, place: QueuePlace) {
        let mut table = self.table.lock();
        let queue = table.queue(tool);
        if queue
            .of(place.priority)
            .is_some_and(|earlier| earlier <= place.ready_at)
        {
            return;
        }
        queue.ready_at[usize::from(place.priority.get())] = Some(place.ready_at);
        drop(table);
        self.offered.notify_one();
    }

    /// Says that no task of `tool` can be claimed before `at`. It is known as long as the tool has queued tasks.
    pub(crate) fn hold_until(&self, tool: &Arc<str>, at: UnixMillis) {
        self.table.lock().queue(tool).not_before = Some(at);
    }

    /// Says that tasks of `tool` may be claimed that could not be before: it has other settings, so what was [held](Self::hold_until) is looked at anew.
    pub(crate) fn look_again_at(&self, tool: &str) {
        if let Some(queue) = self.table.lock().queues.get_mut(tool) {
            queue.not_before = None;
        }
        self.look_again();
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

    /// Of the tools that have a ready task and for which `take_slot` finds a slot, one whose task has the highest priority: the next of these in turn. The
    /// others go before it next time.
    pub(crate) fn take_turn(
        self: &Arc<Self>,
        now: UnixMillis,
        take_slot: impl Fn(&Arc<str>) -> Option<Slot>,
    ) -> Option<(QueueGuard, Slot)> {
        let mut table = self.table.lock();
        let priority = |tool: &Arc<str>| table.queues.get(tool)?.priority(now);
        let mut highest = table.order.iter().filter_map(priority).max();
        let (position, slot) = loop {
            let of_highest = table
                .order
                .iter()
                .enumerate()
                .filter(|(_, tool)| priority(tool) == highest);
            let mut slots = of_highest.filter_map(|(position, tool)| Some((position, take_slot(tool)?)));
            if let Some(found) = highest.and_then(|_| slots.next()) {
                break found;
            }
            let lower = table.order.iter().filter_map(priority);
            highest = Some(lower.filter(|lower| Some(*lower) < highest).max()?);
        };
        let tool = table.order.remove(position)?;
        table.order.push_back(Arc::clone(&tool));
        // The claim sets it again; so does an offer meanwhile.
        table.queue(&tool).ready_at = [None; Priority::COUNT];
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
        table.queues.values().filter_map(|queue| queue.next_ready(now)).min()
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
        if queue.unsettled == 0 && !queue.is_known() {
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

    fn place(priority: u8, ready_at: UnixMillis) -> QueuePlace {
        QueuePlace {
            priority: Priority::new(priority).unwrap(),
            ready_at,
        }
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
        queues.offer(&a, place(0, NOW));
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
        queues.offer(&a, place(0, NOW));
        let (look, slot) = queues.take_turn(NOW, |tool| slots.try_take(tool, None)).unwrap();
        queues.offer(&a, place(0, NOW));
        drop((look, slot));
        assert!(queues.take_turn(NOW, |tool| slots.try_take(tool, None)).is_some());
    }

    #[test]
    fn a_task_that_is_not_ready_does_not_block_the_queue() {
        let (queues, slots) = (Arc::new(Queues::default()), Slots::new(None));
        let a = tool("a");
        let later = NOW.plus(10_000);
        queues.offer(&a, place(0, later));
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
            queues.offer(tool, place(0, NOW));
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let (look, _slot) = queues.take_turn(NOW, |tool| slots.try_take(tool, None)).unwrap();
            queues.offer(look.tool(), place(0, NOW));
            order.push(look.tool().to_string());
        }
        assert_eq!(order, ["0", "1", "2", "0", "1", "2"]);
    }

    #[test]
    fn a_higher_priority_goes_first() {
        let (queues, slots) = (Arc::new(Queues::default()), Slots::new(None));
        let tools: Vec<Arc<str>> = (0..4).map(|n| tool(&n.to_string())).collect();
        let later = NOW.plus(10_000);
        for (tool, place) in [
            (0, place(0, NOW)),
            (1, place(3, NOW)),
            (2, place(3, NOW)),
            (3, place(9, later)),
            // Behind an older one in its queue, and of more weight.
            (0, place(5, NOW)),
        ] {
            queues.offer(&tools[tool], place);
        }
        // It is told of every task, and the claim takes the first: nothing is offered again here.
        let turn = |now, full: &[usize]| {
            let has_slot = |tool: &Arc<str>| !full.iter().any(|full| tools[*full] == *tool);
            let take = |tool: &Arc<str>| slots.try_take(tool, None).filter(|_| has_slot(tool));
            queues.take_turn(now, take).map(|(look, _)| look.tool().to_string())
        };
        assert_eq!(turn(NOW, &[0]).as_deref(), Some("1"), "the one before it has no slot");
        assert_eq!(turn(NOW, &[]).as_deref(), Some("0"));
        assert_eq!(turn(NOW, &[]).as_deref(), Some("2"));
        assert_eq!(turn(NOW, &[]), None);
        assert_eq!(turn(later, &[]).as_deref(), Some("3"));
    }

    #[test]
    fn a_queue_that_is_held_is_not_looked_at_before_its_time() {
        let (queues, slots) = (Arc::new(Queues::default()), Slots::new(None));
        let (a, then) = (tool("a"), NOW.plus(6_000));
        queues.offer(&a, place(0, NOW));
        let turn = |now| queues.take_turn(now, |tool| slots.try_take(tool, None));
        let (look, _slot) = turn(NOW).unwrap();
        queues.hold_until(&a, then);
        queues.offer(&a, place(0, NOW));
        drop(look);
        queues.offer(&a, place(9, NOW));
        assert!(turn(NOW.plus(5_999)).is_none());
        assert_eq!(queues.next_ready(NOW.plus(5_999)), Some(then));
        assert!(turn(then).is_some());
    }
}
