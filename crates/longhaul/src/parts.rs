//! What the other crates of Longhaul have for users of this one, as modules.

/// The crates that this one is made of, for stores, executors and transports of your own, and to name the types inside errors. Their API
/// changes more often than that of this crate.
///
/// ```
/// use longhaul::{AskError, JournalError, internals::core::store::ApplyError};
///
/// /// Whether the store failed, so that another attempt may succeed.
/// fn is_store_failure(error: &AskError) -> bool {
///     use ApplyError::Store;
///     matches!(error, AskError::Task(Store(_)) | AskError::Journal(JournalError::Task(Store(_))))
/// }
/// ```
pub mod internals {
    pub use longhaul_core as core;
    pub use longhaul_runtime as runtime;
    pub use longhaul_server as server;
    pub use longhaul_store as store;
}

#[cfg(feature = "admin")]
pub mod admin {
    //! Operating a server: see [`Server::admin`](crate::Server::admin). Needs the feature `admin`.

    pub use longhaul_admin::{AdminError, AdminKeyFileError, AdminSettings, SameUserUnavailable};
}

#[cfg(feature = "postgres")]
pub mod postgres {
    //! Tasks in a PostgreSQL database, version 14 or later, that several servers share. Needs the feature `postgres`.
    //!
    //! Each server is a node: any of them answers for every task, and when one dies, the others go on with its durable tasks once its lease has run
    //! out. Give each the same tools.
    //!
    //! ```no_run
    //! use longhaul::{Server, Tool, postgres::{PostgresOptions, PostgresStore}};
    //! use std::sync::Arc;
    //! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    //! let store = PostgresStore::open("postgres://jobs@127.0.0.1/jobs", PostgresOptions::default()).await?;
    //! Server::new("jobs", "1.0.0")
    //!     .tool(Tool::new("hello", async || "Hello!"))
    //!     .store(Arc::new(store))
    //!     .serve_http("127.0.0.1:8080")
    //!     .await?;
    //! # Ok(()) }
    //! ```

    pub use longhaul_store_postgres::{DatabaseReport, PostgresOpenError, PostgresOptions, PostgresStore};
}

pub mod auth {
    //! Who may use a server over HTTP: see [`Server::authenticator`](crate::Server::authenticator).
    //!
    //! With the feature `auth` there are authenticators for API keys, for tokens of OAuth issuers, and for processes of the user who runs the server.

    #[cfg(feature = "auth")]
    pub use longhaul_auth::{keys, oauth, same_user};
    pub use longhaul_server::auth::*;
}
