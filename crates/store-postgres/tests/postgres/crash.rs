//! A server that is killed.

use crate::{
    server::{Schema, Server},
    tasks::{id as id_of, new_task, open_node},
};
use longhaul_core::{
    Event, TaskId, UnixMillis,
    store::{ApplyError, Change, CreateError, LeaseStore, StoreError, TaskStore},
};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::task::JoinSet;

const CLIENTS: usize = 16;
/// So many changes are acknowledged before the server is killed.
const ACKNOWLEDGED: usize = 1_500;

/// The versions of tasks that were acknowledged.
type Acknowledged = Arc<Mutex<BTreeMap<TaskId, u64>>>;

/// Everything that was acknowledged before all processes of the server were killed is there afterwards, and the same store goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_kill_of_the_server() {
    let mut server = Server::private().await;
    let schema = Schema::new(&server);
    let store = Arc::new(schema.open().await);
    let node = open_node(&*store, "here").await;
    let acknowledged = Acknowledged::default();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (store, acknowledged) = (Arc::clone(&store), Arc::clone(&acknowledged));
        clients.spawn(async move {
            for nth in 0.. {
                let new = new_task(&format!("t-{client}-{nth}"), node);
                let id = new.id.clone();
                match store.create(new).await {
                    Ok(created) => acknowledged.lock().unwrap().insert(id.clone(), created.task().version),
                    Err(CreateError::Store(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_))) => return,
                    Err(other) => panic!("{other}"),
                };
                let until = UnixMillis(9_000_000);
                match store
                    .apply(Change::of(&id, Event::TtlExtended { until }, UnixMillis(2)))
                    .await
                {
                    Ok(task) => acknowledged.lock().unwrap().insert(id, task.version),
                    Err(ApplyError::Store(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_))) => return,
                    Err(other) => panic!("{other}"),
                };
            }
        });
    }
    while acknowledged.lock().unwrap().len() < ACKNOWLEDGED {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.kill_and_restart().await;
    // The clients whose changes were tried again go on.
    clients.abort_all();
    while clients.join_next().await.is_some() {}
    let acknowledged = acknowledged.lock().unwrap().clone();
    let ids: Vec<TaskId> = acknowledged.keys().cloned().collect();
    let versions: BTreeMap<TaskId, u64> = store.versions(&ids).await.unwrap().into_iter().collect();
    for (id, version) in &acknowledged {
        let found = versions.get(id).unwrap_or_else(|| panic!("{id} is lost"));
        assert!(found >= version, "{id} has version {found} and not {version}");
    }
    store.create(new_task("later", node)).await.unwrap();
    assert_eq!(schema.open().await.renew(node).await.unwrap().held, []);
}

/// A server that is silent is not waited for, and is used again once it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_not_waited_for() {
    let server = Server::private().await;
    let schema = Schema::new(&server);
    let options = PostgresOptions {
        statement_timeout: 300,
        ..schema.options()
    };
    let store = Arc::new(PostgresStore::open(&schema.address, options).await.unwrap());
    let node = open_node(&*store, "here").await;
    let id = store.create(new_task("a", node)).await.unwrap().task().id.clone();
    server.signal(Signal::STOP);
    // More than there are connections: those that find none free are refused, too.
    let mut reads = JoinSet::new();
    for _ in 0..8 {
        let (store, id) = (Arc::clone(&store), id.clone());
        reads.spawn(async move { store.get_unscoped(&id).await.map(drop) });
    }
    while let Some(read) = reads.join_next().await {
        assert!(matches!(read.unwrap(), Err(StoreError::Unavailable(_))));
    }
    let created = store.create(new_task("b", node)).await;
    assert!(
        matches!(created, Err(CreateError::Store(StoreError::Unavailable(_)))),
        "{created:?}"
    );
    let renewed = store.renew(node).await;
    assert!(matches!(renewed, Err(StoreError::Unavailable(_))), "{renewed:?}");
    let opened = PostgresStore::open(&schema.address, schema.options()).await;
    let refused = opened.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("does not answer"), "{refused}");
    server.signal(Signal::CONT);
    store.create(new_task("c", node)).await.unwrap();
    assert!(store.get_unscoped(&id).await.unwrap().is_some());
    store.renew(node).await.unwrap();
    assert!(
        store.get_unscoped(&id_of("b")).await.unwrap().is_none(),
        "it was refused"
    );
}
