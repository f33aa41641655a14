//! Why a data directory cannot be opened, in words for the person who started the server.

use std::{io, path::PathBuf};

/// Why a data directory cannot be opened. Nothing in it was changed, except that it may have been created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteOpenError {
    /// An empty path names nothing.
    #[error("the data directory has no name: give its path, or `.` for the directory the process is in")]
    Unnamed,
    /// The file system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// Another process owns the directory.
    #[error("the data directory {} is in use by another process ({holder}); one process owns a directory at a time", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// What the other process wrote about itself, for example `pid 123, http://127.0.0.1:7411/mcp`.
        holder: String,
    },
    /// The file that names the host is damaged.
    #[error("{} holds no host id; restore it, or remove it: then the directory gets a new id, and its tasks stay", path.display())]
    HostFile {
        /// The file.
        path: PathBuf,
    },
    /// Locks and the shared memory of a write-ahead log do not work across machines.
    #[error("the data directory {} is on a network file system ({kind}); use a local disk", path.display())]
    NetworkFileSystem {
        /// The directory.
        path: PathBuf,
        /// Which.
        kind: String,
    },
    /// The file was written by a later release.
    #[error("{} has schema version {found}, and this release knows only versions up to {known}; use the release that wrote it, or a later one", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// The latest known version.
        known: usize,
    },
    /// A database, but not one of ours.
    #[error("{} is a database of another program", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Damaged, or no database at all.
    #[error("{} is damaged or no database ({detail}); restore a backup, or move the file away to begin anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        detail: String,
    },
    /// Another process has it open, and holds a transaction.
    #[error("another process, such as a `sqlite3` shell, holds a transaction on {}; end it, and start again", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The tasks are elsewhere.
    #[error("the tasks of {} were moved to {target}: set `store` to it in `[server]`; no server starts on what is left here", path.display())]
    Relocated {
        /// The directory.
        path: PathBuf,
        /// Where they are.
        target: String,
    },
    /// Nobody knows yet where the tasks are.
    #[error("the tasks of {} were being moved to {target}, and that was not finished: run `longhaul migrate` again, or with --abandon", path.display())]
    RelocationUnfinished {
        /// The directory.
        path: PathBuf,
        /// Where they may be.
        target: String,
    },
    /// Any other error of SQLite.
    #[error("cannot open {}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        source: rusqlite::Error,
    },
}

/// What to do about it, if that is known.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room on its disk, and start again: what is in the directory is kept"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_what_to_do() {
        let error = |kind| SqliteOpenError::Io {
            action: "write to",
            path: "/data".into(),
            source: kind,
        };
        let full = error(io::Error::from(io::ErrorKind::StorageFull)).to_string();
        assert!(
            full.starts_with("cannot write to /data: ") && full.contains("; make room on its disk"),
            "{full}"
        );
        let other = error(io::Error::from(io::ErrorKind::PermissionDenied)).to_string();
        assert!(!other.contains("make room"), "{other}");
    }
}
