//! Why the journal cannot be opened or a change not be recorded.

use crate::{InvalidAnswer, journal::recorded_call::CallId};
use std::path::PathBuf;

/// The journal cannot be opened, or did not record a change. Nothing in the file is ever deleted because of an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The environment does not say where the user's state is kept.
    #[error("cannot tell where the client journal is: set HOME, or XDG_STATE_HOME to the absolute path of a directory")]
    NoStateDirectory,
    /// The file or its directory cannot be used: it belongs to another user, others may write to it, it cannot be read, or it is a
    /// database of another program.
    #[error("cannot use {}: {reason}", path.display())]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Damaged, or no database at all.
    #[error(
        "{} is damaged or no client journal ({detail}); restore a backup, or move the file away to begin with an empty journal",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        detail: String,
    },
    /// A later release has written to the file.
    #[error(
        "{} has schema version {found}, and this release knows only versions up to {known}; use the release that wrote it, or a later one",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// The latest known version.
        known: usize,
    },
    /// Another process has held a transaction for too long.
    #[error("another process, such as a `sqlite3` shell, holds a transaction on {}; end it, and try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full. The change is not recorded.
    #[error("the disk has no room for {}; make room, and try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The file is no longer at its path, so the change may be lost.
    #[error("{} was removed, moved or replaced while this process used it; start the process again", path.display())]
    Replaced {
        /// Where it was.
        path: PathBuf,
    },
    /// The file could not be read or written for another reason.
    #[error("cannot read or write {}: {detail}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// SQLite's or the system's words.
        detail: String,
    },
    /// There is no such call: it never existed, or it was deleted some time after it had finished.
    #[error("the client journal has no {0}")]
    UnknownCall(CallId),
    /// The answer does not fit what the call asks. Nothing is recorded.
    #[error("the answer is not recorded: {0}")]
    InvalidAnswer(InvalidAnswer),
    /// The change does not fit the state of the call.
    #[error("cannot {action} {call}: it is {state}")]
    WrongState {
        /// The call.
        call: CallId,
        /// What was asked for.
        action: &'static str,
        /// The call's state, in words.
        state: &'static str,
    },
}
