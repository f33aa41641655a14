//! `under_fire` as one of the nodes that share a database: `cargo xtask cluster`.

use longhaul::{
    Server,
    internals::core::{
        BoxFuture, Entry, EntryKind, Scope, Store, StoreLayer, Task, TaskId,
        store::{ApplyError, Change, CreateError, Created, NewTask, Record, StoreError},
    },
    postgres::{PostgresOptions, PostgresStore},
};
use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How long the planted loss lasts.
const UNWRITTEN_FOR: Duration = Duration::from_millis(50);

/// Where the tasks are.
pub(crate) struct Shared {
    pub(crate) store: String,
    /// Of a node's lease, in milliseconds.
    pub(crate) lease: u64,
    pub(crate) fault: Option<InjectedFault>,
}

impl Shared {
    /// The server with the shared store.
    pub(crate) async fn serve(self, server: Server) -> Result<Server, Box<dyn Error>> {
        let options = PostgresOptions {
            node_lease: self.lease,
            ..PostgresOptions::default()
        };
        let store = PostgresStore::open(&self.store, options).await?;
        let server = server.store(Arc::new(store));
        Ok(match self.fault {
            None => server,
            Some(fault) => server.wrap_store(move |store| Arc::new(Faulty::around(store, fault))),
        })
    }
}

/// A fault that the test of the cluster must find.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// A create is acknowledged before it is written.
    LoseAck,
    /// An attempt writes with the right of whichever attempt is the present one.
    NoFence,
    /// The latest entry of a journal is not found again.
    ForgetEntry,
    /// A read may answer what was read before.
    StaleRead,
}

impl InjectedFault {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "lose-ack" => Self::LoseAck,
            "no-fence" => Self::NoFence,
            "forget-entry" => Self::ForgetEntry,
            "stale-read" => Self::StaleRead,
            _ => return Err(format!("there is no fault {name}")),
        })
    }
}

/// A store with a fault.
struct Faulty {
    store: Arc<dyn Store>,
    fault: InjectedFault,
    /// What was read first of each task.
    first_reads: Mutex<HashMap<TaskId, Record>>,
}

impl Faulty {
    fn around(store: Arc<dyn Store>, fault: InjectedFault) -> Self {
        Self {
            store,
            fault,
            first_reads: Mutex::default(),
        }
    }
}

impl StoreLayer for Faulty {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn create(&self, mut new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        if self.fault != InjectedFault::LoseAck || new.parent.is_some() {
            return self.store.create(new);
        }
        new.claim = None;
        let (task, _) = new.task();
        let store = Arc::clone(&self.store);
        write_later(async move {
            let _ = store.create(new).await;
        });
        Box::pin(std::future::ready(Ok(Created::New(task))))
    }

    fn apply(&self, mut change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        if self.fault != InjectedFault::NoFence || change.fence.is_none() {
            return self.store.apply(change);
        }
        Box::pin(async move {
            let record = self.store.get_unscoped(&change.task).await?;
            let attempt = record.and_then(|record| record.task.attempt.clone());
            if let Some(attempt) = attempt {
                change.fence = Some(attempt.fence());
            }
            self.store.apply(change).await
        })
    }

    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let read = self.store.get(scope, id);
        if self.fault != InjectedFault::StaleRead {
            return read;
        }
        let id = id.clone();
        Box::pin(async move {
            let Some(record) = read.await? else { return Ok(None) };
            let mut first_reads = self.first_reads.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(Some(first_reads.entry(id).or_insert(record).clone()))
        })
    }

    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let read = self.store.journal(id, after, limit);
        let forgets = self.fault == InjectedFault::ForgetEntry;
        Box::pin(async move {
            let mut entries = read.await?;
            if forgets && entries.last().is_some_and(|entry| entry.key.kind == EntryKind::Step) {
                entries.pop();
            }
            Ok(entries)
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "a fault of real time")]
fn write_later(write: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        tokio::time::sleep(UNWRITTEN_FOR).await;
        write.await;
    });
}
