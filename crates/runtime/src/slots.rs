//! How much runs at once on this node.

use foldhash::HashMap;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::{Notify, oneshot};

/// Counts running attempts, in all and per tool. A slot belongs to the attempt, not to the task.
pub(crate) struct Slots {
    limit: Option<usize>,
    taken: Mutex<Taken>,
    /// Notified when a slot is free again.
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_tool: HashMap<Arc<str>, usize>,
    /// Attempts that wait to get their slot back, oldest first. They come before tasks that have not started.
    returning: VecDeque<Returning>,
}

struct Returning {
    tool: Arc<str>,
    limit: Option<usize>,
    sender: oneshot::Sender<Slot>,
}

impl Taken {
    fn has_room(&self, all: Option<usize>, tool: &str, of_tool: Option<usize>) -> bool {
        let below = |count, limit: Option<usize>| limit.is_none_or(|limit| count < limit);
        // Most tools have no limit of their own and need not be looked up.
        below(self.all, all) && (of_tool.is_none() || below(self.by_tool.get(tool).copied().unwrap_or(0), of_tool))
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
    fn next_returning(&mut self, all: Option<usize>) -> Option<Returning> {
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
        let mut taken = self.taken.lock();
        if !taken.has_room(self.limit, tool, limit) {
            return None;
        }
        taken.count(tool);
        Some(self.slot(tool))
    }

    /// A slot for work that runs already, whether there is room or not.
    pub(crate) fn take_anyway(self: &Arc<Self>, tool: &Arc<str>) -> Slot {
        self.taken.lock().count(tool);
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
            let (sender, receiver) = oneshot::channel();
            taken.returning.push_back(Returning {
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

    /// Whether no tool can get a slot.
    pub(crate) fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.taken.lock().all >= limit)
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
            taken.discount(&self.tool);
            taken.next_returning(self.slots.limit)
        };
        match returning {
            // Should its taker leave at this very moment, the slot comes back here.
            Some(Returning { tool, sender, .. }) => drop(sender.send(self.slots.slot(&tool))),
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
