//! What a connection keeps for servers of 2025-11-25 and before.

pub(crate) mod hosted_tasks;
pub(crate) mod questions;
pub(crate) mod task_progress;
pub(crate) mod tasks;
