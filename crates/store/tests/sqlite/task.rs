//! A store with tasks in few words.

use longhaul_core::{
    AttemptEnd, Event, HostId, Json, NodeId, Origin, Outcome, Owner, Principal, SpecId, Store, Task, TaskId, ToolSpec,
    UnixMillis,
    store::{ApplyError, Change, NewTask, StoreError},
};
use longhaul_store::{SqliteOptions, SqliteStore};
use std::{path::Path, sync::Arc};

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// A store with a definition and a node.
pub(crate) async fn open(directory: &Path, options: SqliteOptions) -> (Arc<SqliteStore>, NodeId) {
    let store = SqliteStore::open(directory, options).unwrap();
    let definition = Json::trusted("{}");
    let spec = ToolSpec {
        id: SpecId::named("spec"),
        kind: "test".into(),
        definition,
    };
    store.put_spec(spec).await.unwrap();
    let node = store.open_node(&HostId("here".into()), UnixMillis(0)).await.unwrap();
    (Arc::new(store), node)
}

pub(crate) fn id(name: &str) -> TaskId {
    name.parse().unwrap()
}

/// A task claimed by `node`, with arguments of about `bytes` bytes.
pub(crate) fn new_task(name: &str, node: NodeId, bytes: usize) -> NewTask {
    NewTask {
        id: id(name),
        owner: Owner {
            principal: Principal::local(),
            session: None,
        },
        tool: "tool".into(),
        spec: SpecId::named("spec"),
        origin: Origin::Modern,
        front: node,
        announced: true,
        arguments: Json::from(serde_json::json!("x".repeat(bytes))),
        at: UnixMillis(1_000),
        deadline: None,
        queue_timeout: None,
        retention: 60_000,
        claim: Some((node, None)),
        outcome: None,
    }
}

pub(crate) async fn create(store: &SqliteStore, name: &str, node: NodeId, bytes: usize) -> Result<Task, StoreError> {
    store.create(new_task(name, node, bytes)).await
}

pub(crate) async fn finish(store: &SqliteStore, task: &Task) -> Result<Task, ApplyError> {
    let end = AttemptEnd::Finished(Outcome::result(Json::trusted(r#"{"content":[]}"#)));
    let change = Change {
        fence: task.active_attempt().map(|attempt| attempt.fence()),
        ..Change::of(&task.id, Event::AttemptEnded(end), UnixMillis(2_000))
    };
    store.apply(change).await
}

pub(crate) async fn exists(store: &SqliteStore, name: &str) -> bool {
    store.peek(&id(name)).await.unwrap().is_some()
}
