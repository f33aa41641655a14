//! What may be chosen when a directory is opened.

use super::InjectedFault;
use longhaul_core::store::LONGEST_DEFERRAL;
use std::{fmt, sync::Arc, time::Duration};

/// The exit status of a process whose store could not make a commit certain: `EX_IOERR` of sysexits.
pub const EXIT_COMMIT_FAILED: i32 = 74;

/// The usual [`SqliteOptions::reserve_bytes`] of a server. The write-ahead log has about 16 MiB when it is worked into the database, and a deletion writes what it deletes.
pub const RESERVE_BYTES: u64 = 32 << 20;

/// What to do when a commit or an fsync failed: the disk may or may not hold what was written, and a read would only show what the
/// page cache holds. Whatever this does, the store acknowledges nothing any more.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;

/// How to open a [`SqliteStore`](super::SqliteStore).
#[derive(Clone)]
pub struct SqliteOptions {
    /// Called once when a commit or an fsync failed. The default logs the reason and exits with [`EXIT_COMMIT_FAILED`].
    pub on_fatal: OnFatal,
    /// Uses a database also if it is not the latest one of its directory, because it was restored from a backup for instance. Without this it
    /// can only be [read](crate::ReadOnlyStore). What it calls queued or running may have run since, and may run again.
    pub accept_restored: bool,
    /// Opens a directory also if its tasks were [moved](super::Relocation) into a database that servers share: for what else the directory has, and not for
    /// its tasks.
    pub accept_relocated: bool,
    /// How much room a file keeps for deletions on a full disk: [`RESERVE_BYTES`] for a server, 0 for none, which is the default. What is less than
    /// the write-ahead log (16 MiB and more) does not help.
    pub reserve_bytes: u64,
    /// A fault, injected to prove that tests find it. `None` outside tests.
    pub injected_fault: Option<InjectedFault>,
    /// Called after each commit, before its acknowledgements.
    #[cfg(test)]
    pub(super) on_commit: Option<CommitObserver>,
    /// In place of [`LONGEST_DEFERRAL`](longhaul_core::store::LONGEST_DEFERRAL).
    #[cfg(test)]
    pub(super) longest_deferral: Duration,
}

#[cfg(test)]
pub(super) type CommitObserver = Arc<dyn Fn(&rusqlite::Connection) + Send + Sync>;

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            on_fatal: Arc::new(exit),
            accept_restored: false,
            accept_relocated: false,
            reserve_bytes: 0,
            injected_fault: None,
            #[cfg(test)]
            on_commit: None,
            #[cfg(test)]
            longest_deferral: LONGEST_DEFERRAL,
        }
    }
}

impl SqliteOptions {
    /// How long a change that can wait is deferred.
    #[cfg(not(test))]
    pub(super) fn longest_deferral(&self) -> Duration {
        LONGEST_DEFERRAL
    }

    #[cfg(test)]
    pub(super) fn longest_deferral(&self) -> Duration {
        self.longest_deferral
    }
}

fn exit(reason: &str) {
    tracing::error!(
        reason,
        "cannot tell any more what the disk holds; stopping without acknowledging"
    );
    std::process::exit(EXIT_COMMIT_FAILED);
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("injected_fault", &self.injected_fault)
            .finish_non_exhaustive()
    }
}
