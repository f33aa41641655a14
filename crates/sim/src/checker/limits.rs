//! How much of a tool with a limit runs at once, in all or with one concurrency value.

use super::{Checker, Invariant};
use crate::{disk, executor::Process};
use longhaul_core::{ConcurrencyGroup, TaskId};
use longhaul_store::MemoryStore;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many tasks of the tool with a limit may run at once, on all nodes together.
pub(crate) const LIMIT: usize = 2;
/// How many tasks of one group may be in progress, of the tools with a concurrency key.
pub(crate) const GROUP_LIMIT: usize = 1;

/// The work of the tool with a limit.
#[derive(Default)]
pub(crate) struct Limits {
    begun: u64,
    running: BTreeMap<u64, Work>,
    /// Attempts that are run beyond the limit: the answers of their claims were lost.
    run_anyway: BTreeSet<(TaskId, u32)>,
}

struct Work {
    process: Process,
    task: TaskId,
    group: Option<ConcurrencyGroup>,
}

impl Limits {
    pub(crate) fn runs_anyway(&mut self, task: TaskId, epoch: u32) {
        self.run_anyway.insert((task, epoch));
    }

    pub(crate) fn work_ends(&mut self, nth: u64) {
        self.running.remove(&nth);
    }
}

impl Checker {
    /// Work begins, which counts until [`Limits::work_ends`].
    pub(crate) fn limited_work_begins(
        &mut self,
        disk: &MemoryStore,
        process: Process,
        task: &TaskId,
        epoch: u32,
    ) -> u64 {
        self.limits.begun += 1;
        let nth = self.limits.begun;
        let group = disk::record(disk, task).and_then(|record| record.task.group);
        // A group is counted in the store, whatever nodes know.
        if group.is_none() && self.limits.run_anyway.contains(&(task.clone(), epoch)) {
            return nth;
        }
        let task = task.clone();
        self.limits.running.insert(nth, Work { process, task, group });
        // A node that has lost its lease may not know it.
        let running = self.limits.running.values().filter(|work| work.group == group);
        let running: Vec<String> = running
            .filter(|work| !self.has_lost_its_lease(work.process))
            .map(|work| format!("{} on n{}", self.name(&work.task), work.process.0))
            .collect();
        let (limit, invariant) = match group {
            Some(_) => (GROUP_LIMIT, Invariant::GROUPS),
            None => (LIMIT, Invariant::LIMITED),
        };
        if running.len() > limit {
            self.report(invariant, running.join(", "));
        }
        nth
    }

    /// After a write about a task of this group.
    pub(super) fn check_group(&mut self, disk: &MemoryStore, tool: &Arc<str>, group: Option<ConcurrencyGroup>) {
        let Some(group) = group else { return };
        let of_group = disk::tasks_of(disk, tool).into_iter();
        let of_group: Vec<_> = of_group.filter(|task| task.group == Some(group)).collect();
        let within: Vec<_> = of_group.iter().filter(|task| task.is_in_group()).collect();
        let mut waiting = of_group.iter().filter(|task| task.waits_for_group);
        let names = |checker: &Self| {
            let names = within.iter().map(|task| checker.name(&task.id));
            names.collect::<Vec<_>>().join(", ")
        };
        if within.len() > GROUP_LIMIT {
            let what = names(self);
            self.report(Invariant::GROUPS, what);
        } else if let Some(waits) = waiting.next().filter(|_| within.len() < GROUP_LIMIT) {
            let what = format!("{} waits beside {}", self.name(&waits.id), within.len());
            self.report(Invariant::GROUPS, what);
        }
    }
}
