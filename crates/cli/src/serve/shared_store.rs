//! Tasks in a database that several servers share.

use crate::config::SharedStore;
use longhaul_core::{Store, store::StoreError};
use longhaul_store::{ReadOnlyStore, SqliteStore};
use longhaul_store_postgres::{OpenError, PostgresStore};
use std::sync::Arc;

/// The tasks cannot be kept in the database that is configured.
#[derive(Debug, thiserror::Error)]
pub(super) enum SharedStoreError {
    /// It cannot be opened.
    #[error("`store`: {0}")]
    Open(#[from] OpenError),
    /// The database of the data directory cannot be read.
    #[error(transparent)]
    Local(#[from] StoreError),
    /// Tasks would be out of sight.
    #[error(
        "{data_dir} has tasks in a database of its own, which would be out of sight in the one of `store`: use another data_dir, or delete these tasks"
    )]
    HasTasks {
        /// The data directory.
        data_dir: String,
    },
}

/// Where the tasks are: in the data directory, or in the database that is configured. The data directory has what belongs to this host in both cases:
/// its id, the files of commands, keys.
pub(super) async fn open(
    configured: Option<&SharedStore>,
    local: &Arc<SqliteStore>,
    data_dir: &std::path::Path,
) -> Result<Arc<dyn Store>, SharedStoreError> {
    let Some(shared) = configured else {
        return Ok(ReadOnlyStore::unless_accepted(Arc::clone(local)));
    };
    let kept = local.usage(None).await?;
    if kept.live > 0 || kept.bytes > 0 {
        return Err(SharedStoreError::HasTasks {
            data_dir: data_dir.display().to_string(),
        });
    }
    Ok(Arc::new(PostgresStore::open(&shared.address, shared.options()).await?))
}
