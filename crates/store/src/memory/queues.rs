//! The queues of tools.

use super::lines::Lines;
use longhaul_core::{Priority, Task, TaskId, UnixMillis, store::QueuePlace};
use std::{array, collections::BTreeSet, sync::Arc};

/// Each tool's queue, in a line for each priority: a claim goes from line to line, and leaves each at its first task that is not ready.
#[derive(PartialEq)]
pub(super) struct Queues([Lines<Arc<str>, UnixMillis>; Priority::COUNT]);

impl Default for Queues {
    fn default() -> Self {
        Self(array::from_fn(|_| Lines::default()))
    }
}

impl Queues {
    /// The tasks of a tool that are ready, in the order in which they are claimed.
    pub(super) fn ready<'a>(&'a self, tool: &'a str, at: UnixMillis) -> impl Iterator<Item = &'a TaskId> {
        Priority::descending().flat_map(move |priority| {
            let line = self.line(priority).of(tool);
            line.take_while(move |(ready_at, _)| *ready_at <= at).map(|(_, id)| id)
        })
    }

    /// [`longhaul_core::store::QueueStore::next_ready`].
    pub(super) fn first(&self, tool: &str, at: UnixMillis) -> Option<QueuePlace> {
        let place = |priority| {
            let (ready_at, _) = self.line(priority).of(tool).next()?;
            Some(QueuePlace {
                priority,
                ready_at: *ready_at,
            })
        };
        QueuePlace::first(Priority::descending().filter_map(place), at)
    }

    /// The tools with queued tasks, in order of their names.
    pub(super) fn tools(&self) -> impl Iterator<Item = &Arc<str>> {
        let tools: BTreeSet<&Arc<str>> = self.0.iter().flat_map(Lines::groups).map(|(tool, _)| tool).collect();
        tools.into_iter()
    }

    /// Moves one task. `None` while it is not queued.
    pub(super) fn shift(&mut self, id: &TaskId, before: Option<&Task>, after: Option<&Task>) {
        let place = |task: &Task| (Arc::clone(&task.tool), task.ready_at);
        let (from, to) = (before.map(|task| task.priority), after.map(|task| task.priority));
        if from == to {
            if let Some(priority) = to {
                self.line_mut(priority).shift(id, before.map(place), after.map(place));
            }
            return;
        }
        if let Some(priority) = from {
            self.line_mut(priority).shift(id, before.map(place), None);
        }
        if let Some(priority) = to {
            self.line_mut(priority).shift(id, None, after.map(place));
        }
    }

    fn line(&self, priority: Priority) -> &Lines<Arc<str>, UnixMillis> {
        &self.0[usize::from(priority.get())]
    }

    fn line_mut(&mut self, priority: Priority) -> &mut Lines<Arc<str>, UnixMillis> {
        &mut self.0[usize::from(priority.get())]
    }
}
