//! All tasks, and what is derived from them.

use super::{
    index::Index,
    stored_task::{IndexedTask, StoredTask},
    tally::Tally,
};
use crate::decision::Decision;
use longhaul_core::{
    Task, TaskId,
    store::{FoundTasks, Hint, LiveTasks, SearchOrder, StoreEvent, TaskSearch},
};
use std::{borrow::Cow, collections::BTreeMap, convert::Infallible, ops::Bound, sync::Arc};

/// Tasks are changed by [`insert`](Self::insert), [`write`](Self::write) and [`remove`](Self::remove) alone, and each of them shifts
/// what is derived, all of it; so no writer can forget an index.
#[derive(Default)]
pub(super) struct Tasks {
    /// A tree, because a growing hash map moves all its values at once. Boxed, because a tree moves the neighbours of a new value.
    stored: BTreeMap<TaskId, Box<StoredTask>>,
    derived: DerivedData,
}

#[derive(Default)]
struct DerivedData {
    index: Index,
    tally: Tally,
}

impl DerivedData {
    fn shift(&mut self, id: &TaskId, before: Option<IndexedTask<'_>>, after: Option<IndexedTask<'_>>) {
        self.index.shift(id, before, after);
        self.tally.shift(before, after);
    }
}

impl Tasks {
    pub(super) fn index(&self) -> &Index {
        &self.derived.index
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.derived.tally
    }

    pub(super) fn get(&self, id: &TaskId) -> Option<&StoredTask> {
        self.stored.get(id).map(|stored| &**stored)
    }

    pub(super) fn task(&self, id: &TaskId) -> Option<&Task> {
        self.get(id).map(|stored| &stored.task)
    }

    /// The one with the greatest id.
    pub(super) fn newest(&self) -> Option<&Task> {
        self.stored.last_key_value().map(|(_, stored)| &stored.task)
    }

    /// The versions of those of `ids` that are here.
    pub(super) fn versions(&self, ids: &[TaskId]) -> Vec<(TaskId, u64)> {
        let version = |id: &TaskId| Some((id.clone(), self.task(id)?.version));
        ids.iter().filter_map(version).collect()
    }

    /// All that are not over, oldest first.
    pub(super) fn live(&self) -> impl Iterator<Item = &Task> {
        self.derived.index.open.of(&()).filter_map(|(_, id)| self.task(id))
    }

    /// [`longhaul_core::store::SearchStore::live_tasks`].
    pub(super) fn live_tasks(&self) -> Vec<LiveTasks> {
        LiveTasks::sum(self.live())
    }

    /// [`longhaul_core::store::SearchStore::search`].
    pub(super) fn search(&self, search: &TaskSearch) -> FoundTasks {
        let after = search.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let range = match search.order {
            SearchOrder::NewestFirst => (Bound::Unbounded, after),
            SearchOrder::OldestFirst => (after, Bound::Unbounded),
        };
        let index = &self.derived.index;
        let in_line = |bound: &Bound<TaskId>| bound.clone().map(|id| ((), id));
        let part = (in_line(&range.0), in_line(&range.1));
        if search.filter.is_of_live() {
            return page(search, index.open.part(&(), part).filter_map(|(_, id)| self.task(id)));
        }
        if let Some(label) = search.filter.labels.first() {
            let labelled = index.labelled.part(label, part);
            return page(search, labelled.filter_map(|(_, id)| self.task(id)));
        }
        page(search, self.stored.range(range).map(|(_, stored)| &stored.task))
    }

    /// Inserts a task whose id is new.
    pub(super) fn insert(&mut self, stored: StoredTask) -> TaskEvents {
        let (id, events) = (stored.task.id.clone(), TaskEvents::of(&stored));
        self.derived.shift(&id, None, Some(stored.indexed()));
        self.stored.insert(id, Box::new(stored));
        events
    }

    /// Writes a decision about a task that is here. Returns the events, if it has changed.
    pub(super) fn write(&mut self, decision: &Decision<'_>) -> Option<TaskEvents> {
        let stored = self.stored.get_mut(&decision.task.id)?;
        let bytes = stored.indexed().bytes;
        let task = stored.write(decision);
        let after = stored.indexed();
        let before = IndexedTask {
            task: &task,
            bytes,
            ..after
        };
        self.derived.shift(&task.id, Some(before), Some(after));
        (task.version != stored.task.version).then(|| TaskEvents::of(stored))
    }

    /// Removes a task with all that belongs to it.
    pub(super) fn remove(&mut self, id: &TaskId) -> Option<StoredTask> {
        let stored = self.stored.remove(id)?;
        self.derived.shift(id, Some(stored.indexed()), None);
        Some(*stored)
    }

    /// Whether what was updated with each change agrees with all tasks.
    #[cfg(test)]
    pub(super) fn audit(&self) -> Result<(), &'static str> {
        let mut index = Index::default();
        for (id, stored) in &self.stored {
            index.shift(id, None, Some(stored.indexed()));
        }
        if self.derived.index != index {
            return Err("a task is not where it is looked for");
        }
        let sum = Tally::sum(self.stored.values().map(|stored| stored.recount()));
        if self.derived.tally != sum {
            return Err("the tally is not the sum");
        }
        Ok(())
    }
}

/// The page of a search among tasks, oldest first.
fn page<'a>(search: &TaskSearch, tasks: impl DoubleEndedIterator<Item = &'a Task>) -> FoundTasks {
    let found: Result<FoundTasks, Infallible> = match search.order {
        SearchOrder::NewestFirst => search.page_of(tasks.rev().map(|task| Ok(Cow::Borrowed(task)))),
        SearchOrder::OldestFirst => search.page_of(tasks.map(|task| Ok(Cow::Borrowed(task)))),
    };
    match found {
        Ok(found) => found,
        Err(never) => match never {},
    }
}

/// What is told of a task that was written.
pub(super) struct TaskEvents {
    pub(super) changed: StoreEvent,
    pub(super) queued: Option<StoreEvent>,
}

impl TaskEvents {
    fn of(stored: &StoredTask) -> Self {
        let ended = stored.task.is_done().then(|| Arc::new(stored.record()));
        Self {
            changed: StoreEvent::TaskChanged(Hint {
                ended,
                ..Hint::of(&stored.task)
            }),
            queued: StoreEvent::queue_ready(&stored.task),
        }
    }
}
