//! What the end of a task means for those it started and for the one that started it.

use crate::engine::Inner;
use longhaul_core::{CancelMode, Task, TaskId, store::StoreError};
use std::sync::Arc;

const BATCH: usize = 256;

/// A change to `task` is committed. Children of a task that ends, or is to, are cancelled; a parent that waits is looked at.
pub(crate) fn changed(inner: &Arc<Inner>, task: &Task) {
    // Whoever has children has them in its journal.
    if task.journaled > 0 && (task.is_done() || task.stop.is_some()) {
        let (engine, parent) = (Arc::clone(inner), task.id.clone());
        inner.spawn(async move { cancel_children(&engine, &parent).await });
    }
    if let Some(lineage) = task.lineage.as_ref().filter(|_| task.is_done()) {
        let (engine, parent) = (Arc::clone(inner), lineage.parent.clone());
        inner.spawn(async move {
            // The store has woken it in the same write; here its queue is told.
            if let Ok(Some(record)) = engine.store.peek(&parent).await {
                engine.changed(&record.task);
            }
        });
    }
}

async fn cancel_children(inner: &Arc<Inner>, parent: &TaskId) {
    let read = || async { Ok(inner.store.children(parent, BATCH).await?) };
    loop {
        let Ok(children) = inner.retry_store("reading a task's children", read).await else {
            return;
        };
        if children.is_empty() {
            return;
        }
        for child in children {
            cancel(inner, &child).await;
        }
    }
}

/// What a process that died had not cancelled.
pub(crate) async fn cancel_children_of_finished_parents(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let orphans = inner.store.children_of_finished_parents(BATCH).await?;
        if orphans.is_empty() {
            return Ok(count);
        }
        count += orphans.len();
        for task in &orphans {
            cancel(inner, task).await;
        }
    }
}

async fn cancel(inner: &Arc<Inner>, task: &Task) {
    let wish = || inner.request_cancel(&task.id, CancelMode::Cooperative);
    // A refusal means that it is over.
    let _ = inner.retry_store("cancelling a child", wish).await;
}
