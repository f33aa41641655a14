//! Roles that may not do all that a server needs, and what is found in a database before it is used.

use crate::server::{Schema, Server};
use longhaul_store_postgres::{PostgresOpenError, PostgresStore};
use tokio_postgres::{Client, NoTls};

async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Each refusal names the SQL that helps: with it, the role comes to the next one, and in the end a store is opened. Returns what was refused.
async fn helped(administrator: &Client, address: &str, schema: &Schema) -> Vec<String> {
    let mut refused = Vec::new();
    loop {
        let inspected = PostgresStore::inspect(address, schema.options()).await.map(drop);
        let opened = PostgresStore::open(address, schema.options()).await.map(drop);
        assert_eq!(
            inspected.as_ref().err().map(ToString::to_string),
            opened.as_ref().err().map(ToString::to_string)
        );
        match opened {
            Ok(()) => return refused,
            Err(PostgresOpenError::Rights { what, remedy }) => {
                assert!(!refused.contains(&what), "{remedy} does not help: {what}");
                administrator.batch_execute(&remedy).await.unwrap();
                refused.push(what);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_rights_is_told_what_it_needs() {
    let server = Server::private().await;
    let administrator = connect(&server.address).await;
    administrator
        .batch_execute("CREATE ROLE \"we ak\" LOGIN")
        .await
        .unwrap();
    let weak = server.address.replace("user=longhaul", "user='we ak'");

    // There is no schema.
    let schema = Schema::new(&server);
    let refused = helped(&administrator, &weak, &schema).await;
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].contains("may not create the schema"), "{refused:?}");

    // The schema is another's.
    let schema = Schema::new(&server);
    drop(schema.open().await);
    let refused = helped(&administrator, &weak, &schema).await;
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].contains("may not use the schema"), "{refused:?}");
    assert!(
        refused[1].contains("may not use the tables") && refused[1].contains("`longhaul`"),
        "{refused:?}"
    );

    // It is an empty one.
    let schema = Schema::new(&server);
    let empty = format!("CREATE SCHEMA {0}; GRANT USAGE ON SCHEMA {0} TO \"we ak\"", schema.name);
    administrator.batch_execute(&empty).await.unwrap();
    let refused = helped(&administrator, &weak, &schema).await;
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].contains("may not create tables"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_described_before_it_is_used() {
    let server = Server::private().await;
    let schema = Schema::new(&server);
    let inspect = || PostgresStore::inspect(&schema.address, schema.options());
    let before = inspect().await.unwrap();
    assert_eq!((before.schema_version, &before.warnings[..]), (None, &[][..]));
    drop(schema.open().await);
    let administrator = connect(&server.address).await;
    let unsafe_setting = "ALTER SYSTEM SET full_page_writes = off; SELECT pg_reload_conf()";
    for sql in unsafe_setting.split("; ") {
        administrator.batch_execute(sql).await.unwrap();
    }
    let after = loop {
        // The setting takes effect a moment later.
        let after = inspect().await.unwrap();
        if !after.warnings.is_empty() {
            break after;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(after.schema_version, Some(after.known_version));
    assert!(after.warnings[0].contains("full_page_writes = off"), "{after:?}");
    assert_eq!(after.server_version, before.server_version);
}

/// What a start refuses is refused by a look, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_another_encoding_and_one_of_a_later_release_are_refused_at_once() {
    let server = Server::private().await;
    let administrator = connect(&server.address).await;
    let latin = "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'";
    administrator.batch_execute(latin).await.unwrap();
    let schema = Schema::new(&server);
    let refusals = async |address: &str| {
        let inspected = PostgresStore::inspect(address, schema.options()).await.map(drop);
        let opened = PostgresStore::open(address, schema.options()).await.map(drop);
        [inspected, opened].map(|refused| refused.unwrap_err().to_string())
    };
    for said in refusals(&format!("{} dbname=latin", server.address)).await {
        assert!(said.contains("has the encoding LATIN1, and tasks are UTF-8"), "{said}");
    }
    drop(schema.open().await);
    let later = format!("UPDATE {}.schema_version SET version = version + 1", schema.name);
    administrator.batch_execute(&later).await.unwrap();
    for said in refusals(&schema.address).await {
        assert!(said.contains("this release knows versions up to"), "{said}");
    }
}
