//! Databases that are copies of an earlier state.

use crate::{
    server::{Schema, Server},
    tasks::{id, new_task, open_node},
};
use longhaul_core::store::{LeaseStore, StoreError, TaskStore};
use longhaul_store_postgres::{Copied, PostgresOptions, PostgresStore};
use std::path::Path;
use tokio_postgres::{Client, NoTls};

async fn client(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn open(schema: &Schema, data_dir: &Path, accept: bool) -> PostgresStore {
    let options = PostgresOptions {
        data_dir: Some(data_dir.to_owned()),
        accept_restored: accept,
        ..schema.options()
    };
    PostgresStore::open(&schema.address, options).await.unwrap()
}

/// Makes the tables anew with what they have, as a dump that is restored in place.
async fn restore_as_dump(schema: &Schema) {
    let client = client(&schema.address).await;
    let name = &schema.name;
    let script = format!(
        "DO $$ DECLARE name text; BEGIN FOR name IN SELECT relname FROM pg_class WHERE relnamespace = '{name}'::regnamespace AND relkind = 'r' LOOP \
             EXECUTE format('ALTER TABLE {name}.%1$I RENAME TO %2$I', name, 'old_' || name); \
             EXECUTE format('CREATE TABLE {name}.%1$I (LIKE {name}.%2$I INCLUDING DEFAULTS)', name, 'old_' || name); \
             EXECUTE format('INSERT INTO {name}.%1$I SELECT * FROM {name}.%2$I', name, 'old_' || name); \
             EXECUTE format('DROP TABLE {name}.%I', 'old_' || name); \
         END LOOP; END $$"
    );
    client.batch_execute(&script).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_dump_is_recognized_until_it_is_accepted() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(&schema, here.path(), false).await;
    let node = open_node(&store, "here").await;
    store.create(new_task("a", node)).await.unwrap();
    let other = open(&schema, there.path(), false).await;
    let node_there = open_node(&other, "there").await;
    assert_eq!((store.copied(), other.copied()), (None, None));
    restore_as_dump(&schema).await;
    // One that runs meanwhile notices, and works no more.
    assert_eq!(store.renew(node).await.unwrap_err(), StoreError::LeaseLost);
    drop((store, other));
    for dir in [&here, &there] {
        let store = open(&schema, dir.path(), false).await;
        assert_eq!(store.copied(), Some(&Copied::Elsewhere));
        assert!(store.get_unscoped(&id("a")).await.unwrap().is_some(), "it can be read");
    }
    let store = open(&schema, here.path(), true).await;
    assert_eq!(store.copied(), None);
    let again = open_node(&store, "new").await;
    assert!(
        again.0 >= node_there.0 + 1_000_000,
        "no number is given again: {again:?}"
    );
    drop(store);
    // For all hosts.
    for dir in [&here, &there] {
        assert_eq!(open(&schema, dir.path(), false).await.copied(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_state_lacks_what_a_host_remembers() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(&schema, here.path(), false).await;
    let node = open_node(&store, "here").await;
    store.record_removal().await.unwrap();
    store.record_removal().await.unwrap();
    drop(store);
    let reopened = async || open(&schema, here.path(), false).await.copied().cloned();
    assert_eq!(reopened().await, None);
    let client = client(&schema.address).await;
    let name = &schema.name;
    let to_before = format!("UPDATE {name}.removals SET count = 1");
    client.batch_execute(&to_before).await.unwrap();
    assert_eq!(reopened().await, Some(Copied::LacksRemovals { database: 1, file: 2 }));
    client
        .batch_execute(&format!("DELETE FROM {name}.nodes"))
        .await
        .unwrap();
    assert_eq!(reopened().await, Some(Copied::LacksNode { node: node.0 }));
    // Another host remembers nothing.
    assert_eq!(open(&schema, there.path(), false).await.copied(), None);
    assert_eq!(open(&schema, here.path(), true).await.copied(), None);
    assert_eq!(reopened().await, None);
    std::fs::write(here.path().join("database"), "{").unwrap();
    assert!(matches!(reopened().await, Some(Copied::FileDamaged(..))));
}

/// A standby that becomes the primary: a new timeline, on which servers register anew, with numbers of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_lets_nodes_register_anew() {
    let mut server = Server::private().await;
    let dir = tempfile::tempdir().unwrap();
    let schema = Schema::new(&server);
    let store = open(&schema, dir.path(), false).await;
    let node = open_node(&store, "here").await;
    store.renew(node).await.unwrap();
    store.create(new_task("a", node)).await.unwrap();
    server.promote().await;
    let renewed = store.renew(node).await;
    assert_eq!(renewed.unwrap_err(), StoreError::LeaseLost);
    drop(store);
    let store = open(&schema, dir.path(), false).await;
    assert_eq!(store.copied(), None, "nothing is lost");
    let again = open_node(&store, "new").await;
    assert!(node.0 < 1_000_000 && again.0 >= 1_000_000, "{node:?} {again:?}");
    assert!(store.get_unscoped(&id("a")).await.unwrap().is_some());
}
