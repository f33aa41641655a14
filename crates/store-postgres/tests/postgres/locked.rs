//! Rows and tables that another session has locked.

use crate::{
    server::{Schema, Server},
    tasks::{id, new_task, open_node},
};
use longhaul_core::{
    Event, HostId, Json, Outcome, UnixMillis,
    store::{ApplyError, Change, Claim, LeaseStore, NewTask, QueueStore, TaskStore, TimerStore},
};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};
use tokio_postgres::{Client, NoTls};

async fn session(schema: &Schema) -> Client {
    let (client, connection) = tokio_postgres::connect(&schema.address, NoTls).await.unwrap();
    tokio::spawn(connection);
    let path = format!("SET search_path = {}; SET statement_timeout = 10000", schema.name);
    client.batch_execute(&path).await.unwrap();
    client
}

/// What another node deletes, or changes because of the time, is left to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_node_has_in_hand_is_left_to_it() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let store = schema.open().await;
    let node = open_node(&store, "here").await;
    for name in ["ended-a", "ended-b"] {
        let ended = NewTask {
            outcome: Some(Outcome::Result {
                json: Json::trusted("{}"),
                is_error: false,
            }),
            ..new_task(name, node)
        };
        store.create(ended).await.unwrap();
    }
    for name in ["timed-a", "timed-b"] {
        let mut timed = new_task(name, node);
        timed.header.deadline = Some(10);
        store.create(timed).await.unwrap();
    }
    let other = session(&schema).await;
    other
        .batch_execute("BEGIN; SELECT 1 FROM tasks WHERE id LIKE '%-a' FOR UPDATE")
        .await
        .unwrap();
    let late = UnixMillis(10_000_000);
    let due = |name| store.apply(Change::of(&id(name), Event::DeadlinePassed, late));
    assert_eq!(due("timed-a").await, Err(ApplyError::NotFound));
    assert!(due("timed-b").await.unwrap().is_done());
    let expired = store.expired(late, 10).await.unwrap();
    assert!(expired.len() >= 2, "{expired:?}");
    let host = HostId("here".into());
    let ended = vec![id("ended-a"), id("ended-b")];
    assert_eq!(store.delete(&host, ended.clone(), late).await, Ok(1));
    other.batch_execute("COMMIT").await.unwrap();
    assert!(due("timed-a").await.unwrap().is_done());
    assert_eq!(store.delete(&host, ended, late).await, Ok(1));
}

/// A start that must alter a table which a transaction uses keeps nobody else from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_does_not_queue_behind_a_transaction() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    drop(schema.open().await);
    let other = session(&schema).await;
    other
        .batch_execute(
            "ALTER TABLE nodes DROP COLUMN sender, DROP COLUMN sent, DROP COLUMN delivery; DROP TABLE pause_version; DROP TABLE forgotten_nodes; DROP TABLE start_times; DROP TABLE schedules; DROP TABLE task_labels; \
             ALTER TABLE tool_limits DROP COLUMN per_group; \
             ALTER TABLE tasks DROP COLUMN concurrency_group, DROP COLUMN waits_for_group, DROP COLUMN unique_value, DROP COLUMN unique_arguments, DROP COLUMN priority, DROP COLUMN labels, DROP COLUMN confirm_by; \
             CREATE INDEX tasks_queued ON tasks (tool, ready_at, id) WHERE state = 0; \
             CREATE INDEX tasks_queued_of_principal ON tasks (tool, principal, ready_at, id) WHERE state = 0; \
             UPDATE schema_version SET version = 6",
        )
        .await
        .unwrap();
    other.batch_execute("BEGIN; SELECT count(*) FROM nodes").await.unwrap();
    let (address, options) = (schema.address.clone(), schema.options());
    let opening = tokio::spawn(async move { PostgresStore::open(&address, options).await });
    let reader = session(&schema).await;
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation JOIN pg_namespace ON pg_namespace.oid = relnamespace \
         WHERE NOT granted AND nspname = $1";
    while reader.query_one(waits, &[&schema.name]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    reader.query_one("SELECT count(*) FROM nodes", &[]).await.unwrap();
    assert!(!opening.is_finished());
    other.batch_execute("COMMIT").await.unwrap();
    let store = opening.await.unwrap().unwrap();
    open_node(&store, "here").await;
}

/// Rows of nodes long gone are removed unless something refers to them; their numbers are not used again, deaths are still noticed, and a host that comes back
/// does not take the database for an earlier one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_long_gone_are_forgotten() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let offset = Arc::new(AtomicI64::new(0));
    let folder = tempfile::tempdir().unwrap();
    let options = PostgresOptions {
        node_lease: 60_000,
        clock_offset: Arc::clone(&offset),
        ..schema.options()
    };
    let with_folder = PostgresOptions {
        data_dir: Some(folder.path().to_owned()),
        ..options.clone()
    };
    let store = PostgresStore::open(&schema.address, with_folder.clone()).await.unwrap();
    let gone = open_node(&store, "gone").await;
    store.end_lease(gone).await.unwrap();
    drop(store);
    let store = PostgresStore::open(&schema.address, options).await.unwrap();
    let holds = open_node(&store, "holds").await;
    let mut claimed = new_task("claimed", holds);
    claimed.claim = Some((holds, Some(HostId("holds".into()))));
    store.create(claimed).await.unwrap();
    store.end_lease(holds).await.unwrap();
    let watches = open_node(&store, "watches").await;
    offset.fetch_add(31 * 86_400_000, Ordering::Relaxed);
    store.renew(watches).await.unwrap();
    let latest = open_node(&store, "latest").await;
    let reader = session(&schema).await;
    let left = reader.query("SELECT id FROM nodes ORDER BY id", &[]).await.unwrap();
    let left: Vec<i64> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, [holds.0, watches.0, latest.0]);
    assert!(!store.renew(watches).await.unwrap().others_died);
    store.end_lease(latest).await.unwrap();
    assert!(store.renew(watches).await.unwrap().others_died);
    let back = PostgresStore::open(&schema.address, with_folder).await.unwrap();
    assert!(back.copied().is_none());
    assert!(open_node(&back, "gone").await.0 > latest.0);
}

/// The other session may be a node that hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_with_a_rate_does_not_wait_for_another() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let store = schema.open().await;
    let node = open_node(&store, "here").await;
    for name in ["one", "two"] {
        store.create(new_task(name, node)).await.unwrap();
    }
    let claim = |at| {
        store.claim(Claim {
            tool: "tool".into(),
            node,
            host: None,
            limit: 1,
            at: UnixMillis(at),
            rate: Some("1/s".parse().unwrap()),
        })
    };
    assert_eq!(claim(1_000).await.unwrap().len(), 1);
    let other = session(&schema).await;
    let lock = "BEGIN; SELECT 1 FROM start_times FOR UPDATE";
    other.batch_execute(lock).await.unwrap();
    assert_eq!(claim(9_000).await.unwrap(), []);
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(claim(9_000).await.unwrap().len(), 1);
}
