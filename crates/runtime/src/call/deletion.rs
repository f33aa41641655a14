//! Deleting a finished task because its owner wants that, with all that it has left.

use super::retention;
use crate::{Engine, engine::Inner, node::task_log};
use longhaul_core::{
    Scope, Task, TaskId,
    store::{StoreError, TaskLookup},
};
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::oneshot;

/// Small, so that a deletion never holds up a create for long.
const BATCH: usize = 128;

/// A task was not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// Unknown or foreign.
    #[error("task not found")]
    NotFound,
    /// It has not ended: cancel it first.
    #[error("the task has not ended")]
    Live,
    /// A task that it started, or one that such a task started, has not ended.
    #[error("a task that it started has not ended")]
    LiveChild,
    /// It has ended, and its last attempt still stops.
    #[error("the last attempt of the task has not stopped yet")]
    Stopping,
    /// Files of its attempts cannot be removed. The log says why.
    #[error("files of the task could not be removed")]
    Files,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Deletes a finished task of `scope` with all that it has left: its rows, its journal, its idempotency key, the files of its attempts, and the finished
    /// tasks that it started, with theirs. Goes on if the caller leaves.
    ///
    /// If this fails or the process dies, some of the files and of the tasks that it started may be gone; the task itself is there, and can be deleted again.
    ///
    /// # Errors
    /// [`DeleteError`].
    pub async fn delete(&self, scope: &Scope, id: &TaskId) -> Result<(), DeleteError> {
        let record = self.0.node.store.get(scope, id).await?;
        let task = record.ok_or(DeleteError::NotFound)?.task;
        self.delete_task(task).await
    }

    pub(crate) async fn delete_task(&self, task: Task) -> Result<(), DeleteError> {
        let (inner, (tell, told)) = (Arc::clone(&self.0), oneshot::channel());
        self.0.node.spawn(async move {
            let _ = tell.send(delete(&inner, &task).await);
        });
        told.await.unwrap_or(Err(StoreError::Closed.into()))
    }
}

async fn delete(inner: &Inner, task: &Task) -> Result<(), DeleteError> {
    check(task, DeleteError::Live)?;
    let family = family(inner, task).await?;
    // The task itself is last: while it is there, all that is left of its family is found again. Files go before the rows, as with expired tasks.
    for batch in family.rchunks(BATCH) {
        if !retention::remove_files(inner, batch).await?.is_empty() {
            return Err(DeleteError::Files);
        }
        let (store, host) = (&inner.node.store, &inner.node.registered.host);
        store.delete_ended(host, batch.to_vec(), inner.node.now()).await?;
    }
    task_log::deleted(task);
    Ok(())
}

/// The task and all that it started, directly or not; a parent comes before its children.
async fn family(inner: &Inner, task: &Task) -> Result<Vec<TaskId>, DeleteError> {
    let mut family = vec![task.id.clone()];
    let mut parents = VecDeque::from([task.id.clone()]);
    while let Some(parent) = parents.pop_front() {
        let mut after = None;
        loop {
            let started = TaskLookup::StartedBy {
                parent: parent.clone(),
                after,
            };
            let started = inner.node.store.find(started, BATCH).await?;
            let Some(last) = started.last() else { break };
            after = Some(last.id.clone());
            for child in started {
                check(&child, DeleteError::LiveChild)?;
                parents.push_back(child.id.clone());
                family.push(child.id.clone());
            }
        }
    }
    Ok(family)
}

/// Whether a task is over and nothing of it runs any more.
fn check(task: &Task, live: DeleteError) -> Result<(), DeleteError> {
    match (task.is_done(), task.active_attempt()) {
        (false, _) => Err(live),
        (true, Some(_)) => Err(DeleteError::Stopping),
        (true, None) => Ok(()),
    }
}
