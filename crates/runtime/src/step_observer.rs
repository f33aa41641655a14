//! Whoever watches from inside what no store can see.

use longhaul_core::{EntryKey, Fence, TaskId};

/// Is told of what leaves no trace of its own: for tests and the simulation, which hold invariant 10 to it.
pub trait StepObserver: Send + Sync + 'static {
    /// A step is about to run, and its effect may happen from now on. `fence` is that of the attempt it runs in: one that has lost its
    /// lease may begin a step that another has journaled, and cannot journal it any more.
    fn step_begins(&self, task: &TaskId, fence: Fence, step: &EntryKey);
}
