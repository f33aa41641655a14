//! Two stores on one schema, as two nodes have them.

use crate::{
    server::{Schema, Server},
    tasks::{id, new_task, open_node},
};
use longhaul_core::{
    Principal, SessionKey, Store, UnixMillis, Usage,
    store::{
        Claim, CreateError, Created, Idempotency, LeaseStore, QueueStore, SearchStore, SessionStore, SigningKey,
        StoreError, TaskStore,
    },
};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

/// The same call, made at two nodes at once, is one task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_comes_to_two_nodes_is_made_once() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let stores = [Arc::new(schema.open().await), Arc::new(schema.open().await)];
    let node = open_node(&*stores[0], "here").await;
    for round in 0..20 {
        let mut calls = JoinSet::new();
        for (nth, store) in stores.iter().enumerate() {
            for call in 0..4 {
                let mut new = new_task(&format!("t-{round}-{nth}-{call}"), node);
                new.idempotency = Some(Idempotency {
                    key: format!("key\0{round}-{call}").into(),
                    digest: [7; 32],
                });
                let store = Arc::clone(store);
                calls.spawn(async move { (call, store.create(new).await.unwrap()) });
            }
        }
        let answers = calls.join_all().await;
        for call in 0..4 {
            let of_call = answers.iter().filter(|(of, _)| *of == call);
            let (new, existing): (Vec<&Created>, Vec<&Created>) = of_call
                .map(|(_, created)| created)
                .partition(|created| matches!(created, Created::New(_)));
            assert_eq!((new.len(), existing.len()), (1, 1), "round {round}");
            assert_eq!(new[0].task(), existing[0].task());
        }
    }
    let usage = stores[1].usage(None).await.unwrap();
    assert_eq!(
        usage,
        Usage {
            live: 80,
            bytes: 80 * 9
        }
    );
}

/// Nodes together admit as many tasks as a quota has room for: no more, and no fewer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_together_keep_to_a_quota() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let stores = [schema.open().await, schema.open().await, schema.open().await].map(Arc::new);
    let node = open_node(&*stores[0], "here").await;
    for (limit, callers) in [(20, 10), (700, 30)] {
        let mut calling = JoinSet::new();
        for nth in 0..stores.len() * callers {
            let store = Arc::clone(&stores[nth % stores.len()]);
            calling.spawn(async move {
                let mut admitted = 0;
                for call in 0..30 {
                    let mut new = new_task(&format!("t-{limit}-{nth}-{call}"), node);
                    new.header.owner.principal = Principal::named(limit.to_string());
                    new.quota.live_per_principal = Some(limit);
                    match store.create(new).await {
                        Ok(_) => admitted += 1,
                        Err(CreateError::Quota(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                admitted
            });
        }
        let admitted: u64 = calling.join_all().await.into_iter().sum();
        assert_eq!(admitted, limit);
    }
}

/// A node that was paused in the middle of a transaction has locked its own row. Others renew their leases all the same, and find it lost once its session is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_beside_a_node_that_is_paused_in_a_transaction() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let offset = Arc::new(AtomicI64::new(0));
    let options = PostgresOptions {
        node_lease: 60_000,
        clock_offset: Arc::clone(&offset),
        ..schema.options()
    };
    let store = PostgresStore::open(&schema.address, options).await.unwrap();
    let paused = open_node(&store, "paused").await;
    let other = open_node(&store, "other").await;
    let (session, connection) = tokio_postgres::connect(&schema.address, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let lock = format!(
        "BEGIN; SELECT 1 FROM {}.nodes WHERE id = {} FOR SHARE",
        schema.name, paused.0
    );
    session.batch_execute(&lock).await.unwrap();
    // Until it has held its own lease for a whole length, and beyond.
    for _ in 0..6 {
        offset.fetch_add(25_000, Ordering::Relaxed);
        let renewal = store.renew(other).await.unwrap();
        assert!(!renewal.others_died, "its row is locked");
    }
    session.batch_execute("ROLLBACK").await.unwrap();
    assert!(store.renew(other).await.unwrap().others_died);
    assert!(matches!(store.renew(paused).await, Err(StoreError::LeaseLost)));
    connection.abort();
}

/// Claimers at two nodes share a queue, and no task is given to both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_a_queue() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let stores = [Arc::new(schema.open().await), Arc::new(schema.open().await)];
    let nodes = [
        open_node(&*stores[0], "here").await,
        open_node(&*stores[1], "there").await,
    ];
    let mut creating = JoinSet::new();
    for nth in 0..200 {
        let (store, node) = (Arc::clone(&stores[nth % 2]), nodes[nth % 2]);
        creating.spawn(async move { store.create(new_task(&format!("t{nth:03}"), node)).await.unwrap() });
    }
    creating.join_all().await;
    let mut claiming = JoinSet::new();
    for nth in 0..8 {
        let (store, node) = (Arc::clone(&stores[nth % 2]), nodes[nth % 2]);
        claiming.spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let claim = Claim {
                    tool: "tool".into(),
                    node,
                    host: None,
                    limit: 7,
                    at: UnixMillis(2),
                    rate: None,
                };
                let taken = store.claim(claim).await.unwrap();
                if taken.is_empty() && store.next_ready("tool", UnixMillis(i64::MAX)).await.unwrap().is_none() {
                    return claimed;
                }
                claimed.extend(taken.into_iter().map(|claimed| claimed.task.id.clone()));
            }
        });
    }
    let claimed = claiming.join_all().await.concat();
    let different: BTreeSet<_> = claimed.iter().collect();
    assert_eq!((claimed.len(), different.len()), (200, 200));
    let held =
        stores[0].renew(nodes[0]).await.unwrap().held.len() + stores[1].renew(nodes[1]).await.unwrap().held.len();
    assert_eq!(held, 200);
    assert!(stores[0].get_unscoped(&id("t000")).await.unwrap().is_some());
}

/// A session that was ended at one node is soon known to be ended at another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_sessions_become_known_to_other_nodes() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let (one, other) = (schema.open().await, schema.open().await);
    let session = SessionKey::named("session");
    one.end_session(&session, UnixMillis(100)).await.unwrap();
    assert_eq!(one.session_ended(&session).await, Ok(true));
    while other.session_ended(&session).await != Ok(true) {
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// A node renews its lease, and writes tasks, also while all that is not reserved for it is in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_while_other_connections_are_busy() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let store = Arc::new(schema.open().await);
    let node = open_node(&*store, "here").await;
    let (client, connection) = tokio_postgres::connect(&schema.address, tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let lock = format!("BEGIN; LOCK TABLE {}.signing_keys", schema.name);
    client.batch_execute(&lock).await.unwrap();
    let mut waiting = JoinSet::new();
    for nth in 0..8 {
        let store = Arc::clone(&store);
        let key = SigningKey {
            id: nth,
            secret: [1; 32],
        };
        waiting.spawn(async move { store.signing_keys("purpose", key).await });
    }
    let blocked = format!(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{}.signing_keys'::regclass",
        schema.name
    );
    while client.query_one(&blocked, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let renewed = async {
        store.renew(node).await.unwrap();
        store.create(new_task("t", node)).await.unwrap();
    };
    tokio::select! {
        () = renewed => {}
        _ = waiting.join_next() => panic!("the others were served first"),
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    assert!(waiting.join_all().await.iter().all(Result::is_ok));
    connection.abort();
}

/// A transaction that makes the row of a task may be committed after its node has lost the connection: it can be waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_writes_of_a_node_are_waited_for() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let options = PostgresOptions {
        lock_timeout: 100,
        ..schema.options()
    };
    let store = PostgresStore::open(&schema.address, options).await.unwrap();
    let node = open_node(&store, "here").await;
    let address = format!("{} application_name=psql", schema.address);
    let (session, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let is_named = |error: &StoreError| {
        let StoreError::LockedBy(who) = error else {
            panic!("{error}")
        };
        who.starts_with(&format!("process {pid}, `psql` of the role")) && who.contains("idle in transaction")
    };
    let begin = |lock: &str| {
        format!(
            "BEGIN; SELECT 1 FROM {}.nodes WHERE id = {} FOR {lock}",
            schema.name, node.0
        )
    };
    // As a transaction of this node does that was not committed yet.
    session.batch_execute(&begin("SHARE")).await.unwrap();
    assert!(is_named(&store.await_earlier_writes(node).await.unwrap_err()));
    assert!(store.health().locked_by.unwrap().contains("`psql`"));
    session.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store.await_earlier_writes(node).await, Ok(()));
    // Each create takes part, also of a task that it does not claim.
    session.batch_execute(&begin("UPDATE")).await.unwrap();
    let Err(CreateError::Store(refused)) = store.create(new_task("a", node)).await else {
        panic!("the row of its node is locked")
    };
    assert!(is_named(&refused));
    session.batch_execute("COMMIT").await.unwrap();
    assert!(store.create(new_task("a", node)).await.is_ok());
    // Reads wait for nothing but a lock of the whole table.
    let lock = format!("BEGIN; LOCK TABLE {}.tasks IN ACCESS EXCLUSIVE MODE", schema.name);
    session.batch_execute(&lock).await.unwrap();
    let reads = (0..40).map(|_| store.next_ready("t", UnixMillis(0)));
    for refused in futures_util::future::join_all(reads).await {
        assert!(is_named(&refused.unwrap_err()));
    }
    assert!(is_named(&store.get_unscoped(&id("a")).await.unwrap_err()));
    session.batch_execute("COMMIT").await.unwrap();
    drop(session);
    connection.await.unwrap().unwrap();
}
