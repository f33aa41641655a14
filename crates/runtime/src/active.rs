//! The attempts this node works on, and how each is asked to stop.

use longhaul_core::{StopReason, TaskId};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};
use tokio::sync::watch;

/// Attempts by task. A task has at most one active attempt, so its id is key enough.
#[derive(Default)]
pub(crate) struct Active(Mutex<HashMap<TaskId, watch::Sender<Option<StopReason>>>>);

impl Active {
    /// Enters an attempt, which may have been asked to stop already.
    pub(crate) fn enter(&self, task: &TaskId, stop: Option<StopReason>) -> watch::Receiver<Option<StopReason>> {
        let (sender, receiver) = watch::channel(stop);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(task.clone(), sender);
        receiver
    }

    /// Asks the attempt of `task`, if it is ours, to stop.
    pub(crate) fn stop(&self, task: &TaskId, reason: StopReason) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(task) {
            sender.send_if_modified(|stop| stop.replace(reason) != Some(reason));
        }
    }

    /// Forgets an attempt that is over.
    pub(crate) fn leave(&self, task: &TaskId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
