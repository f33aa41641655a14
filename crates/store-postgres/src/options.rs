//! How a store is opened.

use longhaul_core::Millis;
use std::{
    fmt,
    sync::{Arc, atomic::AtomicI64},
};

/// How to open a [`PostgresStore`](super::PostgresStore).
#[derive(Clone)]
pub struct PostgresOptions {
    /// The schema with the tables, which is created if it is not there.
    pub schema: String,
    /// How many connections it opens at most, beside one for the events of other nodes. Two of them are for changes of tasks and for leases alone, which then never wait for reads.
    pub connections: usize,
    /// How long a node's lease lasts from each renewal, in milliseconds.
    pub node_lease: Millis,
    /// How long a change waits for rows that another transaction holds, in milliseconds.
    pub lock_timeout: Millis,
    /// How long one statement may take, in milliseconds. A database that has not answered a second later is taken to be away.
    pub statement_timeout: Millis,
    /// Milliseconds that are added to the time of the database: tests let time pass with it.
    #[doc(hidden)]
    pub clock_offset: Arc<AtomicI64>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "longhaul".to_owned(),
            connections: 8,
            node_lease: 10_000,
            lock_timeout: 3_000,
            statement_timeout: 5_000,
            clock_offset: Arc::default(),
        }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}
