//! The database that several servers share, if there is one.

use super::{paths::Environment, section::Section};
use longhaul_core::Millis;
use longhaul_runtime::HOST_LOST_AFTER;
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use std::fmt;

/// The variable that names it in place of `store`.
const VARIABLE: &str = "LONGHAUL_STORE";
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
pub(crate) const DEFAULT_SCHEMA: &str = "longhaul";
/// PostgreSQL cuts a longer name.
const LONGEST_SCHEMA: usize = 63;
const DEFAULT_NODE_LEASE: Millis = 10_000;
/// A shorter one runs out while the database is only busy.
const SHORTEST_NODE_LEASE: Millis = 1_000;

/// A PostgreSQL database with the tasks of several servers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SharedStore {
    /// Its address. It may have a password, so it is not shown.
    pub(crate) address: String,
    /// The schema with the tables.
    pub(crate) schema: String,
    /// How long the lease of this server lasts from each renewal, in milliseconds.
    pub(crate) node_lease: Millis,
    /// How long another host must have been without a server before it is given up, in milliseconds.
    pub(crate) lost_after: Millis,
}

impl SharedStore {
    /// The database and the schema, without a password.
    pub(crate) fn shown(&self) -> String {
        let address = PostgresStore::shown_address(&self.address);
        format!(
            "{}, schema {}",
            address.as_deref().unwrap_or("postgres://"),
            self.schema
        )
    }

    /// How it is opened.
    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions {
            schema: self.schema.clone(),
            node_lease: self.node_lease,
            ..PostgresOptions::default()
        }
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore")
            .field("schema", &self.schema)
            .field("node_lease", &self.node_lease)
            .field("lost_after", &self.lost_after)
            .finish_non_exhaustive()
    }
}

/// Reads the keys `store`, `store_schema`, `node_lease` and `lost_after` of `[server]`; `None` after a problem.
pub(super) fn read(section: &Section<'_>, environment: &Environment) -> Option<Option<SharedStore>> {
    let configured = section.optional("store", |entry| {
        let text = entry.text_like("a URL such as \"postgres://user@host/database\"")?;
        if is_address(text) {
            return Some(text.to_owned());
        }
        entry.report("`store` must be the URL of a PostgreSQL database, such as \"postgres://user@host/database\"; without it tasks are in the data directory".to_owned());
        None
    });
    let node_lease = section.optional("node_lease", |entry| {
        let lease = entry.positive_duration()?;
        if lease < SHORTEST_NODE_LEASE {
            entry.report("`node_lease` must be 1s at least".to_owned());
            return None;
        }
        Some(lease)
    });
    let schema = section.optional("store_schema", |entry| {
        let name = entry.text()?;
        if name.is_empty() || name.len() > LONGEST_SCHEMA || name.contains('\0') {
            entry.report(format!("`store_schema` must have 1 to {LONGEST_SCHEMA} bytes"));
            return None;
        }
        Some(name.to_owned())
    });
    let lost_after = section.optional("lost_after", |entry| entry.positive_duration());
    let (configured, schema, node_lease, lost_after) = (configured?, schema?, node_lease?, lost_after?);
    let given_lease = node_lease.unwrap_or(DEFAULT_NODE_LEASE);
    if let (Some(span), Some(entry)) = (lost_after, section.get("lost_after"))
        && span < given_lease
    {
        entry.report(format!(
            "`lost_after` must be `node_lease` ({}) at least: a server that starts again is away for as long",
            longhaul_core::format_duration(given_lease)
        ));
        return None;
    }
    let named = (environment.variable)(VARIABLE).filter(|address| !address.is_empty());
    if named.as_deref().is_some_and(|address| !is_address(address)) {
        // Its value may have a password.
        section.report(format!(
            "the variable {VARIABLE} must be the URL of a PostgreSQL database, such as postgres://user@host/database, or not be set"
        ));
        return None;
    }
    let address = named.or(configured);
    for key in ["store_schema", "node_lease", "lost_after"] {
        if let (None, Some(entry)) = (&address, section.get(key)) {
            entry.warn(format!("`{key}` means something only with `store`"));
        }
    }
    Some(address.map(|address| SharedStore {
        address,
        schema: schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned()),
        node_lease: given_lease,
        lost_after: lost_after.unwrap_or(HOST_LOST_AFTER),
    }))
}

/// Whether it is the URL of a PostgreSQL database.
pub(crate) fn is_address(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}
