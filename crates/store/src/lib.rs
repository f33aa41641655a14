//! Stores of tasks.
//!
//! - [`SqliteStore`]: one file in one directory, owned by one process; every acknowledged change survives the loss of power.
//! - [`MemoryStore`]: maps and sets; its contents end with it. The model that other stores are compared with.
//! - [`PlainCallStore`]: in front of another store; it keeps plain calls in memory until a client may know their ids.
//! - [`contract`]: what every store must pass, shipped as library code so that a store written elsewhere can be tested too.
//!
//! What the methods promise is written on [`longhaul_core::Store`].

pub mod contract;
mod decision;
mod memory;
mod read_only_store;
mod refusal;
pub mod sqlite;
mod usage;

pub use memory::{MemoryStore, PlainCallStore};
pub use read_only_store::ReadOnlyStore;
pub use sqlite::{Disagreement, OpenError, SqliteOptions, SqliteStore};
