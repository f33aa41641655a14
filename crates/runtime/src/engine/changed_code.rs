//! Retrying blocked tasks whose tool has other code than before.

use super::Inner;
use longhaul_core::{
    Event, Task, TaskId,
    store::{Change, TaskLookup},
};
use std::sync::Arc;

/// How many blocked tasks are read at once.
const BATCH: usize = 256;

/// Retries blocked tasks (of one tool, if named) that were not blocked under the present code. Store errors are retried, since nothing else
/// does this.
pub(crate) async fn try_changed_code(inner: Arc<Inner>, tool: Option<Arc<str>>) {
    // Other nodes run them, perhaps with other code.
    if !inner.node.runs_tasks() {
        return;
    }
    let mut after: Option<TaskId> = None;
    loop {
        let read = || async {
            Ok(inner
                .node
                .store
                .find(TaskLookup::BlockedAfter(after.clone()), BATCH)
                .await?)
        };
        let Ok(tasks) = inner.node.retry_store("reading blocked tasks", read).await else {
            return;
        };
        let Some(last) = tasks.last() else { return };
        after = Some(last.id.clone());
        for task in &tasks {
            if tool.as_ref().is_none_or(|tool| *tool == task.tool) && has_changed(&inner, task).await {
                let at = inner.node.now();
                let change = || {
                    inner
                        .node
                        .commit(Change::of(&task.id, Event::Unblocked { ready_at: at }, at))
                };
                // A refusal means that it is not blocked any more.
                let _ = inner.node.retry_store("trying a blocked task again", change).await;
            }
        }
    }
}

/// Whether a blocked task would be run by other code than it was blocked under.
async fn has_changed(inner: &Inner, task: &Task) -> bool {
    let (Some(blocked), Some(tool)) = (task.block(), inner.catalog.tool(&task.tool)) else {
        return false;
    };
    let code = inner.build.fingerprint(&inner.node.ports, &tool.spec().id).await;
    !blocked.is_known_for(&code)
}
