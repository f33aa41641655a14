//! What SQLite's errors mean for a request.

use crate::sqlite::SqliteOpenError;
use longhaul_core::store::StoreError;
use rusqlite::{Connection, Error, ErrorCode, ffi};
use std::io;

/// An error of SQLite's, with the operating system's error if it is known.
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Of the system call that failed.
    errno: Option<i32>,
}

impl Fault {
    /// Of a statement that has just failed on `connection`, before another one runs there.
    pub(crate) fn of(error: Error, connection: &Connection) -> Self {
        Self {
            error,
            errno: errno(connection),
        }
    }

    /// The error for the caller. SQLite's texts name tables and columns, never their values.
    pub(crate) fn to_store_error(&self) -> StoreError {
        if is_locked(&self.error) {
            return StoreError::Locked;
        }
        if !is_refused_write(&self.error) {
            return StoreError::Failed(self.error.to_string());
        }
        match self.errno {
            Some(errno) if self.error.sqlite_error_code() != Some(ErrorCode::DiskFull) && !means_no_room(errno) => {
                StoreError::Disk(errno)
            }
            _ => StoreError::Full,
        }
    }
}

/// Of the latest system call that failed on `connection`.
fn errno(connection: &Connection) -> Option<i32> {
    #[expect(unsafe_code, reason = "the handle is valid as long as the connection is borrowed")]
    let errno = unsafe { ffi::sqlite3_system_errno(connection.handle()) };
    (errno != 0).then_some(errno)
}

/// Replaces SQLite's "disk I/O error" at a start with the system's error, such as "File too large".
pub(crate) fn name_refused_write(error: SqliteOpenError, connection: &Connection) -> SqliteOpenError {
    match (error, errno(connection)) {
        (SqliteOpenError::Sqlite { path, source }, Some(errno)) if is_refused_write(&source) => SqliteOpenError::Io {
            action: "write to",
            path,
            source: io::Error::from_raw_os_error(errno),
        },
        (error, _) => error,
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error, errno: None }
    }
}

fn means_no_room(errno: i32) -> bool {
    let kind = io::Error::from_raw_os_error(errno).kind();
    matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Whether another process holds what is needed.
pub(crate) fn is_locked(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Whether a write was refused, and nothing worse.
///
/// `SQLITE_FULL` is `ENOSPC`. A quota, a size limit or a failing disk comes as a failed write, and the index of the write-ahead log
/// cannot grow either on a full disk. None of them leaves anything half-written behind.
pub(crate) fn is_refused_write(error: &Error) -> bool {
    let extended = error.sqlite_error().map(|inner| inner.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || matches!(
            extended,
            Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMOPEN)
        )
}

/// Whether it is unknown what the disk holds.
pub(crate) fn is_fsync(error: &Error) -> bool {
    let extended = error.sqlite_error().map(|inner| inner.extended_code);
    matches!(extended, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
}
