//! How the commands of cancelled tasks ended. The outcome of a cancelled task does not contain it, and attempt folders are too costly to read
//! at each poll.

use longhaul_core::{State, Task, TaskId, Verdict};
use longhaul_runtime::{AttemptFilesError, Engine};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tracing::{debug, warn};

/// Ends that are kept. Beyond that all are dropped and read again.
const MOST: usize = 1024;

/// The ends that were read. An end is final, so none is ever out of date.
#[derive(Default)]
pub(crate) struct CancelledExits(Mutex<HashMap<TaskId, Arc<str>>>);

impl CancelledExits {
    /// How the command of a cancelled task ended, as JSON. `None` while the command still stops, and of tasks that run none.
    pub(crate) async fn of(&self, engine: &Engine, task: &Task) -> Option<Arc<str>> {
        if task.state != State::Done(Verdict::Cancelled) {
            return None;
        }
        if let Some(known) = self.0.lock().get(&task.id) {
            return Some(Arc::clone(known));
        }
        let exit = engine.last_exit(task).await;
        let exit = exit.inspect_err(|error| match error {
            AttemptFilesError::OnHost(_) => debug!(%error, "how a command ended cannot be read here"),
            _ => warn!(%error, "how a command ended cannot be read"),
        });
        let exit: Arc<str> = exit.ok()??.to_json()?.to_string().into();
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(task.id.clone(), Arc::clone(&exit));
        Some(exit)
    }
}
