//! The database that several servers share, if there is one.

use crate::config::{
    paths::Environment,
    section::{Entry, Section},
};
use longhaul_core::{Millis, store::NodeRole};
use longhaul_runtime::HOST_LOST_AFTER;
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use std::{fmt, ops::RangeInclusive};

/// The variables that name it in place of `store` and `store_direct`.
const VARIABLE: &str = "LONGHAUL_STORE";
const DIRECT_VARIABLE: &str = "LONGHAUL_STORE_DIRECT";
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
pub(crate) const DEFAULT_SCHEMA: &str = "longhaul";
/// PostgreSQL cuts a longer name.
const LONGEST_SCHEMA: usize = 63;
const DEFAULT_NODE_LEASE: Millis = 10_000;
/// A shorter one runs out while the database is only busy.
const SHORTEST_NODE_LEASE: Millis = 1_000;
/// Shorter ones end work of a database that is only busy. With longer ones a server hangs with its database.
const STATEMENT_TIMEOUTS: RangeInclusive<Millis> = 100..=600_000;
const LOCK_TIMEOUTS: RangeInclusive<Millis> = 10..=600_000;
const CONNECTIONS: RangeInclusive<u32> = PostgresOptions::FEWEST_CONNECTIONS as u32..=1_000;
/// The keys that mean something only with a database.
const KEYS: [&str; 7] = [
    "store_direct",
    "store_schema",
    "store_statement_timeout",
    "store_lock_timeout",
    "store_connections",
    "node_lease",
    "lost_after",
];

/// A PostgreSQL database with the tasks of several servers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SharedStore {
    /// Its address. It may have a password, so it is not shown.
    pub(crate) address: String,
    /// The address of the database itself, if `address` leads through a pooler.
    pub(crate) direct: Option<String>,
    /// What this server does.
    pub(crate) role: NodeRole,
    /// The schema with the tables.
    pub(crate) schema: String,
    /// How long the lease of this server lasts from each renewal, in milliseconds.
    pub(crate) node_lease: Millis,
    /// How long another host must have been without a server before it is given up, in milliseconds.
    pub(crate) lost_after: Millis,
    /// How long one statement may take, in milliseconds.
    pub(crate) statement_timeout: Millis,
    /// How long a change waits for rows that another server holds, in milliseconds.
    pub(crate) lock_timeout: Millis,
    /// How many connections this server opens at most.
    pub(crate) connections: u32,
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
            direct: self.direct.clone(),
            node_lease: self.node_lease,
            statement_timeout: self.statement_timeout,
            lock_timeout: self.lock_timeout,
            connections: self.connections as usize,
            ..PostgresOptions::default()
        }
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore")
            .field("schema", &self.schema)
            .field("role", &self.role)
            .field("node_lease", &self.node_lease)
            .field("lost_after", &self.lost_after)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

fn read_node_lease(entry: &Entry<'_>) -> Option<Millis> {
    let lease = entry.positive_duration()?;
    if lease < SHORTEST_NODE_LEASE {
        entry.report("`node_lease` must be 1s at least".to_owned());
        return None;
    }
    Some(lease)
}

fn read_schema(entry: &Entry<'_>) -> Option<String> {
    let name = entry.text()?;
    if name.is_empty() || name.len() > LONGEST_SCHEMA || name.contains('\0') {
        entry.report(format!("`store_schema` must have 1 to {LONGEST_SCHEMA} bytes"));
        return None;
    }
    Some(name.to_owned())
}

/// Reads the keys of `[server]` about the database; `None` after a problem.
pub(crate) fn read(section: &Section<'_>, environment: &Environment) -> Option<Option<SharedStore>> {
    let address_in = |key: &'static str, without: &'static str| {
        section.optional(key, |entry| {
            let text = entry.text_like("a URL such as \"postgres://user@host/database\"")?;
            if is_address(text) {
                return Some(text.to_owned());
            }
            entry.report(format!(
                "`{key}` must be the URL of a PostgreSQL database, such as \"postgres://user@host/database\"; {without}"
            ));
            None
        })
    };
    let configured = address_in("store", "without it tasks are in the data directory");
    let direct = address_in("store_direct", "it is needed only if `store` leads through a pooler");
    let role = section.get_or("role", NodeRole::Both, |entry| {
        entry.choice(&[NodeRole::Both, NodeRole::Front, NodeRole::Worker].map(|role| (role.word(), role)))
    });
    let node_lease = section.optional("node_lease", read_node_lease);
    let schema = section.optional("store_schema", read_schema);
    let lost_after = section.optional("lost_after", Entry::positive_duration);
    let defaults = PostgresOptions::default();
    let statement_timeout = section.get_or("store_statement_timeout", defaults.statement_timeout, |entry| {
        entry.duration_in(STATEMENT_TIMEOUTS)
    });
    let lock_timeout = section.optional("store_lock_timeout", |entry| entry.duration_in(LOCK_TIMEOUTS));
    let connections = section.get_or("store_connections", defaults.connections as u32, |entry| {
        entry.number_in(CONNECTIONS)
    });
    let (statement_timeout, lock_timeout, connections) = (statement_timeout?, lock_timeout?, connections?);
    if let (Some(timeout), Some(entry)) = (lock_timeout, section.get("store_lock_timeout"))
        && timeout > statement_timeout
    {
        entry.report(format!(
            "`store_lock_timeout` must be at most `store_statement_timeout` ({}), which ends a statement that waits for a lock, too",
            longhaul_core::format_duration(statement_timeout)
        ));
        return None;
    }
    let (configured, direct, role) = (configured?, direct?, role?);
    let (schema, node_lease, lost_after) = (schema?, node_lease?, lost_after?);
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
    let named = |variable: &str| {
        let named = (environment.variable)(variable).filter(|address| !address.is_empty());
        if named.as_deref().is_some_and(|address| !is_address(address)) {
            // Its value may have a password.
            section.report(format!(
                "the variable {variable} must be the URL of a PostgreSQL database, such as postgres://user@host/database, or not be set"
            ));
            return None;
        }
        Some(named)
    };
    let (address, direct) = (named(VARIABLE)?.or(configured), named(DIRECT_VARIABLE)?.or(direct));
    if let (None, true, Some(entry)) = (&address, role != NodeRole::Both, section.get("role")) {
        entry.report(format!(
            "`role = \"{}\"` needs `store`: a front and a worker share their tasks in a PostgreSQL database, and a data directory has one server, which does both",
            role.word()
        ));
        return None;
    }
    if let (NodeRole::Worker, Some(entry)) = (role, section.get("listen")) {
        entry.warn("`listen` means nothing with `role = \"worker\"`: a worker accepts no requests".to_owned());
    }
    for key in KEYS {
        if let (None, Some(entry)) = (&address, section.get(key)) {
            entry.warn(format!("`{key}` means something only with `store`"));
        }
    }
    Some(address.map(|address| SharedStore {
        address,
        direct,
        role,
        schema: schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned()),
        node_lease: given_lease,
        lost_after: lost_after.unwrap_or(HOST_LOST_AFTER),
        statement_timeout,
        lock_timeout: lock_timeout.unwrap_or(defaults.lock_timeout.min(statement_timeout)),
        connections,
    }))
}

/// Whether it is the URL of a PostgreSQL database.
pub(crate) fn is_address(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}
