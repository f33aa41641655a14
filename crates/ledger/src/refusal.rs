//! Why a read or a change did not happen.

use longhaul_client::JournalError;
use rusqlite::{Error, ErrorCode};
use std::path::Path;

/// Why a read or a change did not happen.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// SQLite failed; the transaction is rolled back.
    Sqlite(Error),
    /// The journal refuses. Return it before anything is written: the transaction goes on with the changes of others.
    Journal(JournalError),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<JournalError> for Refusal {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl Refusal {
    pub(crate) fn into_error(self, path: &Path) -> JournalError {
        match self {
            Self::Sqlite(error) => because(&error, path),
            Self::Journal(error) => error,
        }
    }
}

/// What an error of SQLite means.
pub(crate) fn because(error: &Error, path: &Path) -> JournalError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => JournalError::Corrupt {
            path,
            detail: error.to_string(),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::Busy { path },
        Some(ErrorCode::DiskFull) => JournalError::Full { path },
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => JournalError::Unusable {
            path,
            reason: error.to_string(),
        },
        _ => JournalError::Failed {
            path,
            detail: error.to_string(),
        },
    }
}
