//! Refusals that every store words alike.

use longhaul_core::store::StoreError;

/// The id is minted from 130 random bits, so this is a mistake of the caller and no accident.
pub(crate) fn id_taken() -> StoreError {
    StoreError::Failed("a task with this id exists already".to_owned())
}

/// [`longhaul_core::Store::put_spec`] comes first.
pub(crate) fn spec_unknown() -> StoreError {
    StoreError::Failed("the task names a tool definition that was never put".to_owned())
}
