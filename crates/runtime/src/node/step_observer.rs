//! Observing steps, which no store can see begin.

use longhaul_core::{EntryKey, Fence, TaskId};

/// Is notified of what is not stored: for tests and the simulation, which check invariant 10 with it.
pub trait StepObserver: Send + Sync + 'static {
    /// A step is about to run, and its effect may happen from now on. `fence` is that of the attempt it runs in: one that has lost its
    /// lease may begin a step that another has journaled, and cannot journal it any more.
    fn step_begins(&self, task: &TaskId, fence: Fence, step: &EntryKey);
}
