//! How much runs at once on this node.

use foldhash::HashMap;
use longhaul_core::store::{PermitRequest, Permits};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use tokio::sync::{Notify, oneshot};

/// Counts running attempts, in all and per tool. A slot belongs to the attempt, not to the task.
pub(crate) struct Slots {
    limit: Option<usize>,
    taken: Mutex<SlotUsage>,
    /// Notified when a slot is free again.
    freed: Notify,
    /// Notified when a permit is missing, or one can be given back that others wait for.
    permits_due: Notify,
}

#[derive(Default)]
struct SlotUsage {
    all: usize,
    by_tool: HashMap<Arc<str>, usize>,
    /// Attempts that wait to get their slot back, oldest first. They come before tasks that have not started.
    returning: VecDeque<ReturningAttempt>,
    /// Where many nodes share the limits of the tools: how many slots this node may use of each tool with a limit. None of a tool that is not here.
    permits: Option<BTreeMap<Arc<str>, ToolPermits>>,
}

/// What the other nodes have left to this one of a tool with a limit.
struct ToolPermits {
    /// How many slots it may use.
    count: usize,
    /// How many it has asked for.
    asked: usize,
}

struct ReturningAttempt {
    tool: Arc<str>,
    limit: Option<usize>,
    sender: oneshot::Sender<Slot>,
}

impl SlotUsage {
    fn has_room(&self, all: Option<usize>, tool: &str, of_tool: Option<usize>) -> bool {
        let below = |count, limit: Option<usize>| limit.is_none_or(|limit| count < limit);
        // Most tools have no limit of their own and need not be looked up.
        below(self.all, all) && of_tool.is_none_or(|limit| self.used(tool) < self.permitted(tool).min(limit))
    }

    fn used(&self, tool: &str) -> usize {
        self.by_tool.get(tool).copied().unwrap_or(0)
    }

    /// How many slots of a tool with a limit this node may use, as far as other nodes are concerned.
    fn permitted(&self, tool: &str) -> usize {
        let permits = self.permits.as_ref();
        permits.map_or(usize::MAX, |permits| {
            permits.get(tool).map_or(0, |permits| permits.count)
        })
    }

    /// Whether a permit is to be asked for before another slot of the tool can be used.
    fn must_ask(&self, tool: &str, of_tool: Option<usize>) -> bool {
        let used = self.used(tool);
        let permits = self.permits.as_ref().map(|permits| permits.get(tool));
        let not_asked = permits.is_some_and(|permits| permits.is_none_or(|permits| used >= permits.asked));
        not_asked && of_tool.is_some_and(|limit| used < limit)
    }

    fn count(&mut self, tool: &Arc<str>) {
        self.all += 1;
        *self.by_tool.entry(Arc::clone(tool)).or_default() += 1;
    }

    fn discount(&mut self, tool: &Arc<str>) {
        self.all -= 1;
        if let Some(count) = self.by_tool.get_mut(tool) {
            *count -= 1;
            if *count == 0 {
                self.by_tool.remove(tool);
            }
        }
    }

    /// The oldest attempt that waits for its slot and for which there is room; it is counted.
    fn next_returning(&mut self, all: Option<usize>) -> Option<ReturningAttempt> {
        self.returning.retain(|returning| !returning.sender.is_closed());
        let position =
            (self.returning.iter()).position(|returning| self.has_room(all, &returning.tool, returning.limit))?;
        let returning = self.returning.remove(position)?;
        self.count(&returning.tool);
        Some(returning)
    }
}

/// A slot held; dropping it gives it back.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    tool: Arc<str>,
}

/// How many slots of a node are taken, and who has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotUse {
    /// By all attempts.
    pub taken: usize,
    /// How many there are: [`max_running`](crate::EngineOptions::max_running).
    pub limit: Option<usize>,
    /// The tool that has most, and how many.
    pub most: Option<(Arc<str>, usize)>,
}

impl SlotUse {
    /// Whether nothing can begin.
    pub fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.taken >= limit)
    }
}

impl Slots {
    pub(crate) fn new(limit: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            limit,
            taken: Mutex::default(),
            freed: Notify::new(),
            permits_due: Notify::new(),
        })
    }

    /// A slot for `tool`, of which at most `limit` may run, if one is free.
    pub(crate) fn try_take(self: &Arc<Self>, tool: &Arc<str>, limit: Option<usize>) -> Option<Slot> {
        let mut taken = self.taken.lock();
        if !taken.has_room(self.limit, tool, limit) {
            if taken.must_ask(tool, limit) {
                self.permits_due.notify_one();
            }
            return None;
        }
        taken.count(tool);
        Some(self.slot(tool))
    }

    /// A slot for work that runs already, whether there is room or not.
    pub(crate) fn take_anyway(self: &Arc<Self>, tool: &Arc<str>) -> Slot {
        let mut taken = self.taken.lock();
        taken.count(tool);
        let permits = taken.permits.as_ref();
        // The store must know of it. A tool that is not listed may have no limit; the report finds that out.
        if permits.is_some_and(|permits| permits.get(tool).is_none_or(|permits| taken.used(tool) > permits.count)) {
            self.permits_due.notify_one();
        }
        drop(taken);
        self.slot(tool)
    }

    /// Waits for a slot for work that had one before.
    pub(crate) async fn take_back(self: &Arc<Self>, tool: &Arc<str>, limit: Option<usize>) -> Slot {
        let receiver = {
            let mut taken = self.taken.lock();
            if taken.has_room(self.limit, tool, limit) {
                taken.count(tool);
                return self.slot(tool);
            }
            if taken.permits.is_some() && limit.is_some() {
                self.permits_due.notify_one();
            }
            let (sender, receiver) = oneshot::channel();
            taken.returning.push_back(ReturningAttempt {
                tool: Arc::clone(tool),
                limit,
                sender,
            });
            receiver
        };
        match receiver.await {
            Ok(slot) => slot,
            // The sender is dropped only after this receiver.
            Err(_) => std::future::pending().await,
        }
    }

    /// Completes when a slot becomes free after this was enabled.
    pub(crate) fn freed(&self) -> tokio::sync::futures::Notified<'_> {
        self.freed.notified()
    }

    pub(crate) fn in_use(&self) -> SlotUse {
        let taken = self.taken.lock();
        let by_tool = taken.by_tool.iter();
        let most = by_tool.max_by(|(a, of_a), (b, of_b)| of_a.cmp(of_b).then_with(|| b.cmp(a)));
        SlotUse {
            taken: taken.all,
            limit: self.limit,
            most: most.map(|(tool, count)| (Arc::clone(tool), *count)),
        }
    }

    /// Whether no tool can get a slot.
    pub(crate) fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.taken.lock().all >= limit)
    }

    /// From now on slots of tools with a limit are given only with permits.
    pub(crate) fn require_permits(&self) {
        self.taken.lock().permits.get_or_insert_default();
    }

    /// Completes when permits are missing or can be given back, or when another node wants some.
    pub(crate) async fn permits_due(&self) {
        self.permits_due.notified().await;
    }

    /// What this node needs may have changed.
    pub(crate) fn report_permits(&self) {
        if self.taken.lock().permits.is_some() {
            self.permits_due.notify_one();
        }
    }

    /// Another node wants permits of `tool`, or has given some back.
    pub(crate) fn permits_changed(&self, tool: &str) {
        let taken = self.taken.lock();
        if taken.permits.as_ref().is_some_and(|permits| permits.contains_key(tool)) {
            self.permits_due.notify_one();
        }
    }

    /// What this node needs, by tool: of those whose slots it uses, whose code waits for its slot, or that have `queued` tasks. Until
    /// [`set_permits`](Self::set_permits), no more than what is used now is given of any.
    pub(crate) fn permit_requests(
        &self,
        queued: Vec<Arc<str>>,
        limit_of: impl Fn(&Arc<str>) -> Option<usize>,
    ) -> Vec<PermitRequest> {
        let mut taken = self.taken.lock();
        let mut waiting: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for returning in &taken.returning {
            *waiting.entry(&returning.tool).or_default() += 1;
        }
        let queued: BTreeSet<Arc<str>> = queued.into_iter().collect();
        let tools: BTreeSet<&Arc<str>> = (taken.by_tool.keys())
            .chain(waiting.keys().copied())
            .chain(&queued)
            .collect();
        let is_full = self.limit.is_some_and(|limit| taken.all >= limit);
        let requests = tools.into_iter().filter_map(|tool| {
            let limit = limit_of(tool)?;
            let used = taken.used(tool);
            let wanted = match (is_full, queued.contains(tool)) {
                (true, _) => used,
                (false, true) => limit,
                (false, false) => limit.min(used + waiting.get(tool).copied().unwrap_or(0)),
            };
            Some(PermitRequest {
                tool: Arc::clone(tool),
                used,
                wanted: wanted.max(used),
            })
        });
        let requests: Vec<PermitRequest> = requests.collect();
        let frozen = requests.iter().map(|request| {
            let permits = ToolPermits {
                // What is used beyond the permits is not to be used again.
                count: request.used.min(taken.permitted(&request.tool)),
                asked: request.wanted,
            };
            (Arc::clone(&request.tool), permits)
        });
        let frozen = frozen.collect();
        taken.permits = Some(frozen);
        requests
    }

    /// Sets how many slots this node may use of each tool it has asked for, and gives them to those who wait.
    pub(crate) fn set_permits(self: &Arc<Self>, answer: Vec<Permits>) {
        let mut taken = self.taken.lock();
        for Permits { tool, count } in answer {
            if let Some(permits) = taken.permits.as_mut().and_then(|permits| permits.get_mut(&tool)) {
                permits.count = count;
            }
        }
        drop(taken);
        while let Some(ReturningAttempt { tool, sender, .. }) = self.next_returning() {
            drop(sender.send(self.slot(&tool)));
        }
        self.freed.notify_waiters();
    }

    fn next_returning(&self) -> Option<ReturningAttempt> {
        self.taken.lock().next_returning(self.limit)
    }

    fn slot(self: &Arc<Self>, tool: &Arc<str>) -> Slot {
        Slot {
            slots: Arc::clone(self),
            tool: Arc::clone(tool),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let returning = {
            let mut taken = self.slots.taken.lock();
            let permits = taken.permits.as_ref().and_then(|permits| permits.get(&self.tool));
            // One that others wait for is given back.
            if permits.is_some_and(|permits| taken.used(&self.tool) > permits.count) {
                self.slots.permits_due.notify_one();
            }
            taken.discount(&self.tool);
            taken.next_returning(self.slots.limit)
        };
        match returning {
            // If the receiver is dropped at this moment, the slot is dropped with the message, and so freed.
            Some(ReturningAttempt { tool, sender, .. }) => drop(sender.send(self.slots.slot(&tool))),
            None => self.slots.freed.notify_waiters(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold_and_slots_come_back() {
        let slots = Slots::new(Some(3));
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let first = slots.try_take(&a, Some(1)).unwrap();
        assert!(slots.try_take(&a, Some(1)).is_none(), "a has its one slot");
        let _second = slots.try_take(&b, None).unwrap();
        let _third = slots.try_take(&b, None).unwrap();
        assert!(slots.try_take(&b, None).is_none(), "three in all");
        drop(first);
        assert!(slots.try_take(&a, Some(1)).is_some());
    }

    #[test]
    fn work_that_runs_already_is_counted_beyond_the_limit() {
        let slots = Slots::new(Some(1));
        let tool: Arc<str> = "a".into();
        let (_first, second) = (slots.take_anyway(&tool), slots.take_anyway(&tool));
        drop(second);
        assert!(slots.try_take(&tool, None).is_none());
    }

    #[tokio::test]
    async fn work_that_wants_its_slot_back_comes_before_new_work() {
        let slots = Slots::new(Some(1));
        let tool: Arc<str> = "a".into();
        let held = slots.try_take(&tool, None).unwrap();
        let mut gone = Box::pin(slots.take_back(&tool, None));
        let mut back = Box::pin(slots.take_back(&tool, None));
        assert!((&mut gone).now_or_never().is_none() && (&mut back).now_or_never().is_none());
        drop(gone);
        drop(held);
        assert!(slots.try_take(&tool, None).is_none(), "the slot was handed over");
        let handed = (&mut back).now_or_never().expect("the one who still waits has it");
        drop(handed);
        assert!(slots.try_take(&tool, None).is_some());
    }

    #[tokio::test]
    async fn a_slot_handed_to_someone_who_left_is_not_lost() {
        let slots = Slots::new(Some(1));
        let tool: Arc<str> = "a".into();
        let held = slots.try_take(&tool, None).unwrap();
        let mut waiting = Box::pin(slots.take_back(&tool, None));
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        drop(waiting);
        assert!(slots.try_take(&tool, None).is_some());
    }

    use futures_util::FutureExt;
}
