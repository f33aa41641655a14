//! Tasks in a PostgreSQL database that many nodes share.
//!
//! - Creates and changes of tasks go through the writer, which makes all that wait in one transaction (`change`): it locks the rows, decides with the same code as
//!   every other store, writes what has changed with one statement for each table, commits, and only then answers.
//! - What is not one task's change is a transaction of its own (`connection/work.rs`): claims, leases, permits, deletion.
//! - Reads use any connection, and see what was committed when they begin.
//!
//! - Events of other nodes come by `LISTEN` (`event`). Without them a node finds what others have done when it reads again.
//!
//! - Behind a pooler in transaction mode nothing outlasts a transaction: its settings are set within it, and its statements are not prepared (`connection/types.rs`).

mod change;
mod connection;
mod event;
mod executor;
mod node;
mod options;
mod origin;
mod query;
mod relocation;
mod schema;
mod statement;
mod store;

pub use connection::open_error::PostgresOpenError;
pub use options::PostgresOptions;
pub use origin::Copied;
pub use query::inspection::DatabaseReport;
pub use relocation::{MoveError, MoveProgress, Moved, abandon_move, move_tasks};

use change::{
    Part, Request, RequestAnswer, batch::KnownSpecs, quota_turns::NearQuotas, request::PendingRequest, writer::Writer,
};
use connection::{Address, Connections, session, transact, types::Types};
use event::{PublishedState, notifications::Notifications, sessions};
use executor::spawn;
use longhaul_core::{Millis, Principal, store::StoreError};
use options::RESERVED;
use origin::{Establish, HostFile, HostFileContents, Identity};
use query::inspection;
use statement::{Clock, Fault, transaction::PoolerSettings};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::{mpsc, oneshot};

/// Events of so many commits wait for their connection to the database.
const MOST_UNTOLD: usize = 1_024;

/// Tasks in a schema of a PostgreSQL database, version 14 or later. Many processes may use it at a time.
///
/// Every acknowledged change has been committed with `synchronous_commit = on` (or `remote_apply`), which is set for each session: it survives the end of the database's
/// processes, and the loss of power as far as its disk keeps what it confirmed. After a failover that holds only with synchronous replication.
///
/// Dropping the store makes what was sent before, and closes its connections.
pub struct PostgresStore {
    connections: Connections,
    /// One for the writer, and one for the leases.
    reserved: Connections,
    /// For reads while no server answers that can be written; each is closed after its read.
    for_reading: Connections,
    queue: mpsc::UnboundedSender<PendingRequest>,
    published: Arc<PublishedState>,
    clock: Clock,
    node_lease: Millis,
    part: Part,
    /// The database that was opened.
    identity: Arc<Identity>,
    copied: Option<Copied>,
    host_file: Option<HostFile>,
    /// What the file has. Held while the file is written.
    remembered: tokio::sync::Mutex<HostFileContents>,
}

impl PostgresStore {
    /// Opens the store at `address`, such as `postgres://user:password@host:5432/database`, and brings its schema to the present version. Call it within a
    /// tokio runtime, on which the store then runs.
    ///
    /// # Errors
    /// [`PostgresOpenError`], in words for the person who started the server.
    pub async fn open(address: &str, options: PostgresOptions) -> Result<Self, PostgresOpenError> {
        if options.connections < PostgresOptions::FEWEST_CONNECTIONS {
            return Err(PostgresOpenError::Option(
                "a store needs four connections to its database at least",
            ));
        }
        if options.schema.is_empty() || options.schema.contains('\0') {
            return Err(PostgresOpenError::Option("the schema of the database needs a name"));
        }
        let address = Address::parse(address)?;
        let direct = options.direct.as_deref().map(Address::parse).transpose()?;
        let for_reads = options.connections - RESERVED - 1;
        let (connections, reserved, for_reading) = match &direct {
            None => (
                Connections::direct(&address, &options, for_reads)?,
                Connections::direct(&address, &options, RESERVED)?,
                Connections::for_reading(&address, &options, None)?,
            ),
            Some(direct) => {
                let direct = Connections::direct(direct, &options, 1)?;
                schema::migrate(&direct, &options).await?;
                let pooled = PoolerSettings {
                    begin: session::begin_pooled(&options),
                    types: Arc::new(Types::new(direct)),
                };
                (
                    Connections::pooled(&address, &options, for_reads, pooled.clone())?,
                    Connections::pooled(&address, &options, RESERVED, pooled.clone())?,
                    Connections::for_reading(&address, &options, Some(pooled))?,
                )
            }
        };
        if direct.is_none() {
            schema::migrate(&connections, &options).await?;
        }
        let host_file = options.data_dir.as_deref().map(HostFile::new);
        let establish = Establish {
            file: host_file.as_ref(),
            accept: options.accept_restored,
        };
        let (identity, copied) = transact(&reserved, &establish).await.map_err(Fault::from)?;
        let for_events = direct.as_ref().unwrap_or(&address);
        for warning in [&address, for_events]
            .into_iter()
            .filter_map(Address::tls_warning)
            .collect::<BTreeSet<_>>()
        {
            tracing::warn!("{warning}");
        }
        let (tell, outgoing) = mpsc::channel(MOST_UNTOLD);
        let published = Arc::new(PublishedState::new(tell));
        let since = sessions::read(&connections, &published, 0).await?;
        let (queue, incoming) = mpsc::unbounded_channel();
        let part = Part::any();
        let writer = Writer {
            connections: reserved.clone(),
            queue: incoming,
            published: Arc::clone(&published),
            specs: Arc::new(KnownSpecs::default()),
            near_quotas: NearQuotas::default(),
            part,
        };
        let notifications = Notifications {
            address: for_events.clone(),
            schema: options.schema,
            published: Arc::downgrade(&published),
            outgoing,
            connections: connections.clone(),
        };
        spawn(writer.run());
        spawn(notifications.run());
        spawn(sessions::follow(connections.clone(), Arc::downgrade(&published), since));
        Ok(Self {
            connections,
            reserved,
            for_reading,
            queue,
            published,
            clock: Clock {
                offset: options.clock_offset,
            },
            node_lease: options.node_lease,
            part,
            identity: Arc::new(identity),
            copied,
            host_file,
            remembered: tokio::sync::Mutex::default(),
        })
    }

    /// Why it may be a copy of an earlier state, unless that was [accepted](PostgresOptions::accept_restored). Then nothing may be done with it but to read.
    pub fn copied(&self) -> Option<&Copied> {
        self.copied.as_ref()
    }

    /// Remembers in the data directory what the database has committed.
    async fn remember(&self, write: impl FnOnce(&mut HostFileContents)) -> Result<(), StoreError> {
        let Some(file) = self.host_file.clone() else {
            return Ok(());
        };
        let mut remembered = self.remembered.lock().await;
        write(&mut remembered);
        let now = remembered.clone();
        let written = executor::blocking(move || file.write(&now)).await;
        let written = written.map_err(|error| StoreError::Failed(error.to_string()))?;
        written.map_err(|error| {
            StoreError::Failed(format!(
                "the file `database` in the data directory cannot be written: {error}"
            ))
        })
    }

    /// Finds out what the database at `address` is like, without changing anything.
    ///
    /// # Errors
    /// [`PostgresOpenError`]: why a server could not use it.
    pub async fn inspect(address: &str, options: PostgresOptions) -> Result<DatabaseReport, PostgresOpenError> {
        let address = Address::parse(address)?;
        let direct = options.direct.as_deref().map(Address::parse).transpose()?;
        let connections = Connections::direct(direct.as_ref().unwrap_or(&address), &options, 1)?;
        let report = inspection::inspect(&connections, &options, schema::KNOWN).await;
        let mut report = match (report, &direct) {
            (Ok(report), Some(_)) => {
                let pooled = PoolerSettings {
                    begin: session::begin_pooled(&options),
                    types: Arc::new(Types::new(connections.clone())),
                };
                let pooled = Connections::pooled(&address, &options, 1, pooled)?;
                let reached = inspection::reach(&pooled).await;
                pooled.close();
                reached.map(|()| report)
            }
            (report, _) => report,
        };
        connections.close();
        if let Ok(report) = &mut report {
            let risks = [Some(&address), direct.as_ref()]
                .into_iter()
                .flatten()
                .filter_map(Address::tls_warning);
            report.warnings.extend(risks.collect::<BTreeSet<_>>());
        }
        report
    }

    /// Whether the database at `address` has tasks of a principal. A schema that was not made yet has none.
    ///
    /// # Errors
    /// [`PostgresOpenError`]: it is not known.
    pub async fn has_tasks_of(
        address: &str,
        options: &PostgresOptions,
        principal: &Principal,
    ) -> Result<bool, PostgresOpenError> {
        let address = Address::parse(options.direct.as_deref().unwrap_or(address))?;
        let connections = Connections::direct(&address, options, 1)?;
        let found = inspection::has_tasks_of(&connections, principal).await;
        connections.close();
        found
    }

    /// An address as it may be shown: the role, the hosts and the database, without a password.
    ///
    /// ```
    /// use longhaul_store_postgres::PostgresStore;
    ///
    /// let shown = PostgresStore::shown_address("postgres://jobs:secret@127.0.0.1:5433/tasks?connect_timeout=2");
    /// assert_eq!(shown.as_deref(), Some("postgres://jobs@127.0.0.1:5433/tasks"));
    /// ```
    pub fn shown_address(address: &str) -> Option<String> {
        Some(Address::parse(address).ok()?.shown())
    }

    /// Whether the tasks of a data directory were moved here, by the id of the [move](longhaul_store::RelocationRecord).
    ///
    /// # Errors
    /// When that cannot be read.
    pub async fn has_moved_here(&self, id: &str) -> Result<bool, StoreError> {
        let read = async || -> Result<bool, Fault> {
            let connection = self.connections.get().await?;
            relocation::is_known(&connection, id).await
        };
        read().await.map_err(Fault::into_store_error)
    }

    /// Sends a change to the writer and waits for its answer. Once sent, the change is made even if this future is dropped.
    async fn send(&self, request: Request) -> Result<RequestAnswer, StoreError> {
        let (reply_to, answer) = oneshot::channel();
        let pending = PendingRequest { request, reply_to };
        self.queue.send(pending).map_err(|_| StoreError::Closed)?;
        let unknown = |_| StoreError::OutcomeUnknown("the store stopped before it knew".to_owned());
        answer.await.map_err(unknown)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // Those of the writer are closed once it has made what was sent before.
        self.connections.close();
    }
}
