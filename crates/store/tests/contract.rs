//! The contract: over the model, over a layer that passes everything on, behind plain calls in memory, and over SQLite.
#![allow(clippy::unwrap_used, missing_docs)]

use longhaul_core::{BoxFuture, Store, StoreLayer};
use longhaul_store::{MemoryStore, PlainCallStore, SqliteOptions, SqliteStore, contract::Subject};
use std::sync::Arc;
use tempfile::TempDir;

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

/// In memory, so there is nothing to open again.
struct InMemory(Arc<dyn Store>);

impl Subject for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn reopen(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn model() -> BoxFuture<'static, Box<dyn Subject>> {
    Box::pin(async { Box::new(InMemory(Arc::new(MemoryStore::new()))) as Box<dyn Subject> })
}

/// Implements no operation itself.
#[derive(Default)]
struct Layer(MemoryStore);

impl StoreLayer for Layer {
    fn inner(&self) -> &dyn Store {
        &self.0
    }
}

fn layer() -> BoxFuture<'static, Box<dyn Subject>> {
    Box::pin(async { Box::new(InMemory(Arc::new(Layer::default()))) as Box<dyn Subject> })
}

fn plain_calls() -> BoxFuture<'static, Box<dyn Subject>> {
    Box::pin(async {
        let store = PlainCallStore::in_front_of(Arc::new(MemoryStore::new()));
        Box::new(InMemory(Arc::new(store))) as Box<dyn Subject>
    })
}

struct Sqlite {
    store: Option<Arc<SqliteStore>>,
    directory: TempDir,
}

impl Sqlite {
    fn open(directory: &TempDir) -> Option<Arc<SqliteStore>> {
        Some(Arc::new(
            SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap(),
        ))
    }
}

impl Subject for Sqlite {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn reopen(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            drop(self.store.take());
            self.store = Self::open(&self.directory);
        })
    }
}

fn sqlite() -> BoxFuture<'static, Box<dyn Subject>> {
    Box::pin(async {
        let directory = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&directory);
        Box::new(Sqlite { store, directory }) as Box<dyn Subject>
    })
}

mod over_the_model {
    use super::{block_on, model};
    longhaul_store::contract_tests!(model, block_on);
}

mod over_a_layer {
    use super::{block_on, layer};
    longhaul_store::contract_tests!(layer, block_on);
}

mod over_plain_calls {
    use super::{block_on, plain_calls};
    longhaul_store::contract_tests!(plain_calls, block_on);
}

mod over_sqlite {
    use super::{block_on, sqlite};
    longhaul_store::contract_tests!(sqlite, block_on);
}
