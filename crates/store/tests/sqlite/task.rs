//! A store, and short constructors of tasks.

use longhaul_core::{
    AttemptEnd, ChildEntry, Entry, EntryKey, EntryKind, Event, HostId, Json, Lineage, NodeId, Origin, Outcome, Owner,
    Principal, SpecId, Task, TaskHeader, TaskId, ToolSpec, UnixMillis, Usage,
    store::{
        ApplyError, Change, CreateError, LeaseStore, NewTask, ParentEntry, QueueStore, SearchStore, StoreError,
        TaskStore,
    },
};
use longhaul_store::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
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
    let node = store
        .open_node(&HostId("here".into()).into(), UnixMillis(0))
        .await
        .unwrap()
        .node;
    (Arc::new(store), node)
}

pub(crate) fn id(name: &str) -> TaskId {
    name.parse().unwrap()
}

/// A task claimed by `node`, with arguments of about `bytes` bytes.
pub(crate) fn new_task(name: &str, node: NodeId, bytes: usize) -> NewTask {
    NewTask {
        header: TaskHeader {
            id: id(name),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            tool: "tool".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Modern,
            accepted_by: node,
            created_at: UnixMillis(1_000),
            deadline: None,
            queue_timeout: None,
            retention: 60_000,
            lineage: None,
            labels: longhaul_core::Labels::default(),
            group: None,
        },
        announced: true,
        in_memory: false,
        priority: longhaul_core::Priority::default(),
        arguments: Json::from(serde_json::json!("x".repeat(bytes))),
        requestor: Json::trusted("{}"),
        claim: Some((node, None)),
        confirmation: None,
        outcome: None,
        idempotency: None,
        unique: None,
        quota: longhaul_core::Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    }
}

pub(crate) async fn create(store: &SqliteStore, name: &str, node: NodeId, bytes: usize) -> Result<Task, StoreError> {
    match store.create(new_task(name, node, bytes)).await {
        Ok(created) => Ok(created.into_task()),
        Err(CreateError::Store(error)) => Err(error),
        Err(other) => panic!("no key, no quota: {other}"),
    }
}

/// Another value each time, so that an entry that is written again counts the difference.
pub(crate) async fn journal(store: &SqliteStore, task: &Task, seq: u32, bytes: usize) -> Result<Task, ApplyError> {
    let entry = Entry {
        seq,
        key: EntryKey {
            path: "1.0".into(),
            kind: EntryKind::Step,
            name: "step".into(),
            nth: seq,
        },
        beside: false,
        value: Json::from(serde_json::json!("x".repeat(bytes))),
        at: UnixMillis(1_500),
        epoch: task.active_attempt().map_or(0, |attempt| attempt.epoch),
    };
    let change = Change {
        fence: task.active_attempt().map(|attempt| attempt.fence()),
        ..Change::of(&task.id, Event::Journaled(entry), UnixMillis(1_500))
    };
    store.apply(change).await
}

/// A task that `parent` starts, as its entry `entry`.
pub(crate) async fn create_child(
    store: &SqliteStore,
    name: &str,
    parent: &Task,
    entry: u32,
) -> Result<Task, CreateError> {
    let fence = parent.active_attempt().unwrap().fence();
    let started = ChildEntry {
        task: id(name),
        outcome: None,
    };
    let entry = Entry {
        seq: entry,
        key: EntryKey {
            path: "".into(),
            kind: EntryKind::Child,
            name: "child".into(),
            nth: 1,
        },
        beside: false,
        value: started.to_json(),
        at: UnixMillis(1_500),
        epoch: fence.epoch,
    };
    let mut new = new_task(name, fence.node, 100);
    new.header.lineage = Some(Lineage {
        parent: parent.id.clone(),
        entry: entry.seq,
        root: parent.id.clone(),
        depth: 1,
    });
    new.parent = Some(ParentEntry { fence, entry });
    Ok(store.create(new).await?.into_task())
}

pub(crate) async fn finish(store: &SqliteStore, task: &Task) -> Result<Task, ApplyError> {
    let end = AttemptEnd::Finished(Outcome::result(Json::trusted(r#"{"content":[]}"#)));
    let change = Change {
        fence: task.active_attempt().map(|attempt| attempt.fence()),
        ..Change::of(&task.id, Event::AttemptEnded(end), UnixMillis(2_000))
    };
    store.apply(change).await
}

/// The stored usage is the sum of what is stored.
pub(crate) async fn counts_agree(store: &SqliteStore, directory: &Path) {
    const ADDED_UP: &str = "SELECT coalesce(sum(state < 3), 0), coalesce(sum(
        (SELECT octet_length(json) + octet_length(requestor) FROM arguments WHERE task = tasks.seq)
        + coalesce((SELECT coalesce(octet_length(json), 0) + coalesce(octet_length(message), 0) FROM outcomes WHERE task = tasks.seq), 0)
        + coalesce((SELECT sum(octet_length(request) + coalesce(octet_length(answer), 0)) FROM inputs WHERE task = tasks.seq), 0)
        + coalesce((SELECT sum(octet_length(path) + octet_length(name) + octet_length(value)) FROM journal WHERE task = tasks.seq), 0)
        ), 0) FROM tasks";
    let observer = Connection::open(directory.join("longhaul.db")).unwrap();
    let number = |row: &rusqlite::Row<'_>, column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let added_up = |row: &rusqlite::Row<'_>| {
        Ok(Usage {
            live: number(row, 0)?,
            bytes: number(row, 1)?,
        })
    };
    let there = observer.query_row(ADDED_UP, [], added_up).unwrap();
    assert_eq!(store.usage(None).await.unwrap(), there);
    assert_eq!(store.usage(Some(&Principal::local())).await.unwrap(), there);
}

pub(crate) async fn exists(store: &SqliteStore, name: &str) -> bool {
    store.get_unscoped(&id(name)).await.unwrap().is_some()
}
