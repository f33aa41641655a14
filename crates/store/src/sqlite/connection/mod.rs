//! Opening connections, each with the settings of its use, and what their errors mean.

pub(super) mod fault;
pub(super) mod fault_injection;

pub(super) use fault::Fault;

use super::{InjectedFault, open_error::SqliteOpenError, schema};
use longhaul_private_dir::check_named;
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{path::Path, time::Duration};

/// How long a connection waits for a lock that is not ours, such as an operator's `sqlite3` shell.
pub(super) const BUSY: Duration = Duration::from_secs(5);
/// The writer keeps the right-hand edges of all trees in its cache. KiB.
const WRITER_CACHE: i64 = 8 * 1024;
/// A reader keeps the upper pages of the trees it descends. KiB.
const READER_CACHE: i64 = 4 * 1024;
/// A log that once grew larger is cut back to this. Bytes.
const LOG_KEPT: i64 = 64 << 20;
/// Statements kept prepared. An update is prepared once for each set of columns it changes, and in practice there are few.
const STATEMENTS: usize = 128;

/// The one connection that writes; brings the file up to date.
pub(super) fn writer(path: &Path, injected_fault: Option<InjectedFault>) -> Result<Connection, SqliteOpenError> {
    let mut connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    match set_up(&mut connection, path, injected_fault) {
        Ok(()) => Ok(connection),
        Err(error) => Err(fault::name_refused_write(error, &connection)),
    }
}

fn set_up(
    connection: &mut Connection,
    path: &Path,
    injected_fault: Option<InjectedFault>,
) -> Result<(), SqliteOpenError> {
    let set = |connection: &Connection| {
        // Checkpoints are the writer's own, so that their errors are seen (see `writer`).
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {}; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
             PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {LOG_KEPT}; PRAGMA cache_size = -{WRITER_CACHE};
             PRAGMA temp_store = MEMORY;",
            InjectedFault::synchronous(injected_fault)
        ))
    };
    set(connection)
        .and_then(|()| overwrite_deleted(connection, false))
        .map_err(|error| schema::because(error, path))?;
    schema::migrate(connection, path)?;
    // Query plans must not depend on statistics (`ANALYZE`) that were taken when the file was smaller.
    connection
        .execute_batch("DROP TABLE IF EXISTS sqlite_stat1; DROP TABLE IF EXISTS sqlite_stat4;")
        .map_err(|error| schema::because(error, path))
}

/// From now on, what this connection deletes is overwritten with zeros; or only as far as that writes no further pages.
pub(super) fn overwrite_deleted(connection: &Connection, everywhere: bool) -> rusqlite::Result<()> {
    let mut pragma = connection.prepare_cached(match everywhere {
        true => "PRAGMA secure_delete = ON",
        false => "PRAGMA secure_delete = FAST",
    })?;
    pragma.query_row([], |_| Ok(()))
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, SqliteOpenError> {
    // SQLite would wait for the other end of a FIFO. A descriptor of our own would take its locks away when it is closed.
    check_named(path).map_err(|source| SqliteOpenError::Io {
        action: "use",
        path: path.to_owned(),
        source,
    })?;
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection
        .execute_batch(&format!(
            "PRAGMA cache_size = -{READER_CACHE}; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;"
        ))
        .map_err(|error| schema::because(error, path))?;
    Ok(connection)
}

fn open(path: &Path, access: OpenFlags) -> Result<Connection, SqliteOpenError> {
    // Its path has no link in it: the data directory's was resolved.
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connect = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        // Without it SQLite prepares a statement again at each use, in case a bound value makes a partial index usable.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(connection)
    };
    connect().map_err(|error| schema::because(error, path))
}
