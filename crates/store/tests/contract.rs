//! The contract: over the model, over a layer that passes everything on, over a store in memory that many nodes share, behind plain calls in memory, and over SQLite.
#![allow(clippy::unwrap_used)]

use longhaul_core::{BoxFuture, Clock, Millis, Store, StoreLayer, UnixMillis};
use longhaul_store::{MemoryStore, PlainCallStore, SqliteOptions, SqliteStore, contract::Subject};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
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

/// A store of many nodes, and its clock.
struct Shared(Arc<MemoryStore>, Arc<HandClock>);

#[derive(Default)]
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(0).plus(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

impl Subject for Shared {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn reopen(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn pass(&mut self, millis: Millis) {
        self.1.0.fetch_add(millis, Ordering::SeqCst);
    }
}

fn shared() -> BoxFuture<'static, Box<dyn Subject>> {
    Box::pin(async {
        let clock = Arc::new(HandClock::default());
        let store = MemoryStore::of_many_nodes(clock.clone(), 15_000);
        Box::new(Shared(Arc::new(store), clock)) as Box<dyn Subject>
    })
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

mod over_a_store_of_many_nodes {
    use super::{block_on, shared};
    longhaul_store::contract_tests!(shared, block_on);
}
