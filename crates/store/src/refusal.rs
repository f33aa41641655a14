//! Errors with the same text in every store.

use longhaul_core::store::StoreError;

/// Ids have 130 random bits, so a repeated one is a mistake of the caller.
pub fn id_taken() -> StoreError {
    StoreError::Failed("a task with this id exists already".to_owned())
}

/// [`longhaul_core::store::QueueStore::put_spec`] comes first.
pub fn spec_unknown() -> StoreError {
    StoreError::Failed("the task names a tool definition that was never put".to_owned())
}
