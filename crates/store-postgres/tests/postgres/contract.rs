//! What every store promises.

use crate::{
    pooler::Pooler,
    server::{Schema, Server},
};
use longhaul_core::{BoxFuture, Millis, Store};
use longhaul_store::contract::{NewSubject, PROMISES, Subject, differential};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// As many promises are tested at a time.
const THREADS: usize = 4;

static SERVER: OnceLock<Server> = OnceLock::new();
/// In front of it, in tests that have one.
static POOLER: OnceLock<Pooler> = OnceLock::new();

struct Postgres {
    store: Option<Arc<PostgresStore>>,
    options: PostgresOptions,
    schema: Schema,
}

impl Subject for Postgres {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn reopen(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            drop(self.store.take());
            let (address, options) = match POOLER.get() {
                None => (self.schema.address.clone(), self.options.clone()),
                Some(pooler) => (pooler.address(), pooler.options(&self.schema, &self.options)),
            };
            let store = PostgresStore::open(&address, options).await;
            self.store = Some(Arc::new(store.unwrap()));
        })
    }

    fn pass(&mut self, millis: Millis) {
        let millis = i64::try_from(millis).unwrap();
        self.options.clock_offset.fetch_add(millis, Ordering::SeqCst);
    }
}

fn postgres() -> BoxFuture<'static, Box<dyn Subject>> {
    Box::pin(async {
        let schema = Schema::new(SERVER.get().unwrap());
        let options = schema.options();
        let mut subject = Postgres {
            store: None,
            options,
            schema,
        };
        subject.reopen().await;
        Box::new(subject) as Box<dyn Subject>
    })
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

fn with_server(test: impl FnOnce(NewSubject)) {
    let server = block_on(Server::find());
    assert!(
        SERVER.set(server).is_ok(),
        "one test in each process: run it with nextest"
    );
    test(postgres);
}

/// In one process, because each may have to start a server of its own.
#[test]
fn every_promise_is_kept() {
    with_server(keep_every_promise);
}

/// The same behind PgBouncer in transaction mode.
#[test]
fn every_promise_is_kept_behind_a_pooler() {
    with_server(|new_subject| {
        let pooler = block_on(Pooler::start(SERVER.get().unwrap()));
        assert!(POOLER.set(pooler).is_ok());
        keep_every_promise(new_subject);
        block_on(differential::run_for(new_subject, 1, 300));
        POOLER.get().unwrap().stop();
    });
}

fn keep_every_promise(new_subject: NewSubject) {
    {
        let promises: Vec<_> = PROMISES
            .iter()
            .filter(|(name, _)| *name != "a_random_run_agrees_with_the_model")
            .collect();
        let next = AtomicUsize::new(0);
        let test = || {
            let mut broken = Vec::new();
            while let Some((name, promise)) = promises.get(next.fetch_add(1, Ordering::SeqCst)) {
                let kept = catch_unwind(AssertUnwindSafe(|| block_on(promise(new_subject))));
                if kept.is_err() {
                    broken.push(*name);
                }
            }
            broken
        };
        let broken: Vec<&str> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(test)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(broken.is_empty(), "broken: {broken:?}");
    }
}

/// Shorter runs than those of other stores, which end only when everything has been seen: that takes a minute here.
#[test]
fn random_runs_agree_with_the_model() {
    with_server(|new_subject| {
        block_on(async {
            for seed in [1, 2] {
                differential::run_for(new_subject, seed, 500).await;
            }
        });
    });
}

/// As long as it takes until everything has been seen.
#[test]
#[ignore = "takes a minute: `cargo nextest run -p longhaul-store-postgres --run-ignored all`"]
fn a_long_random_run_agrees_with_the_model() {
    with_server(|new_subject| block_on(differential::run(new_subject, 3)));
}
