//! The file `node`: which start of a server was the latest on this directory, and how often that server has removed attempt folders since.
//! It is kept apart from the database.
//!
//! A database that was restored from a backup knows tasks as they were: what it calls queued or running may have run since. The folder of an
//! attempt shows that it ran, unless retention has removed it. The database cannot show that it is old, so each start, and each removal of
//! folders, is recorded in this file too. The two are compared when the directory is opened.
//!
//! | step of a start | the file | the database |
//! | --- | --- | --- |
//! | before | `latest 7` | start 7 |
//! | 1. the file is replaced, synced | `latest 7`, `opening 8` | start 7 |
//! | 2. the database commits, synced | `latest 7`, `opening 8` | start 8 |
//! | 3. the file is replaced, synced | `latest 8` | start 8 |
//!
//! | step of a removal | the file | the database |
//! | --- | --- | --- |
//! | before | `latest 8`, `removals 2` | start 8, removals 2 |
//! | 1. the database commits, synced | `latest 8`, `removals 2` | start 8, removals 3 |
//! | 2. the file is replaced, synced | `latest 8`, `removals 3` | start 8, removals 3 |
//! | 3. folders are removed | | |
//!
//! A process that dies before the last step of a start has begun no work, and one that dies before the last step of a removal has removed
//! nothing. So the file agrees with the database at each step, and also with a database that is one removal ahead of it. The removals of a
//! start begin at 0; while there are none, the file is as earlier releases wrote it.
//!
//! A directory that was restored as a whole agrees with itself. So whoever restores it adds `restored` to the file, with the time of the backup, and the
//! first step of a start removes it.

use crate::sqlite::SqliteOpenError;
use longhaul_core::{NodeId, UnixMillis, push_timestamp};
use longhaul_private_dir::{PrivateDir, open_file, read_file};
#[cfg(target_os = "linux")]
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const NAME: &str = "node";
const DRAFT: &str = "node.draft";

/// Why the database and the rest of the data directory are not of the same time, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// The database was restored, or removed, or has lost its log.
    #[error(
        "the database is older than the data directory: it knows {database} starts of a server, and the file `node` beside it {file}. It was \
         restored from a backup, or it was removed, or it lost its write-ahead log. What it calls queued or running may have run since"
    )]
    DatabaseOlder {
        /// The latest start in the file.
        file: i64,
        /// The latest start in the database.
        database: i64,
    },
    /// The database was restored from a backup that was taken since the latest start.
    #[error(
        "the database is older than the data directory: since the latest start of a server, attempt folders were removed {database} times by what \
         it knows, and {file} times by the file `node` beside it. It was restored from a backup. What it calls queued or running may have run since"
    )]
    DatabaseOlderThanRemovals {
        /// The removals in the file.
        file: i64,
        /// The removals in the database.
        database: i64,
    },
    /// The rest of the directory was restored to a copy that was taken since the latest start.
    #[error(
        "the data directory is older than its database: since the latest start of a server, attempt folders were removed {file} times by the file \
         `node`, and {database} times by what the database knows. It, and the folders of attempts with it, was restored from a backup. What ran \
         since is not in them"
    )]
    FileOlderThanRemovals {
        /// The removals in the file.
        file: i64,
        /// The removals in the database.
        database: i64,
    },
    /// The rest of the directory was restored.
    #[error(
        "the data directory is older than its database: the file `node` knows {file} starts of a server, and the database {database}. It, and the \
         folders of attempts with it, was restored from a backup. What ran since is not in them"
    )]
    FileOlder {
        /// The latest start in the file.
        file: i64,
        /// The latest start in the database.
        database: i64,
    },
    /// The database is alone.
    #[error(
        "the file `node` beside the database is missing: the database was restored, or copied here, alone. What it calls queued or running may have \
         run since, and the folders of attempts would say so"
    )]
    FileMissing,
    /// `longhaul restore` made the directory, or what else restores a backup of it.
    #[error(
        "the data directory was restored from a backup that was taken on {}. What it calls queued or waiting may have run since, on the server that \
         the backup was taken of",
        time(*.taken)
    )]
    Restored {
        /// When the backup was taken.
        taken: UnixMillis,
    },
    /// The file cannot be parsed.
    #[error(
        "the file `node` beside the database cannot be read, so it is unknown whether the database is the latest one"
    )]
    FileDamaged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeFileContents {
    latest: i64,
    /// How often the latest start has removed folders.
    removals: i64,
    /// The start that was under way.
    opening: Option<i64>,
    /// The directory was restored, and no start was made on it since: when the backup was taken, in milliseconds.
    restored: Option<i64>,
}

/// The latest start in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LatestNode {
    pub(crate) id: i64,
    /// Whether it was recorded in the file; earlier releases had no such file.
    pub(crate) noted: bool,
    /// How often it has removed folders of attempts.
    pub(crate) removals: i64,
}

/// The file in a directory.
#[derive(Debug, Clone)]
pub(crate) struct NodeFile {
    directory: PathBuf,
}

impl NodeFile {
    pub(crate) fn in_directory(dir: &PrivateDir) -> Self {
        Self::of(dir.path().to_owned())
    }

    /// That of a directory which this process need not own.
    pub(crate) fn of(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Why the file and the database are not of the same time, if they are not.
    pub(crate) fn disagreement(&self, database: LatestNode) -> Result<Option<Disagreement>, SqliteOpenError> {
        let noted = self.read().map_err(|source| SqliteOpenError::Io {
            action: "use",
            path: self.directory.join(NAME),
            source,
        })?;
        Ok(compare(noted, database).err())
    }

    /// Step 1 of a start. Returns its number, which is greater than every number in the file and in the database.
    pub(crate) fn note_opening(&self, database: LatestNode) -> io::Result<NodeId> {
        let noted = self.read()?.and_then(Result::ok);
        let highest = noted.map_or(0, |noted| noted.latest.max(noted.opening.unwrap_or(0)));
        let opening = highest.max(database.id) + 1;
        self.replace(NodeFileContents {
            latest: database.id,
            removals: database.removals,
            opening: Some(opening),
            restored: None,
        })?;
        Ok(NodeId(opening))
    }

    /// Step 3 of a start, and step 2 of its removals.
    pub(crate) fn note_opened(&self, node: NodeId, removals: i64) -> io::Result<()> {
        self.replace(NodeFileContents {
            latest: node.0,
            removals,
            opening: None,
            restored: None,
        })
    }

    /// Records that all of the directory, the latest start included, comes from a backup. The next start is to accept that, and removes the record.
    pub(crate) fn note_restored(&self, node: NodeId, removals: i64, taken: UnixMillis) -> io::Result<()> {
        self.replace(NodeFileContents {
            latest: node.0,
            removals,
            opening: None,
            restored: Some(taken.0),
        })
    }

    /// The parsed file; `None` if there is none.
    fn read(&self) -> io::Result<Option<Result<NodeFileContents, Disagreement>>> {
        match read_file(&self.directory.join(NAME)) {
            Ok(bytes) => Ok(Some(parse(&bytes).ok_or(Disagreement::FileDamaged))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whole or not at all, and on disk.
    fn replace(&self, noted: NodeFileContents) -> io::Result<()> {
        let draft = self.directory.join(DRAFT);
        let mut file = open_file(&draft, OpenOptions::new().write(true).create(true).mode(0o600))?;
        file.set_len(0)?;
        file.write_all(noted.to_string().as_bytes())?;
        file.sync_all()?;
        put_in_place(&draft, &self.directory.join(NAME))?;
        fs::File::open(&self.directory)?.sync_all()
    }
}

/// What was there becomes the next draft, where the system can do that: a start and a deletion need no inode then, which the disk may not have.
fn put_in_place(draft: &Path, path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if renameat_with(CWD, draft, CWD, path, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    fs::rename(draft, path)
}

impl fmt::Display for NodeFileContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "latest {}", self.latest)?;
        if self.removals > 0 {
            writeln!(f, "removals {}", self.removals)?;
        }
        if let Some(opening) = self.opening {
            writeln!(f, "opening {opening}")?;
        }
        match self.restored {
            Some(restored) => writeln!(f, "restored {restored}"),
            None => Ok(()),
        }
    }
}

fn time(at: UnixMillis) -> String {
    let mut text = String::new();
    push_timestamp(&mut text, at);
    text
}

fn parse(bytes: &[u8]) -> Option<NodeFileContents> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.strip_suffix('\n')?.split('\n').peekable();
    let mut number = |name: &str| {
        let number = lines
            .peek()?
            .strip_prefix(name)?
            .strip_prefix(' ')?
            .parse::<i64>()
            .ok()?;
        lines.next();
        Some(number)
    };
    let noted = NodeFileContents {
        latest: number("latest")?,
        removals: number("removals").unwrap_or(0),
        opening: number("opening"),
        restored: number("restored"),
    };
    lines.next().is_none().then_some(noted)
}

/// Whether the file and the database are of the same time.
fn compare(file: Option<Result<NodeFileContents, Disagreement>>, database: LatestNode) -> Result<(), Disagreement> {
    let noted = match file {
        Some(noted) => noted?,
        None if database.noted => return Err(Disagreement::FileMissing),
        // Fresh, or of a release that had no such file.
        None => return Ok(()),
    };
    if let Some(taken) = noted.restored {
        let taken = UnixMillis(taken);
        return Err(Disagreement::Restored { taken });
    }
    if Some(database.id) == noted.opening {
        return Ok(());
    }
    if database.id == noted.latest {
        let (file, database) = (noted.removals, database.removals);
        return match database - file {
            0 | 1 => Ok(()),
            ..0 => Err(Disagreement::DatabaseOlderThanRemovals { file, database }),
            2.. => Err(Disagreement::FileOlderThanRemovals { file, database }),
        };
    }
    let (file, database) = (noted.latest, database.id);
    Err(if database < file {
        Disagreement::DatabaseOlder { file, database }
    } else {
        Disagreement::FileOlder { file, database }
    })
}

#[cfg(test)]
mod tests;
