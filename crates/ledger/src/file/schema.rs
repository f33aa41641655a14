//! The numbered, forward-only steps from an empty file to the present schema.

use crate::refusal::because;
use longhaul_client::JournalError;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::Path;

/// "LngC" in ASCII: identifies the file as a client journal (`PRAGMA application_id`).
const APPLICATION_ID: i64 = 0x4c6e_6743;

/// Step n brings a file from version n to n + 1. Steps are only ever added.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_calls.sql"),
    include_str!("../migrations/0002_server_requests.sql"),
    include_str!("../migrations/0003_call_questions.sql"),
    include_str!("../migrations/0004_call_cancellation.sql"),
    include_str!("../migrations/0005_login.sql"),
    include_str!("../migrations/0006_batches.sql"),
];

/// Checks that the file is an empty one or a client journal of a known version. Changes nothing.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    present_version(connection, path).map(drop)
}

/// The same inside a transaction.
pub(crate) fn check_in(transaction: &Transaction<'_>, path: &Path) -> Result<(), JournalError> {
    version(transaction, path).map(drop)
}

/// Brings the file up to date. Several processes may do so at once.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), JournalError> {
    if present_version(connection, path)? == MIGRATIONS.len() {
        return Ok(());
    }
    let failed = |error| because(&error, path);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let latest = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    // Again, because another process may have been here since.
    for step in &MIGRATIONS[version(&transaction, path)?..] {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction
        .pragma_update(None, "user_version", latest)
        .and_then(|()| transaction.pragma_update(None, "application_id", APPLICATION_ID))
        .and_then(|()| transaction.commit())
        .map_err(failed)
}

/// The version at one moment: another process may be creating the schema.
fn present_version(connection: &Connection, path: &Path) -> Result<usize, JournalError> {
    let failed = |error| because(&error, path);
    let snapshot = connection.unchecked_transaction().map_err(failed)?;
    let version = version(&snapshot, path)?;
    snapshot.commit().map_err(failed)?;
    Ok(version)
}

/// How many steps the file has gone through; 0 for an empty one.
fn version(transaction: &Transaction<'_>, path: &Path) -> Result<usize, JournalError> {
    let number = |sql: &str| -> Result<i64, JournalError> {
        let read = transaction
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        read.map_err(|error| because(&error, path))
    };
    let found = number("PRAGMA user_version")?;
    let ours = number("PRAGMA application_id")? == APPLICATION_ID;
    let empty = found == 0 && !ours && number("SELECT count(*) FROM sqlite_schema")? == 0;
    match usize::try_from(found) {
        Ok(0) if empty => Ok(0),
        Ok(found) if ours && found <= MIGRATIONS.len() => Ok(found),
        Ok(found) if ours => Err(JournalError::NewerVersion {
            path: path.to_owned(),
            found,
            known: MIGRATIONS.len(),
        }),
        _ => Err(JournalError::Unusable {
            path: path.to_owned(),
            reason: "it is a database of another program; move it away to begin with an empty journal".to_owned(),
        }),
    }
}
