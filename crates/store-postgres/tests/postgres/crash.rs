//! A server that is killed.

use crate::{
    server::{Schema, Server},
    tasks::{new_task, open_node},
};
use longhaul_core::{
    Event, Store, TaskId, UnixMillis,
    store::{ApplyError, Change, CreateError, StoreError},
};
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
                    Err(CreateError::Store(StoreError::Failed(_) | StoreError::OutcomeUnknown(_))) => return,
                    Err(other) => panic!("{other}"),
                };
                let until = UnixMillis(9_000_000);
                match store
                    .apply(Change::of(&id, Event::TtlExtended { until }, UnixMillis(2)))
                    .await
                {
                    Ok(task) => acknowledged.lock().unwrap().insert(id, task.version),
                    Err(ApplyError::Store(StoreError::Failed(_) | StoreError::OutcomeUnknown(_))) => return,
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
