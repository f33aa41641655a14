//! How much runs at once on this node.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Notify;

/// Counts running attempts, in all and per tool. A slot belongs to the attempt, not to the task (design section 4).
pub(crate) struct Slots {
    limit: Option<usize>,
    taken: Mutex<Taken>,
    /// Told whenever a slot comes back.
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_tool: HashMap<Arc<str>, usize>,
}

/// A slot held; dropping it gives it back.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    tool: Arc<str>,
}

impl Slots {
    pub(crate) fn new(limit: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            limit,
            taken: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// A slot for `tool`, of which at most `limit` may run here, if one is free.
    pub(crate) fn try_take(self: &Arc<Self>, tool: &Arc<str>, limit: Option<usize>) -> Option<Slot> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tool = taken.by_tool.get(tool).copied().unwrap_or(0);
        let full = |count, limit: Option<usize>| limit.is_some_and(|limit| count >= limit);
        if full(taken.all, self.limit) || full(of_tool, limit) {
            return None;
        }
        Some(self.count(&mut taken, tool))
    }

    /// A slot for work that runs already, whether there is room or not.
    pub(crate) fn take_anyway(self: &Arc<Self>, tool: &Arc<str>) -> Slot {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        self.count(&mut taken, tool)
    }

    /// Waits for a slot.
    pub(crate) async fn take(self: &Arc<Self>, tool: &Arc<str>, limit: Option<usize>) -> Slot {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(slot) = self.try_take(tool, limit) {
                return slot;
            }
            freed.await;
        }
    }

    /// Completes when a slot comes back after this call was first polled.
    pub(crate) fn freed(&self) -> tokio::sync::futures::Notified<'_> {
        self.freed.notified()
    }

    /// Whether no tool can get a slot.
    pub(crate) fn is_full(&self) -> bool {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        self.limit.is_some_and(|limit| taken.all >= limit)
    }

    fn count(self: &Arc<Self>, taken: &mut Taken, tool: &Arc<str>) -> Slot {
        taken.all += 1;
        *taken.by_tool.entry(Arc::clone(tool)).or_default() += 1;
        Slot {
            slots: Arc::clone(self),
            tool: Arc::clone(tool),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(count) = taken.by_tool.get_mut(&self.tool) {
            *count -= 1;
            if *count == 0 {
                taken.by_tool.remove(&self.tool);
            }
        }
        drop(taken);
        self.slots.freed.notify_waiters();
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
}
