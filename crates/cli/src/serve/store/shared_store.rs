//! Tasks in a database that several servers share.

use crate::config::SharedStore;
use longhaul_core::{
    Store,
    store::{SearchStore, StoreError},
};
use longhaul_store::{ReadOnlyStore, SqliteStore};
use longhaul_store_postgres::{PostgresOpenError, PostgresOptions, PostgresStore};
use std::sync::Arc;

/// The tasks cannot be kept in the database that is configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SharedStoreError {
    /// It cannot be opened.
    #[error("`store`: {0}")]
    Open(#[from] PostgresOpenError),
    /// The database of the data directory cannot be read.
    #[error(transparent)]
    Local(#[from] StoreError),
    /// Tasks would be out of sight.
    #[error(
        "{data_dir} has tasks in a database of its own, which would be out of sight in the one of `store`: move them there by `longhaul migrate`, or use another data_dir"
    )]
    HasTasks {
        /// The data directory.
        data_dir: String,
    },
    /// They were moved to another one.
    #[error(
        "the tasks of {data_dir} were moved to {target}, and the database of `store` does not have them: set `store` and `store_schema` to that one, or use another data_dir"
    )]
    MovedElsewhere {
        /// The data directory.
        data_dir: String,
        /// Where they are.
        target: String,
    },
}

/// Where the tasks are.
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<dyn Store>,
    /// Why it is read-only.
    pub(crate) reads_only: Option<String>,
}

/// Where the tasks are: in the data directory, or in the database that is configured. The data directory has what belongs to this host in both cases:
/// its id, the files of commands, keys.
pub(crate) async fn open(
    configured: Option<&SharedStore>,
    local: &Arc<SqliteStore>,
    folder: &std::path::Path,
    accept_restored: bool,
) -> Result<OpenedStore, SharedStoreError> {
    let Some(shared) = configured else {
        return Ok(OpenedStore {
            store: ReadOnlyStore::unless_accepted(Arc::clone(local)),
            reads_only: local.disagreement().map(ToString::to_string),
        });
    };
    let data_dir = || folder.display().to_string();
    let moved = local.relocation();
    let kept = local.usage(None).await?;
    if moved.is_none() && (kept.live > 0 || kept.bytes > 0) {
        return Err(SharedStoreError::HasTasks { data_dir: data_dir() });
    }
    let options = PostgresOptions {
        data_dir: Some(folder.to_owned()),
        accept_restored,
        ..shared.options()
    };
    let store = PostgresStore::open(&shared.address, options).await?;
    if let Some(moved) = moved
        && !store.has_moved_here(&moved.id).await?
    {
        return Err(SharedStoreError::MovedElsewhere {
            data_dir: data_dir(),
            target: moved.target.clone(),
        });
    }
    let reads_only = store.copied().map(ToString::to_string);
    let store: Arc<dyn Store> = Arc::new(store);
    Ok(match reads_only {
        None => OpenedStore { store, reads_only },
        Some(_) => OpenedStore {
            store: ReadOnlyStore::around(store),
            reads_only,
        },
    })
}
