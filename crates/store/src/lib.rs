//! Stores of tasks.
//!
//! - [`SqliteStore`]: one file in one directory, owned by one process; every acknowledged change survives the loss of power.
//! - [`MemoryStore`]: maps and sets; its contents end with it. The model that other stores are compared with.
//! - [`PlainCallStore`]: in front of another store; it keeps plain calls in memory until a client may know their ids.
//! - `contract`, with the feature of that name: what every store must pass, shipped as library code so that a store written elsewhere can be tested too.
//! - [`SqliteEventStore`] and [`MemoryEventStore`]: what `Last-Event-ID` is answered from, for clients whose stream broke.
//!
//! All stores share how tasks are created and changed ([`backend`]), what a change does ([`decision`]) and what it counts ([`usage`]); those in a database
//! also how tasks are kept in tables ([`task_row`], [`code`]).
//!
//! What the methods promise is written on [`longhaul_core::Store`] and [`longhaul_core::EventStore`].

pub mod backend;
pub mod code;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod decision;
mod ended_sessions;
mod event_store;
mod memory;
mod read_only_store;
pub mod refusal;
pub mod sqlite;
pub mod task_row;
pub mod usage;

pub use ended_sessions::EndedSessions;
pub use event_store::{MemoryEventStore, OpenEventStoreError, SqliteEventStore};
pub use memory::{MemoryStore, PlainCallStore};
pub use read_only_store::ReadOnlyStore;
pub use sqlite::{
    CopyError, DatabaseCopy, DirectoryReport, Disagreement, RESERVE_BYTES, RESERVE_FILE, Relocation, RelocationError,
    RelocationRecord, STOPPING, SqliteOpenError, SqliteOptions, SqliteStore,
};
