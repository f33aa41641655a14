//! A store that notes which tasks and attempts have ended.

use foldhash::HashMap;
use longhaul_core::{
    AttemptOutcome, BoxFuture, HostId, NodeId, Store, StoreLayer, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, ChangeEnds, Claim, Claimed, CreateError, Created, NewTask, StoreError},
};
use parking_lot::Mutex;
use std::{
    collections::hash_map::Entry,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// What waits to be sent. When a collector is slow, what does not fit is dropped.
const MOST_WAITING: usize = 16_384;

/// Around the engine's store: notes what has ended. Tasks whose ids clients may know are traced, and what they start; plain calls are not.
pub(crate) struct TracedStore {
    inner: Arc<dyn Store>,
    notes: Notes,
    /// When the active attempts of this process began.
    began: Mutex<HashMap<TaskId, UnixMillis>>,
}

/// Where what has ended is noted.
#[derive(Clone)]
pub(crate) struct Notes {
    sender: Sender<EndedWork>,
    /// How much did not fit since it was last asked.
    dropped: Arc<AtomicU64>,
}

impl Notes {
    /// The receiver gets what is noted.
    pub(crate) fn new() -> (Self, Receiver<EndedWork>) {
        let (sender, ended) = mpsc::channel(MOST_WAITING);
        let dropped = Arc::default();
        (Self { sender, dropped }, ended)
    }

    fn note(&self, ended: EndedWork) {
        if self.sender.try_send(ended).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How much did not fit since this was last asked.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

/// Something that has ended, and the task as it was left.
#[derive(Debug)]
pub(crate) enum EndedWork {
    Task(Task),
    Attempt {
        task: Task,
        began: UnixMillis,
        at: UnixMillis,
        how: AttemptOutcome,
    },
}

impl TracedStore {
    /// Notes what happens in `inner`.
    pub(crate) fn around(inner: Arc<dyn Store>, notes: Notes) -> Self {
        Self {
            inner,
            notes,
            began: Mutex::default(),
        }
    }

    fn begins(&self, task: &Task, at: UnixMillis) {
        self.began.lock().insert(task.id.clone(), at);
    }

    fn changed(&self, task: &Task, ends: ChangeEnds) {
        let at = ends.at;
        if let Some(how) = ends.attempt {
            let began = match self.began.lock().entry(task.id.clone()) {
                Entry::Occupied(began) => began.remove(),
                // Not by this process.
                Entry::Vacant(_) => at,
            };
            if is_traced(task) {
                let task = task.clone();
                self.notes.note(EndedWork::Attempt { task, began, at, how });
            }
        }
        if is_traced(task) && ends.ended(task) {
            self.notes.note(EndedWork::Task(task.clone()));
        }
    }
}

/// A task that clients may know, or that such a one has started.
fn is_traced(task: &Task) -> bool {
    task.announced || task.lineage.is_some()
}

impl StoreLayer for TracedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        let replaced = new.replaces.as_ref().map(|end| (end.task.clone(), end.ends()));
        let creating = self.inner.create(new);
        Box::pin(async move {
            let created = creating.await;
            let Ok(Created::New(task)) = &created else {
                return created;
            };
            if task.active_attempt().is_some() {
                self.begins(task, task.created_at);
            }
            if let Some((replaced, ends)) = replaced
                && let Ok(Some(record)) = self.inner.get_unscoped(&replaced).await
            {
                self.changed(&record.task, ends);
            }
            created
        })
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let ends = change.ends();
        let applying = self.inner.apply(change);
        Box::pin(async move {
            let applied = applying.await;
            if let Ok(task) = &applied {
                self.changed(task, ends);
            }
            applied
        })
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let at = claim.at;
        let claiming = self.inner.claim(claim);
        Box::pin(async move {
            let claimed = claiming.await;
            for claimed in claimed.iter().flatten() {
                self.begins(&claimed.task, at);
            }
            claimed
        })
    }

    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let adopting = self.inner.adopt(node, host, limit, at);
        Box::pin(async move {
            let adopted = adopting.await;
            for adopted in adopted.iter().flatten() {
                self.begins(&adopted.task, at);
            }
            adopted
        })
    }
}
