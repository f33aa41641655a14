//! What a data directory is like while no server runs on it.

use super::{
    DATABASE, Disagreement, RelocationRecord, SqliteOpenError, connection, directory, directory::NodeFile, read,
    relocation, schema,
};
use longhaul_core::store::Counts;
use rusqlite::Connection;
use std::{io, path::Path};

/// Damages that are reported.
const REPORTED: usize = 5;

/// What a data directory is like, as a start of a server would find it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryReport {
    /// The live tasks and calls by state. Unknown for a database of an earlier release, which the next start brings to this one.
    pub live: Option<Counts>,
    /// What SQLite finds damaged, at most five lines; empty if nothing is.
    pub damages: Vec<String>,
    /// Why the database is not taken for the latest one of its directory; `None` too for a database of an earlier release.
    pub disagreement: Option<Disagreement>,
    /// Where the tasks were moved to, or are being moved.
    pub relocation: Option<RelocationRecord>,
}

impl DirectoryReport {
    /// Looks at `directory`; `None` if no server has run on it. It changes nothing, and a server may start meanwhile. Blocks: it reads the whole database.
    ///
    /// # Errors
    /// [`SqliteOpenError`], which a start of a server would meet, too.
    pub fn of(directory: &Path) -> Result<Option<Self>, SqliteOpenError> {
        // As when it is opened: a link in the path is followed, but not one in place of the file.
        let Ok(directory) = directory.canonicalize() else {
            return Ok(None);
        };
        let path = directory.join(DATABASE);
        if !path.exists() {
            return Ok(None);
        }
        let connection = connection::reader(&path)?;
        let version = schema::version(&connection, &path)?;
        if version == 0 {
            return Ok(None);
        }
        if version > schema::VERSION {
            return Err(SqliteOpenError::NewerSchema {
                path,
                found: version,
                known: schema::VERSION,
            });
        }
        let failed = |error| schema::because(error, &path);
        let damages = damages(&connection).map_err(failed)?;
        let mut report = Self {
            live: None,
            damages,
            disagreement: None,
            relocation: None,
        };
        if version == schema::VERSION {
            report.live = Some(read::counts(&connection).map_err(failed)?);
            let latest = read::latest_node(&connection).map_err(failed)?;
            report.disagreement = NodeFile::of(directory).disagreement(latest)?;
            report.relocation = relocation::read_record(&connection).map_err(failed)?;
        }
        Ok(Some(report))
    }

    /// What the process that owns `directory` wrote about itself, such as `pid 123, http://127.0.0.1:7411/mcp`; `None` if no process does.
    ///
    /// # Errors
    /// The directory cannot be opened or locked.
    pub fn owner(directory: &Path) -> io::Result<Option<String>> {
        directory::owner(directory)
    }
}

/// What SQLite finds damaged.
fn damages(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut pragma = connection.prepare(&format!("PRAGMA quick_check({REPORTED})"))?;
    let lines = pragma.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<String> = lines.collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqliteOptions, SqliteStore};

    #[test]
    fn a_directory_says_who_owns_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(DirectoryReport::of(path).unwrap(), None, "no server has run on it");
        let store = SqliteStore::open(path, SqliteOptions::default()).unwrap();
        let owner = DirectoryReport::owner(path).unwrap().unwrap();
        assert!(owner.contains(&format!("pid {}", std::process::id())), "{owner}");
        drop(store);
        assert_eq!(DirectoryReport::owner(path).unwrap(), None);
        let lock = std::fs::File::open(path.join("lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let owner = DirectoryReport::owner(path).unwrap().unwrap();
        assert!(owner.contains("a program that is no server"), "{owner}");
        drop(lock);
        let report = DirectoryReport::of(path).unwrap().unwrap();
        assert_eq!((report.live, report.damages), (Some(Counts::default()), Vec::new()));
    }
}
