//! All tasks, and what is derived from them.

use super::{
    index::Index,
    stored_task::{Indexed, StoredTask},
    tally::Tally,
};
use crate::decision::Decision;
use longhaul_core::{Task, TaskId, store::Hint};
use std::{collections::BTreeMap, sync::Arc};

/// Tasks are changed by [`insert`](Self::insert), [`write`](Self::write) and [`remove`](Self::remove) alone, and each of them shifts
/// what is derived, all of it; so no writer can forget an index.
#[derive(Default)]
pub(super) struct Tasks {
    /// A tree, because a hash map that grows moves all it holds at once. Boxed, because a tree moves what lies beside a new one.
    kept: BTreeMap<TaskId, Box<StoredTask>>,
    derived: Derived,
}

#[derive(Default)]
struct Derived {
    index: Index,
    tally: Tally,
}

impl Derived {
    fn shift(&mut self, id: &TaskId, before: Option<Indexed<'_>>, after: Option<Indexed<'_>>) {
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
        self.kept.get(id).map(|kept| &**kept)
    }

    pub(super) fn task(&self, id: &TaskId) -> Option<&Task> {
        self.get(id).map(|kept| &kept.task)
    }

    /// The one with the greatest id.
    pub(super) fn newest(&self) -> Option<&Task> {
        self.kept.last_key_value().map(|(_, kept)| &kept.task)
    }

    /// Takes in one whose id is new. Returns what there is to tell.
    pub(super) fn insert(&mut self, kept: StoredTask) -> Hint {
        let (id, hint) = (kept.task.id.clone(), hint(&kept));
        self.derived.shift(&id, None, Some(kept.indexed()));
        self.kept.insert(id, Box::new(kept));
        hint
    }

    /// Writes what was decided of a task that is here. Returns what there is to tell, if it has changed.
    pub(super) fn write(&mut self, decision: Decision<'_>) -> Option<Hint> {
        let kept = self.kept.get_mut(&decision.task.id)?;
        let bytes = kept.indexed().bytes;
        let task = kept.write(decision);
        let after = kept.indexed();
        let before = Indexed {
            task: &task,
            bytes,
            ..after
        };
        self.derived.shift(&task.id, Some(before), Some(after));
        (task.version != kept.task.version).then(|| hint(kept))
    }

    /// Takes one out, with all that belongs to it.
    pub(super) fn remove(&mut self, id: &TaskId) -> Option<StoredTask> {
        let kept = self.kept.remove(id)?;
        self.derived.shift(id, Some(kept.indexed()), None);
        Some(*kept)
    }

    /// Whether what was shifted with each change is what all tasks come to.
    #[cfg(test)]
    pub(super) fn audit(&self) -> Result<(), &'static str> {
        let mut index = Index::default();
        for (id, kept) in &self.kept {
            index.shift(id, None, Some(kept.indexed()));
        }
        if self.derived.index != index {
            return Err("a task is not where it is looked for");
        }
        let sum = Tally::sum(self.kept.values().map(|kept| kept.recount()));
        if self.derived.tally != sum {
            return Err("the tally is not the sum");
        }
        Ok(())
    }
}

fn hint(kept: &StoredTask) -> Hint {
    Hint {
        task: kept.task.id.clone(),
        version: kept.task.version,
        ended: kept.task.is_done().then(|| Arc::new(kept.record())),
    }
}
