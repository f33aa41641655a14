//! The numbered, forward-only steps from an empty file to the present schema.

use super::OpenError;
use rusqlite::{Connection, Error, ErrorCode, TransactionBehavior};
use std::path::Path;

/// "Long" in ASCII: says whose file this is (`PRAGMA application_id`).
const APPLICATION_ID: i64 = 0x4c6f_6e67;

/// Step n brings a file from version n to n + 1. Steps are only ever added.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_tasks.sql")];

/// Brings the file up to date, or says why it cannot be used.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    migrate_with(connection, path, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), OpenError> {
    let failed = |error| because(error, path);
    let found = version(connection, path)?;
    for (version, step) in (1_i64..).zip(steps).skip(found) {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        transaction.execute_batch(step).map_err(failed)?;
        transaction
            .pragma_update(None, "user_version", version)
            .and_then(|()| transaction.pragma_update(None, "application_id", APPLICATION_ID))
            .and_then(|()| transaction.commit())
            .map_err(failed)?;
    }
    if found > steps.len() {
        return Err(OpenError::NewerSchema {
            path: path.to_owned(),
            found,
            known: steps.len(),
        });
    }
    Ok(())
}

/// How many steps the file has gone through; 0 for an empty one.
fn version(connection: &Connection, path: &Path) -> Result<usize, OpenError> {
    let number = |sql: &str| -> Result<i64, OpenError> {
        connection
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| because(error, path))
    };
    let version = number("PRAGMA user_version")?;
    let ours = number("PRAGMA application_id")? == APPLICATION_ID;
    let empty = version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0;
    match usize::try_from(version) {
        Ok(version) if ours || empty => Ok(version),
        _ => Err(OpenError::NotOurs { path: path.to_owned() }),
    }
}

/// SQLite's reasons that mean "this file is broken", in plain words.
pub(super) fn because(error: Error, path: &Path) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Corrupt {
            path: path.to_owned(),
            detail: error.to_string(),
        },
        _ => OpenError::Sqlite {
            path: path.to_owned(),
            source: error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn dump(connection: &Connection) -> Vec<String> {
        let mut statement = connection
            .prepare("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name")
            .unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn every_earlier_version_arrives_at_the_present_schema() {
        let mut fresh = memory();
        migrate(&mut fresh, Path::new("fresh")).unwrap();
        for released in 0..=MIGRATIONS.len() {
            let mut old = memory();
            migrate_with(&mut old, Path::new("old"), &MIGRATIONS[..released]).unwrap();
            migrate(&mut old, Path::new("old")).unwrap();
            assert_eq!(dump(&old), dump(&fresh), "from version {released}");
        }
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let mut newer = memory();
        let steps = [MIGRATIONS, &["CREATE TABLE tomorrow (x)"]].concat();
        migrate_with(&mut newer, Path::new("newer"), &steps).unwrap();
        let refused = migrate(&mut newer, Path::new("newer")).unwrap_err();
        assert!(matches!(refused, OpenError::NewerSchema { found, known, .. } if found == known + 1));
    }

    #[test]
    fn a_stranger_is_not_migrated() {
        let mut stranger = memory();
        stranger.execute_batch("CREATE TABLE theirs (x)").unwrap();
        let refused = migrate(&mut stranger, Path::new("stranger")).unwrap_err();
        assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
    }
}
