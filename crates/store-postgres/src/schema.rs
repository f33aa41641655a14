//! The numbered, forward-only steps from an empty schema to the present one.

use crate::{
    OpenError, PostgresOptions,
    connections::{Connections, Execute, Tx, quoted},
    fault::{Fault, Retries},
};

/// Step n brings a schema from version n to n + 1. Steps are only ever added.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_tasks.sql"),
    include_str!("migrations/0002_nodes.sql"),
];

/// "Long" and "haul" in ASCII: the lock that all migrations of a database take, whichever their schema.
const LOCK: i64 = 0x4c6f_6e67_6861_756c;

/// Creates the schema, or brings it to the present version. Nodes that start together do it one after the other.
pub(crate) async fn migrate(connections: &Connections, options: &PostgresOptions) -> Result<(), OpenError> {
    let mut retries = Retries::default();
    loop {
        match migrate_once(connections, options).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(refused)) => return Err(refused),
            Err(fault) => retries.wait(fault).await?,
        }
    }
}

async fn migrate_once(connections: &Connections, options: &PostgresOptions) -> Result<Result<(), OpenError>, Fault> {
    let mut connection = connections.get().await?;
    let server = connection.row("SHOW server_version_num", &[]).await?;
    let server: i32 = server
        .and_then(|row| row.get::<_, &str>(0).parse().ok())
        .unwrap_or_default();
    if server < 140_000 {
        let version = format!("{}.{}", server / 10_000, server % 10_000);
        return Ok(Err(OpenError::OldServer(version)));
    }
    for setting in ["fsync", "full_page_writes"] {
        let row = connection.row(&format!("SHOW {setting}"), &[]).await?;
        if row.is_some_and(|row| row.get::<_, &str>(0) == "off") {
            tracing::warn!(
                "the database has `{setting} = off`: what it has acknowledged is lost when its machine crashes"
            );
        }
    }
    let tx = connection.begin();
    // Of the transaction, so that it also works behind a pooler. Waits for another node's migration, as long as that takes.
    tx.run("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        .await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let found = version(&tx, &options.schema).await?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known {
        let schema = options.schema.clone();
        return Ok(Err(OpenError::NewerSchema { schema, found, known }));
    }
    for (version, step) in (1_i64..)
        .zip(MIGRATIONS)
        .skip(usize::try_from(found).unwrap_or_default())
    {
        tx.run(step).await?;
        tx.run(&format!("UPDATE schema_version SET version = {version}"))
            .await?;
    }
    tx.commit().await?;
    Ok(Ok(()))
}

/// How many steps the schema has gone through; 0 for a new one, which is created.
async fn version(tx: &Tx<'_>, schema: &str) -> Result<i64, Fault> {
    let exists = tx
        .rows("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[&schema])
        .await?;
    if exists.is_empty() {
        tx.run(&format!("CREATE SCHEMA {}", quoted(schema))).await?;
    }
    tx.run("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)")
        .await?;
    let row = tx.row("SELECT version FROM schema_version", &[]).await?;
    if let Some(row) = row {
        return Ok(row.get(0));
    }
    tx.run("INSERT INTO schema_version (version) VALUES (0)").await?;
    Ok(0)
}
