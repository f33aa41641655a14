//! Faults of debug builds, to verify that the tests find them: `LONGHAUL_PLANT` names one.

use longhaul_core::{
    BoxFuture, Entry, EntryKind, StoreLayer, TaskId,
    store::{Store, StoreError},
};
use longhaul_store::{SqliteOptions, sqlite::InjectedFault};
use std::{env, sync::Arc};

const VARIABLE: &str = "LONGHAUL_PLANT";

/// How the store is opened.
pub(crate) fn store_options() -> SqliteOptions {
    let plant = match env::var(VARIABLE).as_deref() {
        Ok("lose-ack") => Some(InjectedFault::AcknowledgeBeforeCommit),
        Ok("synchronous-off") => Some(InjectedFault::SynchronousOff),
        _ => None,
    };
    SqliteOptions {
        injected_fault: plant,
        ..SqliteOptions::default()
    }
}

/// The server as it was, or with a store that forgets.
pub(crate) fn plant(server: longhaul::Server) -> longhaul::Server {
    match env::var(VARIABLE).as_deref() {
        Ok("skip-checkpoint") => server.wrap_store(|store| Arc::new(WithoutCheckpoints(store))),
        _ => server,
    }
}

/// No checkpoint is found again.
struct WithoutCheckpoints(Arc<dyn Store>);

impl StoreLayer for WithoutCheckpoints {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let read = self.0.journal(id, after, limit);
        Box::pin(async move {
            let mut entries = read.await?;
            entries.retain(|entry| entry.key.kind != EntryKind::Checkpoint);
            Ok(entries)
        })
    }
}
