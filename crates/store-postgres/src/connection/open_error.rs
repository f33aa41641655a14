//! Why a store cannot be opened.

use crate::statement::Fault;
use longhaul_core::store::StoreError;

/// Why a store cannot be opened, in words for the person who started the server. The address of the database is not shown: it may have a password.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// The address cannot be read.
    #[error(
        "the address of the PostgreSQL database cannot be read: {0}; write it as `postgres://user:password@host:5432/database`"
    )]
    Address(tokio_postgres::Error),
    /// The files that the address names for TLS cannot be used.
    #[error("TLS for the PostgreSQL database: {0}")]
    Tls(String),
    /// The address has a parameter that is not known.
    #[error("the address of the PostgreSQL database has an unknown parameter: `{0}`")]
    Parameter(String),
    /// There is no such option, or not with this value.
    #[error("{0}")]
    Option(&'static str),
    /// The server cannot be reached, or is silent.
    #[error("the PostgreSQL database does not answer: {0}. Is its server running, and the address right?")]
    Unavailable(String),
    /// The role may not do what a server needs.
    #[error("{what}. Let the owner or an administrator of the database run: {remedy}")]
    Rights {
        /// What it may not do.
        what: String,
        /// The SQL that permits it.
        remedy: String,
    },
    /// It answers, and cannot be used as it is.
    #[error("{0}")]
    Unusable(&'static str),
    /// The server refuses.
    #[error("the PostgreSQL database cannot be used: {0}")]
    Database(String),
    /// The server is too old.
    #[error("the PostgreSQL server has version {0}; 14 or later is needed")]
    OldServer(String),
    /// The database cannot hold all texts.
    #[error(
        "the database has the encoding {0}, and tasks are UTF-8: make one with `CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`"
    )]
    Encoding(String),
    /// A later release has migrated the schema.
    #[error(
        "the schema `{schema}` has version {found}, and this release knows versions up to {known}: start the release that migrated it, or a later one"
    )]
    NewerSchema {
        /// The schema.
        schema: String,
        /// Its version.
        found: i64,
        /// The latest version that this release knows.
        known: i64,
    },
}

impl From<Fault> for PostgresOpenError {
    fn from(fault: Fault) -> Self {
        match fault {
            // Why, and not that it does not answer: it does.
            Fault::Refused(StoreError::Unavailable(why) | StoreError::Failed(why)) => Self::Database(why),
            Fault::Outage(_) | Fault::NoAnswer | Fault::Unknown(_) => Self::Unavailable(fault.to_string()),
            Fault::Unusable(why) => Self::Unusable(why),
            Fault::Conflict(_) | Fault::Refused(_) => Self::Database(fault.to_string()),
        }
    }
}

impl From<tokio_postgres::Error> for PostgresOpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::from(error).into()
    }
}
