//! Event stores: in memory, as the model, and in a file.

mod memory;
mod sqlite;

pub use memory::MemoryEventStore;
pub use sqlite::{OpenEventStoreError, SqliteEventStore};
