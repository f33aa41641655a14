//! How a store is opened.

use longhaul_core::Millis;
use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, atomic::AtomicI64},
};

/// So many connections are used for nothing but changes of tasks and leases: a node whose reads take long must not lose its lease for that.
pub(crate) const RESERVED: usize = 2;

/// How to open a [`PostgresStore`](super::PostgresStore).
#[derive(Clone)]
pub struct PostgresOptions {
    /// The schema with the tables, which is created if it is not there.
    pub schema: String,
    /// The address of the database itself, if the one that the store is opened with leads through a pooler in transaction mode, such as PgBouncer. It is used
    /// for two connections: for the events of other nodes, and for what is asked about statements; and for migrations.
    pub direct: Option<String>,
    /// A data directory, of this host alone, in which it remembers what the database must have: without it, a database that was restored to an earlier time is
    /// not recognized, unless it was restored from a dump.
    pub data_dir: Option<PathBuf>,
    /// Whether a database that is a copy is used. Otherwise the store says [so](super::PostgresStore::copied), and must be wrapped in a
    /// [`ReadOnlyStore`](longhaul_store::ReadOnlyStore).
    pub accept_restored: bool,
    /// How many connections it opens at most. One is for the events of other nodes, and two are for changes of tasks and for leases alone, which then never
    /// wait for reads.
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

impl PostgresOptions {
    /// With fewer connections there is none for reads.
    pub const FEWEST_CONNECTIONS: usize = RESERVED + 2;
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "longhaul".to_owned(),
            direct: None,
            data_dir: None,
            accept_restored: false,
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
