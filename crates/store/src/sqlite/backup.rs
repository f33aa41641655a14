//! A copy of the whole store while it is in use.

use super::{DATABASE, Fault, SqliteOpenError, connection, schema};
use longhaul_core::{
    TaskId,
    store::{Counts, StoreError},
};
use longhaul_private_dir::open_file;
use rusqlite::{Connection, params};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Task ids that are read at once.
const PAGE: usize = 1_000;

/// Why a database cannot be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// There is none.
    #[error("there is no database in {}: no server has run on this data directory", path.display())]
    Missing {
        /// The data directory.
        path: PathBuf,
    },
    /// It is not known whether there is one.
    #[error("cannot look for a database in {}: {source}", path.display())]
    Unknown {
        /// The data directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The disk of the copy is full. Nothing is left of it.
    #[error("there is no room for the copy of the database, {}", path.display())]
    NoRoom {
        /// The copy.
        path: PathBuf,
    },
    /// The copy cannot be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be read.
    #[error(transparent)]
    Open(#[from] SqliteOpenError),
}

/// A copy of the database of a data directory, as it was at one moment, in a file of its own.
///
/// It needs no lock of the directory: a server may run on it, or start or stop meanwhile.
pub struct DatabaseCopy {
    path: PathBuf,
    connection: Connection,
}

impl DatabaseCopy {
    /// The schema version that this release writes. It reads all earlier ones, and no later one.
    pub const SCHEMA_VERSION: usize = schema::VERSION;

    /// Copies the database of `directory` to the new file `to`. Blocks for as long as it takes to write it.
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn make(directory: &Path, to: &Path) -> Result<Self, CopyError> {
        // As when it is opened: a link in the path is followed, but not one in place of the file.
        let missing = || CopyError::Missing {
            path: directory.to_owned(),
        };
        let absent = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => missing(),
            _ => CopyError::Unknown {
                path: directory.to_owned(),
                source,
            },
        };
        let from = directory.canonicalize().map_err(absent)?.join(DATABASE);
        fs::metadata(&from).map_err(absent)?;
        // A database of another program, or of a later release, is told from ours before it is copied.
        let source = connection::reader(&from)?;
        if schema::version(&source, &from)? == 0 {
            return Err(missing());
        }
        drop(source);
        copy(&from, to).map_err(|error| match error {
            StoreError::Full => CopyError::NoRoom { path: to.to_owned() },
            error => error.into(),
        })?;
        Ok(Self {
            path: to.to_owned(),
            connection: connection::reader(to)?,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The schema version of the release that wrote it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn schema_version(&self) -> Result<usize, CopyError> {
        Ok(schema::version(&self.connection, &self.path)?)
    }

    /// How many tasks and calls it has: the live ones by state, and those that have ended.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn counts(&self) -> Result<(Counts, u64), CopyError> {
        let sql = "SELECT count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), \
                   count(*) FILTER (WHERE state = -1), count(*) FILTER (WHERE state > 2) FROM tasks";
        let row = self.connection.query_row(sql, [], |row| {
            let count = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            let live = Counts {
                queued: count(0)?,
                running: count(1)?,
                suspended: count(2)?,
                blocked: count(3)?,
            };
            Ok((live, count(4)?))
        });
        row.map_err(|error| self.unreadable(error))
    }

    /// Calls `each` with the ids of all its tasks, in their order.
    ///
    /// # Errors
    /// The first of `each`, and when it cannot be read.
    pub fn for_each_task<E: From<CopyError>>(&self, mut each: impl FnMut(&TaskId) -> Result<(), E>) -> Result<(), E> {
        let mut after = String::new();
        loop {
            let page = self.page(&after).map_err(|error| self.unreadable(error))?;
            for id in &page {
                if let Ok(id) = id.parse() {
                    each(&id)?;
                }
            }
            match page.into_iter().next_back() {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }

    fn page(&self, after: &str) -> rusqlite::Result<Vec<String>> {
        self.connection
            .prepare_cached("SELECT id FROM tasks WHERE id > ?1 ORDER BY id LIMIT ?2")?
            .query_map(params![after, PAGE as i64], |row| row.get(0))?
            .collect()
    }

    fn unreadable(&self, error: rusqlite::Error) -> CopyError {
        schema::because(error, &self.path).into()
    }
}

impl std::fmt::Debug for DatabaseCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseCopy")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Copies the database at `from`, as it is at one moment, to the new file `to`.
///
/// The copy is written beside `to`, and gets its name once it is whole and on disk. It holds one long read, during which the
/// write-ahead log of the original cannot start over.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let io = |error: io::Error| StoreError::Failed(format!("cannot write the backup {}: {error}", to.display()));
    if to.exists() {
        return Err(StoreError::Failed(format!("{} exists already", to.display())));
    }
    let partial = partial_name(to);
    private_file(&partial).map_err(io)?;
    let source = connection::reader(from).map_err(|error| StoreError::Failed(error.to_string()))?;
    let target = partial
        .to_str()
        .ok_or_else(|| StoreError::Failed("the backup's path is not UTF-8".to_owned()))?;
    let copied = source
        .execute("VACUUM INTO ?1", [target])
        .map_err(|error| Fault::from(error).to_store_error());
    let finished = copied.and_then(|_| finish(&partial, to).map_err(io));
    if finished.is_err() {
        let _ = fs::remove_file(&partial);
    }
    finished
}

fn partial_name(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Makes an empty file, because SQLite copies into no other existing file. One that an earlier copy has left is truncated.
fn private_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    open_file(path, &options)?.set_len(0)
}

fn finish(partial: &Path, to: &Path) -> io::Result<()> {
    File::open(partial)?.sync_all()?;
    fs::rename(partial, to)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
