//! What a change of a task means for its children and for its parent.

use super::Node;
use longhaul_core::{
    CancelMode, Task, TaskId,
    store::{StoreError, TaskLookup},
};
use std::sync::Arc;

const BATCH: usize = 256;

/// A change of `task` is committed: cancels its children if it ends or is asked to, and looks at its parent if it ended.
pub(super) fn parent_or_child_changed(node: &Arc<Node>, task: &Task) {
    // Every child has an entry in its parent's journal.
    if task.journaled > 0 && (task.is_done() || task.stop.is_some()) {
        let (node_of_task, parent) = (Arc::clone(node), task.id.clone());
        node.spawn(async move { cancel_children(&node_of_task, &parent).await });
    }
    if let Some(lineage) = task.lineage.as_ref().filter(|_| task.is_done()) {
        let (node_of_task, parent) = (Arc::clone(node), lineage.parent.clone());
        node.spawn(async move {
            // The same commit has queued the parent if it waited; this offers its queue.
            if let Ok(Some(record)) = node_of_task.store.get_unscoped(&parent).await {
                node_of_task.changed(&record.task);
            }
        });
    }
}

async fn cancel_children(node: &Arc<Node>, parent: &TaskId) {
    let read = || async { Ok(node.store.find(TaskLookup::ChildrenOf(parent.clone()), BATCH).await?) };
    loop {
        let Ok(children) = node.retry_store("reading a task's children", read).await else {
            return;
        };
        if children.is_empty() {
            return;
        }
        for child in children {
            cancel(node, &child).await;
        }
    }
}

/// Cancels children whose parents ended just before an earlier process died.
pub(crate) async fn cancel_children_of_finished_parents(node: &Arc<Node>) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let children = node.store.find(TaskLookup::ChildrenOfFinishedParents, BATCH).await?;
        if children.is_empty() {
            return Ok(count);
        }
        count += children.len();
        for child in &children {
            cancel(node, child).await;
        }
    }
}

async fn cancel(node: &Arc<Node>, task: &Task) {
    let request = || node.request_cancel(&task.id, CancelMode::Cooperative);
    // A refusal means that it has ended.
    let _ = node.retry_store("cancelling a child", request).await;
}
