//! Whoever watches from inside what no store can see.

use longhaul_core::{EntryKey, TaskId};

/// Is told of what leaves no trace of its own: for tests and the simulation, which hold invariant 10 to it.
pub trait Witness: Send + Sync + 'static {
    /// A step is about to run, and its effect may happen from now on.
    fn step_begins(&self, task: &TaskId, step: &EntryKey);
}
