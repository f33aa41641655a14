//! The numbered, forward-only steps from an empty schema to the present one.

use crate::{
    PostgresOpenError, PostgresOptions,
    connection::{Connections, locks, quoted},
    executor::pause,
    query::inspection,
    statement::{Execute, Fault, Retries, Tx},
};
use longhaul_core::store::StoreError;
use std::time::Duration;

/// Step n brings a schema from version n to n + 1. Steps are only ever added.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_tasks.sql"),
    include_str!("migrations/0002_nodes.sql"),
    include_str!("migrations/0003_relocations.sql"),
    include_str!("migrations/0004_messages.sql"),
    include_str!("migrations/0005_origin.sql"),
    include_str!("migrations/0006_answered_by.sql"),
    include_str!("migrations/0007_events.sql"),
    include_str!("migrations/0008_forgotten_nodes.sql"),
    include_str!("migrations/0009_queue_order.sql"),
    include_str!("migrations/0010_unique.sql"),
    include_str!("migrations/0011_schedules.sql"),
    include_str!("migrations/0012_labels.sql"),
    include_str!("migrations/0013_concurrency_groups.sql"),
    include_str!("migrations/0014_confirmed.sql"),
];

/// The version of the schema after all of them.
pub(crate) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// "Long" and "haul" in ASCII: the lock that all migrations of a database take, whichever their schema.
const LOCK: i64 = 0x4c6f_6e67_6861_756c;

/// How long a step waits for a table, in milliseconds, before all of them are tried again.
const LOCK_TIMEOUT: u64 = 1_000;
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// With every nth try the log says who is waited for.
const SAY_EVERY: u32 = 15;

/// Says which session keeps the schema from being brought to the present version.
async fn say_who(connections: &Connections) {
    let found = async {
        let connection = connections.get().await?;
        let found = locks::holder(&connection, &connections.schema, true).await;
        connection.settle(found)
    };
    let who = found.await.ok().flatten();
    let who = who.unwrap_or_else(|| "a session that this role cannot see".to_owned());
    tracing::warn!(
        "the tables in the database must be brought to a later version, and are in use; trying again. They are used by {who}"
    );
}

/// Creates the schema, or brings it to the present version. Nodes that start together do it one after the other.
pub(crate) async fn migrate(connections: &Connections, options: &PostgresOptions) -> Result<(), PostgresOpenError> {
    let mut retries = Retries::default();
    let mut waits = 0_u32;
    loop {
        match migrate_once(connections, options).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(refused)) => return Err(refused),
            Err(Fault::Refused(StoreError::Locked)) => {
                if waits.is_multiple_of(SAY_EVERY) {
                    say_who(connections).await;
                }
                waits += 1;
                pause(AGAIN_AFTER).await;
            }
            Err(fault) => retries.wait(fault).await?,
        }
    }
}

async fn migrate_once(
    connections: &Connections,
    options: &PostgresOptions,
) -> Result<Result<(), PostgresOpenError>, Fault> {
    let mut connection = connections.get().await?;
    match inspection::look(&connection, options, KNOWN).await? {
        Ok(report) => report.warnings.iter().for_each(|warning| tracing::warn!("{warning}")),
        Err(refused) => return Ok(Err(refused)),
    }
    let tx = connection.begin().answered_within(None);
    // Of the transaction, so that it also works behind a pooler. Waits for another node's migration, as long as that takes.
    tx.run("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        .await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    // Whoever waits for a table that another transaction uses makes all that come later wait, too.
    tx.run(&format!("SET LOCAL lock_timeout = {LOCK_TIMEOUT}")).await?;
    let found = version(&tx, &options.schema).await?;
    if found > KNOWN {
        let schema = options.schema.clone();
        return Ok(Err(PostgresOpenError::NewerSchema {
            schema,
            found,
            known: KNOWN,
        }));
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
    let (has_schema, has_tables) = inspection::exist(tx, schema).await?;
    if !has_schema {
        tx.run(&format!("CREATE SCHEMA {}", quoted(schema))).await?;
    }
    if !has_tables {
        // Not asked of a role that may use the tables and create none.
        tx.run("CREATE TABLE schema_version (version bigint NOT NULL)").await?;
    }
    let row = tx.row("SELECT version FROM schema_version", &[]).await?;
    if let Some(row) = row {
        return Ok(row.get(0));
    }
    tx.run("INSERT INTO schema_version (version) VALUES (0)").await?;
    Ok(0)
}
