//! How much of a tool with a limit runs at once.

use super::{Checker, Invariant};
use crate::executor::Process;
use longhaul_core::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// How many tasks of the tool with a limit may run at once, on all nodes together.
pub(crate) const LIMIT: usize = 2;

/// The work of the tool with a limit.
#[derive(Default)]
pub(crate) struct Limits {
    begun: u64,
    running: BTreeMap<u64, (Process, TaskId)>,
    /// Attempts that are run beyond the limit: the answers of their claims were lost.
    run_anyway: BTreeSet<(TaskId, u32)>,
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
    pub(crate) fn limited_work_begins(&mut self, process: Process, task: &TaskId, epoch: u32) -> u64 {
        self.limits.begun += 1;
        let nth = self.limits.begun;
        if self.limits.run_anyway.contains(&(task.clone(), epoch)) {
            return nth;
        }
        self.limits.running.insert(nth, (process, task.clone()));
        // A node that has lost its lease may not know it.
        let running = self.limits.running.values();
        let running: Vec<String> = running
            .filter(|(process, _)| !self.has_lost_its_lease(*process))
            .map(|(process, task)| format!("{} on n{}", self.name(task), process.0))
            .collect();
        if running.len() > LIMIT {
            self.report(Invariant::LIMITED, running.join(", "));
        }
        nth
    }
}
