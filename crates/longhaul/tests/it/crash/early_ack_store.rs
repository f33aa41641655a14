//! A store that acknowledges entries before they are committed.

use longhaul_core::{
    BoxFuture, Event, Store, StoreLayer, Task,
    store::{ApplyError, Change},
    transition,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// Acknowledges entries before they are committed.
pub(super) struct EarlyAckStore {
    inner: Arc<dyn Store>,
    write_lock: Arc<Mutex<()>>,
}

impl EarlyAckStore {
    pub(super) fn over(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self {
            inner,
            write_lock: Arc::default(),
        })
    }

    /// The task as it will be after the change; `None` if the change does more than add entries.
    async fn predict(&self, change: &Change) -> Option<Task> {
        if !change.events.iter().all(|event| matches!(event, Event::Journaled(_))) {
            return None;
        }
        let mut task = self.inner.get_unscoped(&change.task).await.ok()??.task;
        for event in &change.events {
            transition(&mut task, event, change.at).ok()?;
        }
        Some(task)
    }
}

impl StoreLayer for EarlyAckStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        Box::pin(async move {
            let write_lock = Arc::clone(&self.write_lock).lock_owned().await;
            let Some(task) = self.predict(&change).await else {
                return self.inner.apply(change).await;
            };
            let inner = Arc::clone(&self.inner);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let _ = inner.apply(change).await;
                drop(write_lock);
            });
            Ok(task)
        })
    }
}
