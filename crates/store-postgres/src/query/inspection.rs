//! What is found in a database before it is used: its version, the schema, and what the role may do.

use crate::{
    PostgresOpenError, PostgresOptions,
    connection::{Connections, quoted},
    statement::{Connection, Execute, Fault, PostgresRow, Tx, encode, row},
};
use longhaul_core::Principal;
use longhaul_store::task_row::Row as _;

/// The first version that is supported.
const OLDEST: i64 = 140_000;

/// The settings that matter, and what the role may do; the last columns are of the table `schema_version`, if the schema has one.
const LOOK: &str = "SELECT current_setting('server_version'), current_setting('server_version_num')::bigint, current_user::text, current_database()::text, \
         current_setting('fsync'), current_setting('full_page_writes'), has_database_privilege(current_database(), 'CREATE'), \
         has_schema_privilege(spaces.oid, 'USAGE'), has_schema_privilege(spaces.oid, 'CREATE'), \
         pg_get_userbyid(tables.relowner)::text, pg_has_role(tables.relowner, 'USAGE'), \
         (SELECT bool_and(has_table_privilege(every.oid, 'SELECT') AND has_table_privilege(every.oid, 'INSERT') \
             AND has_table_privilege(every.oid, 'UPDATE') AND has_table_privilege(every.oid, 'DELETE')) \
             FROM pg_class AS every WHERE every.relnamespace = spaces.oid AND every.relkind = 'r'), \
         (SELECT count(*) FROM pg_stat_replication WHERE current_setting('synchronous_standby_names') = ''), \
         current_setting('server_encoding') \
     FROM (SELECT 1) AS one LEFT JOIN pg_namespace AS spaces ON spaces.nspname = $1 \
     LEFT JOIN pg_class AS tables ON tables.relnamespace = spaces.oid AND tables.relname = 'schema_version'";
const VERSION: &str = "SELECT version FROM schema_version";

/// What a PostgreSQL database is like, as a server would find it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseReport {
    /// The version of the PostgreSQL server, such as `15.4`.
    pub server_version: String,
    /// The version of the schema; `None` if the first start makes it.
    pub schema_version: Option<i64>,
    /// The version to which a start brings the schema.
    pub known_version: i64,
    /// Settings with which acknowledged changes can be lost.
    pub warnings: Vec<String>,
}

/// Finds out what the database is like. Changes nothing.
pub(crate) async fn inspect(
    connections: &Connections,
    options: &PostgresOptions,
    known: i64,
) -> Result<DatabaseReport, PostgresOpenError> {
    let connection = connections.get().await?;
    look(&connection, options, known).await?
}

/// Whether there are tasks of a principal.
pub(crate) async fn has_tasks_of(connections: &Connections, principal: &Principal) -> Result<bool, PostgresOpenError> {
    const HAS_TABLE: &str = "SELECT to_regclass('tasks') IS NOT NULL";
    const HAS_TASKS: &str = "SELECT EXISTS (SELECT 1 FROM tasks WHERE principal = $1)";
    let connection = connections.get().await?;
    let is_true = |row: Option<tokio_postgres::Row>| row.is_some_and(|row| row.get(0));
    if !is_true(connection.row(HAS_TABLE, &[]).await?) {
        return Ok(false);
    }
    Ok(is_true(
        connection.row(HAS_TASKS, &[&encode(principal.as_str())]).await?,
    ))
}

/// Whether the database answers through a pooler.
pub(crate) async fn reach(pooled: &Connections) -> Result<(), PostgresOpenError> {
    let connection = pooled.get().await?;
    let answer = connection.row("SELECT 1", &[]).await;
    connection.settle(answer)?;
    Ok(())
}

/// The same on a connection. `known` is the version to which a start brings the schema. The inner error says what keeps a server from using the database.
pub(crate) async fn look(
    connection: &Connection,
    options: &PostgresOptions,
    known: i64,
) -> Result<Result<DatabaseReport, PostgresOpenError>, Fault> {
    let schema = &options.schema;
    let found = connection.row(LOOK, &[schema]).await?;
    let Some(found) = found else {
        return Err(Fault::Outage("the database says nothing of itself".to_owned()));
    };
    let text = |at| row::text(&found, at);
    let may = |at| Ok::<_, Fault>(PostgresRow(&found).integer(at)?.map(|may| may == 1));
    let server_version = text(0)?.to_string();
    if row::number(&found, 1)? < OLDEST {
        return Ok(Err(PostgresOpenError::OldServer(server_version)));
    }
    let encoding = text(13)?;
    if *encoding != *"UTF8" {
        return Ok(Err(PostgresOpenError::Encoding(encoding.to_string())));
    }
    let (role, database) = (quoted(&text(2)?), text(3)?);
    let (space, has_tables) = (quoted(schema), may(10)?.is_some());
    let refused = |what: String, remedy: String| Ok(Err(PostgresOpenError::Rights { what, remedy }));
    match (may(7)?, may(6)?) {
        (None, Some(true)) | (Some(true), _) => {}
        (None, _) => {
            return refused(
                format!("the role {role} may not create the schema {space} in the database `{database}`"),
                format!("CREATE SCHEMA {space} AUTHORIZATION {role}"),
            );
        }
        (Some(false), _) => {
            return refused(
                format!("the role {role} may not use the schema {space}"),
                format!("GRANT USAGE, CREATE ON SCHEMA {space} TO {role}"),
            );
        }
    }
    if has_tables && may(11)? != Some(true) {
        return refused(
            format!(
                "the role {role} may not use the tables of the schema {space}, which belong to `{}`",
                text(9)?
            ),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {space} TO {role}"),
        );
    }
    let schema_version = match has_tables {
        true => connection
            .row(VERSION, &[])
            .await?
            .map(|row| row::number(&row, 0))
            .transpose()?,
        false => None,
    };
    if let Some(found) = schema_version.filter(|found| *found > known) {
        let schema = schema.clone();
        return Ok(Err(PostgresOpenError::NewerSchema { schema, found, known }));
    }
    let is_present = schema_version.is_some_and(|version| version >= known);
    if !is_present && may(8)? == Some(false) {
        return refused(
            format!("the role {role} may not create tables in the schema {space}"),
            format!("GRANT CREATE ON SCHEMA {space} TO {role}"),
        );
    }
    if !is_present && may(10)? == Some(false) {
        return refused(
            format!(
                "the tables of the schema {space} must be brought to a later version, and the role {role} is not their owner"
            ),
            format!("GRANT \"{}\" TO {role}", text(9)?),
        );
    }
    let mut warnings = Vec::new();
    for (at, setting) in [(4, "fsync"), (5, "full_page_writes")] {
        if *text(at)? == *"off" {
            warnings.push(format!(
                "the database has `{setting} = off`: what it has acknowledged is lost when its machine crashes"
            ));
        }
    }
    if row::number(&found, 12)? > 0 {
        warnings.push(
            "the database has standbys, and none of them is synchronous (`synchronous_standby_names`): what it has acknowledged last may be lost in a failover"
                .to_owned(),
        );
    }
    Ok(Ok(DatabaseReport {
        server_version,
        schema_version,
        known_version: known,
        warnings,
    }))
}

/// Whether the schema, and the table with its version, are there.
pub(crate) async fn exist(tx: &Tx<'_>, schema: &str) -> Result<(bool, bool), Fault> {
    const EXIST: &str = "SELECT spaces.oid IS NOT NULL, tables.oid IS NOT NULL FROM (SELECT 1) AS one LEFT JOIN pg_namespace AS spaces ON spaces.nspname = $1 \
         LEFT JOIN pg_class AS tables ON tables.relnamespace = spaces.oid AND tables.relname = 'schema_version'";
    let found = tx.row(EXIST, &[&schema]).await?;
    Ok(found.map_or((false, false), |row| (row.get(0), row.get(1))))
}
