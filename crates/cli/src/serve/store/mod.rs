//! The store of a server: the database of its data directory, or one that several servers share.

#[cfg(debug_assertions)]
mod injected_fault;
mod shared_store;

#[cfg(debug_assertions)]
pub(super) use injected_fault::{plant, store_options};
pub(super) use shared_store::{OpenedStore, SharedStoreError, open};

/// How the store is opened.
#[cfg(not(debug_assertions))]
pub(super) fn store_options() -> longhaul_store::SqliteOptions {
    longhaul_store::SqliteOptions::default()
}
