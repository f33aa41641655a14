//! Databases that answer, and cannot be used as they are.

use crate::{
    server::{Schema, Server},
    tasks::{id, new_task, open_node},
};
use longhaul_core::{
    Outcome, Scope, SessionKey, UnixMillis,
    store::{CreateError, NewTask, SearchStore, SessionStore, StoreError, TaskStore, TimerStore},
};
use longhaul_store_postgres::{PostgresOpenError, PostgresStore};
use tokio_postgres::NoTls;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_called_one() {
    let mut server = Server::private().await;
    let schema = Schema::new(&server);
    let store = schema.open().await;
    server.demote().await;
    let is_said = |text: &str| text.contains("it is a standby") && text.contains("Name the primary");
    for _ in 0..2 {
        // The first one may find connections to the server that was killed.
        let _ = store.next_wake().await;
    }
    // What readiness asks.
    let read = store.next_wake().await;
    assert!(
        matches!(&read, Err(StoreError::Unusable(why)) if is_said(why)),
        "{read:?}"
    );
    let ended = store.end_session(&SessionKey::named("s"), UnixMillis(1)).await;
    assert!(
        matches!(&ended, Err(StoreError::Unusable(why)) if is_said(why)),
        "{ended:?}"
    );
    let opened = PostgresStore::open(&schema.address, schema.options())
        .await
        .err()
        .unwrap();
    assert!(
        matches!(&opened, PostgresOpenError::Unusable(why) if is_said(why)),
        "{opened}"
    );
}

/// What has ended is read from a database that can only be read, and a change says why it is not made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_can_only_be_read_answers_reads() {
    for is_standby in [true, false] {
        let mut server = Server::private().await;
        let schema = Schema::new(&server);
        let store = schema.open().await;
        let node = open_node(&store, "here").await;
        let ended = NewTask {
            outcome: Some(Outcome::Cancelled),
            ..new_task("ended", node)
        };
        store.create(ended).await.unwrap();
        if is_standby {
            server.demote().await;
        } else {
            let (client, connection) = tokio_postgres::connect(&server.address, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
                .batch_execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
                .await
                .unwrap();
            let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name LIKE 'longhaul%'";
            client.query(others, &[]).await.unwrap();
        }
        for _ in 0..2 {
            let record = store.get_unscoped(&id("ended")).await.unwrap().unwrap();
            assert_eq!(record.outcome, Some(Outcome::Cancelled));
            let scope = Scope::of(record.task.owner.principal.clone());
            assert_eq!(store.list(&scope, None, 10).await.unwrap().tasks.len(), 1);
        }
        let refused = store.create(new_task("new", node)).await;
        assert!(
            matches!(&refused, Err(CreateError::Store(StoreError::Unusable(why))) if why.contains("can only be read")),
            "{refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_room_for_a_connection_says_what_to_do() {
    let server = Server::private().await;
    let (client, connection) = tokio_postgres::connect(&server.address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("CREATE ROLE busy LOGIN CONNECTION LIMIT 0")
        .await
        .unwrap();
    let busy = server.address.replace("user=longhaul", "user=busy");
    let opened = PostgresStore::open(&busy, Schema::new(&server).options())
        .await
        .err()
        .unwrap();
    let PostgresOpenError::Unusable(why) = &opened else {
        panic!("{opened}")
    };
    assert!(
        why.contains("`max_connections`") && why.contains("`store_connections`"),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_has_lost_a_right_says_what_to_do() {
    let server = Server::private().await;
    let (client, connection) = tokio_postgres::connect(&server.address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("CREATE ROLE weak LOGIN; GRANT CREATE ON DATABASE postgres TO weak")
        .await
        .unwrap();
    let weak = server.address.replace("user=longhaul", "user=weak");
    let schema = Schema::new(&server);
    let store = PostgresStore::open(&weak, schema.options()).await.unwrap();
    let revoke = format!(
        "REVOKE INSERT, UPDATE ON ALL TABLES IN SCHEMA {} FROM weak",
        schema.name
    );
    client.batch_execute(&revoke).await.unwrap();
    let ended = store.end_session(&SessionKey::named("s"), UnixMillis(1)).await;
    assert!(
        matches!(&ended, Err(StoreError::Unusable(why)) if why.contains("`longhaul check`")),
        "{ended:?}"
    );
}
