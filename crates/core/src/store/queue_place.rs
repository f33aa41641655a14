//! Where a task stands in the queue of its tool.

use crate::{Priority, Task, UnixMillis};
use std::cmp::{Ordering, Reverse};

/// Where a task stands in the queue of its tool, but for tasks that share all of it: these are in order of their ids. A place that comes earlier is less.
/// A task that is not ready is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueuePlace {
    /// The higher ones come first.
    pub priority: Priority,
    /// Of the same priority, those that are ready earlier.
    pub ready_at: UnixMillis,
}

impl QueuePlace {
    /// That of a queued task.
    pub fn of(task: &Task) -> Self {
        Self {
            priority: task.priority,
            ready_at: task.ready_at,
        }
    }

    /// The one whose task is claimed first at `at`; if none is ready, the one that is ready first.
    pub fn first(places: impl IntoIterator<Item = Self>, at: UnixMillis) -> Option<Self> {
        places.into_iter().min_by_key(|place| match place.ready_at <= at {
            true => (UnixMillis(i64::MIN), *place),
            false => (place.ready_at, *place),
        })
    }
}

impl Ord for QueuePlace {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |place: &Self| (Reverse(place.priority), place.ready_at);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for QueuePlace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
