//! What SQLite's errors mean for what was asked.

use longhaul_core::store::StoreError;
use rusqlite::{Error, ErrorCode, ffi};

/// Whether there was no room to write, and nothing worse.
///
/// `SQLITE_FULL` is `ENOSPC`. A quota or a size limit comes as a failed write, and the index of the write-ahead log cannot grow
/// either on a full disk. None of them leaves anything half-written behind.
pub(super) fn is_full(error: &Error) -> bool {
    let extended = error.sqlite_error().map(|inner| inner.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || matches!(
            extended,
            Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMOPEN)
        )
}

/// Whether it is unknown what the disk holds.
pub(super) fn is_fsync(error: &Error) -> bool {
    let extended = error.sqlite_error().map(|inner| inner.extended_code);
    matches!(extended, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
}

/// As the caller may know it. SQLite's texts name tables and columns, never what is in them.
pub(super) fn to_store_error(error: &Error) -> StoreError {
    if is_full(error) {
        return StoreError::Full;
    }
    StoreError::Failed(error.to_string())
}
