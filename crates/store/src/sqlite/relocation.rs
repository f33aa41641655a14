//! Moving the tasks of a data directory into a database that servers share.
//!
//! | step of a move | the data directory | the shared database |
//! | --- | --- | --- |
//! | before | no move | – |
//! | 1. the move is recorded, synced | move 7, unfinished | – |
//! | 2. the copy is committed | move 7, unfinished | the tasks, and `move 7` |
//! | 3. the end is recorded, synced | move 7, finished | the tasks, and `move 7` |
//!
//! From the first step on no server starts on the tasks of the data directory, so no task runs in two places. After a crash the shared database says
//! whether the copy was committed. Releases that do not know the table `relocation` refuse the newer schema.

use super::{DATABASE, Disagreement, SqliteOpenError, connection, directory::Directory, read, schema};
use longhaul_core::{HostId, TaskId, UnixMillis};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};

/// That the tasks of a data directory are being moved, or have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelocationRecord {
    /// The move. The shared database has it too, once the copy is committed.
    pub id: String,
    /// Where the tasks go: the address of the database, without a password, and its schema.
    pub target: String,
    /// When it was known that the shared database has the tasks; `None` until then.
    pub finished_at: Option<UnixMillis>,
}

pub(super) fn read_record(connection: &Connection) -> rusqlite::Result<Option<RelocationRecord>> {
    connection
        .query_row("SELECT id, target, finished_at FROM relocation", [], |row| {
            Ok(RelocationRecord {
                id: row.get(0)?,
                target: row.get(1)?,
                finished_at: row.get::<_, Option<i64>>(2)?.map(UnixMillis),
            })
        })
        .optional()
}

/// Refuses a directory whose tasks were moved, unless they are used where they are now.
pub(super) fn check(
    record: Option<&RelocationRecord>,
    directory: &Path,
    used_there: bool,
) -> Result<(), SqliteOpenError> {
    match record {
        None => Ok(()),
        Some(record) if record.finished_at.is_none() => Err(SqliteOpenError::RelocationUnfinished {
            path: directory.to_owned(),
            target: record.target.clone(),
        }),
        Some(_) if used_there => Ok(()),
        Some(record) => Err(SqliteOpenError::Relocated {
            path: directory.to_owned(),
            target: record.target.clone(),
        }),
    }
}

/// Why the tasks of a data directory cannot be moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelocationError {
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] SqliteOpenError),
    /// No server has run on it.
    #[error("there is no database in {}: no server has run on this data directory", .0.display())]
    Missing(PathBuf),
    /// The database is not known to be the latest one, so what it calls queued or running may have run since.
    #[error(
        "{0}. If you accept that, start a server on it once with --accept-restored-database, and move the tasks afterwards"
    )]
    Restored(Disagreement),
    /// A move to another database has not come to its end.
    #[error("a move of the tasks to {0} was not finished: finish it, or abandon it, before you move them elsewhere")]
    OtherTarget(String),
    /// They are gone.
    #[error("the tasks were moved to {0} before")]
    Moved(String),
}

/// A data directory whose tasks are moved. Its lock is held until this is dropped.
pub struct Relocation {
    connection: Connection,
    path: PathBuf,
    host: HostId,
    target: String,
    record: Option<RelocationRecord>,
    /// Dropped last.
    _directory: Directory,
}

impl Relocation {
    /// Takes the directory, and finds out how far a move to `target` has come. Changes nothing but the schema's version. Blocks.
    ///
    /// # Errors
    /// [`RelocationError`].
    pub fn open(directory: &Path, target: &str) -> Result<Self, RelocationError> {
        if !directory.join(DATABASE).exists() {
            return Err(RelocationError::Missing(directory.to_owned()));
        }
        let owned = Directory::own(directory)?;
        let path = owned.database()?;
        let connection = connection::writer(&path, None)?;
        let failed = |error| schema::because(error, &path);
        let record = read_record(&connection).map_err(failed)?;
        match &record {
            Some(record) if record.target != target && record.finished_at.is_none() => {
                return Err(RelocationError::OtherTarget(record.target.clone()));
            }
            Some(record) if record.finished_at.is_some() => {
                return Err(RelocationError::Moved(record.target.clone()));
            }
            _ => {}
        }
        let latest = read::latest_node(&connection).map_err(failed)?;
        if let Some(why) = owned.node_file().disagreement(latest)? {
            return Err(RelocationError::Restored(why));
        }
        Ok(Self {
            connection,
            path,
            host: owned.host_id()?,
            target: target.to_owned(),
            record,
            _directory: owned,
        })
    }

    /// The move, if an earlier process has recorded it.
    pub fn id(&self) -> Option<&str> {
        self.record.as_ref().map(|record| &*record.id)
    }

    /// The id of this host.
    pub fn host_id(&self) -> &HostId {
        &self.host
    }

    /// The tasks whose commands may still run, or have ended without a server that recorded it.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn running_commands(&self) -> Result<Vec<TaskId>, SqliteOpenError> {
        const SQL: &str = "SELECT id FROM tasks WHERE attempt_state < 3 AND attempt_host IS NOT NULL ORDER BY id";
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare(SQL)?.query_map([], |row| row.get(0))?.collect()
        };
        let ids = read().map_err(|error| self.because(error))?;
        Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
    }

    /// How many tasks and calls there are.
    ///
    /// # Errors
    /// When they cannot be counted.
    pub fn count(&self) -> Result<u64, SqliteOpenError> {
        let count = self
            .connection
            .query_row("SELECT count(*) FROM tasks", [], |row| row.get::<_, i64>(0));
        Ok(count.map_err(|error| self.because(error))?.cast_unsigned())
    }

    /// Records the move: from now on no server starts on these tasks.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub fn begin(&mut self, id: &str) -> Result<(), SqliteOpenError> {
        let sql = "INSERT INTO relocation (one, id, target) VALUES (1, ?1, ?2)";
        self.write(sql, params![id, self.target])?;
        self.record = Some(RelocationRecord {
            id: id.to_owned(),
            target: self.target.clone(),
            finished_at: None,
        });
        Ok(())
    }

    /// Records that the shared database has the tasks.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub fn finish(&mut self, at: UnixMillis) -> Result<(), SqliteOpenError> {
        self.write("UPDATE relocation SET finished_at = ?1", params![at.0])
    }

    /// Records that there is no move. Only for a caller who knows that the shared database does not have the tasks.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub fn abandon(&mut self) -> Result<(), SqliteOpenError> {
        self.write("DELETE FROM relocation", [])?;
        self.record = None;
        Ok(())
    }

    /// The database, for reading what is moved.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn write(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), SqliteOpenError> {
        let written = self.connection.execute(sql, params);
        written.map(drop).map_err(|error| self.because(error))
    }

    /// An error of the database, in words.
    pub fn because(&self, error: rusqlite::Error) -> SqliteOpenError {
        schema::because(error, &self.path)
    }
}

impl std::fmt::Debug for Relocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relocation")
            .field("path", &self.path)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
