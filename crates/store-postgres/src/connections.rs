//! Connections to the database.

use crate::{
    OpenError, PostgresOptions,
    executor::within,
    fault::{Fault, NO_ANSWER},
};
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType, Timeouts,
};
use futures_util::{
    FutureExt,
    future::{try_join_all, try_join3},
};
use longhaul_core::{Millis, store::StoreError};
use std::{
    future::ready,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};
use tokio_postgres::{
    Config, NoTls, Statement,
    config::{Host, SslMode, TargetSessionAttrs},
    error::SqlState,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How much longer than its own timeouts the database may take to answer.
const TOLERANCE: Duration = Duration::from_secs(1);
const DEFAULT_PORT: u16 = 5432;
/// A host that is gone is noticed after this time at the latest.
const SILENCE: Duration = Duration::from_secs(20);

/// How long a session may be silent in a transaction, in milliseconds: about a lease. What a node that is paused or cut off has locked is free then, so that
/// others can go on with its work.
const SHORTEST_IDLE: Millis = 2_000;
const LONGEST_IDLE: Millis = 30_000;

/// Connections, opened when they are needed.
#[derive(Clone)]
pub(crate) struct Connections {
    pool: Pool,
    answer_timeout: Duration,
}

impl Connections {
    /// `count` connections at most.
    pub(crate) fn new(address: &str, options: &PostgresOptions, count: usize) -> Result<Self, OpenError> {
        let config = config(address)?;
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        // TLS comes in here: a connector in place of `NoTls`.
        let manager = Manager::from_config(config, NoTls, recycling);
        let timeouts = Timeouts {
            wait: Some(CONNECT_TIMEOUT),
            // The server may accept a connection and then be silent.
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(CONNECT_TIMEOUT),
        };
        let session = Arc::new(Session::new(options));
        let set_up = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let session = Arc::clone(&session);
            Box::pin(async move { session.begin(client).await.map_err(HookError::Backend) })
        });
        let pool = Pool::builder(manager)
            .max_size(count)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .post_create(set_up)
            .build()
            .map_err(|error| OpenError::Database(error.to_string()))?;
        Ok(Self {
            pool,
            answer_timeout: Duration::from_millis(options.statement_timeout) + TOLERANCE,
        })
    }

    /// A connection that nobody else uses.
    pub(crate) async fn get(&self) -> Result<Connection, Fault> {
        match self.pool.get().await {
            Ok(client) => Ok(Connection {
                client,
                answer_timeout: self.answer_timeout,
            }),
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => Err(error.into()),
            Err(PoolError::Timeout(TimeoutType::Wait)) => Err(Fault::Outage(
                "all connections to the database are in use: it answers slowly, or not at all".to_owned(),
            )),
            Err(PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle)) => {
                Err(Fault::Outage(NO_ANSWER.to_owned()))
            }
            Err(PoolError::Closed) => Err(StoreError::Closed.into()),
            Err(error) => Err(StoreError::Failed(error.to_string()).into()),
        }
    }

    /// Closes what is not in use, and the rest when it is given back.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// How every connection is made.
pub(crate) fn config(address: &str) -> Result<Config, OpenError> {
    let mut config: Config = address.parse().map_err(OpenError::Address)?;
    let wants_tls = match config.get_ssl_mode() {
        SslMode::Disable => false,
        SslMode::Require => true,
        _ => config.get_hosts().iter().any(is_elsewhere) || !config.get_hostaddrs().iter().all(IpAddr::is_loopback),
    };
    if wants_tls {
        return Err(OpenError::Tls);
    }
    if config.get_application_name().is_none() {
        config.application_name("longhaul");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    config
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .keepalives_idle(SILENCE / 2)
        .keepalives_interval(SILENCE / 10)
        .tcp_user_timeout(SILENCE);
    Ok(config)
}

/// The role, the hosts and the database of an address.
pub(crate) fn shown(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let host = match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        // One port counts for all hosts.
        match config.get_ports().get(at).or(config.get_ports().first()) {
            Some(port) if *port != DEFAULT_PORT => format!("{host}:{port}"),
            _ => host,
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let role = config.get_user().map(|role| format!("{role}@")).unwrap_or_default();
    let database = config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
    format!("postgres://{role}{}{database}", hosts.join(","))
}

/// Whether a network may lie between.
fn is_elsewhere(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name != "localhost" && !name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        Host::Unix(_) => false,
    }
}

/// What is set at the beginning of each session.
struct Session {
    settings: String,
    /// Whether it was said that the role's setting is not used.
    warned: AtomicBool,
}

impl Session {
    fn new(options: &PostgresOptions) -> Self {
        let settings = format!(
            "SET search_path = {}; SET lock_timeout = {}; SET statement_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; SET default_transaction_isolation = 'read committed'; \
             SET client_min_messages = warning",
            quoted(&options.schema),
            options.lock_timeout,
            options.statement_timeout,
            options.node_lease.clamp(SHORTEST_IDLE, LONGEST_IDLE),
        );
        Self {
            settings,
            warned: AtomicBool::new(false),
        }
    }

    /// What is acknowledged must be on the disk, whatever is set for the server, the database or the role.
    async fn begin(&self, client: &tokio_postgres::Client) -> Result<(), tokio_postgres::Error> {
        client.batch_execute(&self.settings).await?;
        let row = client.query_one("SHOW synchronous_commit", &[]).await?;
        let found: &str = row.get(0);
        if matches!(found, "on" | "remote_apply") {
            return Ok(());
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("synchronous_commit is `{found}` for this database or role; Longhaul uses `on`");
        }
        client.batch_execute("SET synchronous_commit = on").await
    }
}

/// A name as SQL has it, whatever it contains.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A connection that one caller uses.
pub(crate) struct Connection {
    client: Object,
    answer_timeout: Duration,
}

impl Connection {
    /// Another release has migrated the schema: statements that were prepared before are of no use.
    fn forget_statements_after(&self, error: &tokio_postgres::Error) {
        if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) {
            self.client.statement_cache.clear();
        }
    }

    /// Begins a transaction, together with its first statements. It is rolled back unless it is committed.
    pub(crate) fn begin(&mut self) -> Tx<'_> {
        Tx {
            client: &self.client,
            state: AtomicU8::new(NEW),
            answer_timeout: Some(self.answer_timeout),
        }
    }

    /// As [`begin`](Self::begin), for work that may take any time.
    pub(crate) fn begin_unlimited(&mut self) -> Tx<'_> {
        let mut tx = self.begin();
        tx.answer_timeout = None;
        tx
    }

    /// Gives the connection back, unless there was no answer: then it is closed, since whoever used it next would wait for that answer, too.
    pub(crate) fn settle<T>(self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(Fault::NoAnswer | Fault::Unknown(_)) = outcome {
            drop(Object::take(self.client));
        }
        outcome
    }

    async fn prepared(&self, sql: &str) -> Result<Statement, Fault> {
        answered(Some(self.answer_timeout), self.client.prepare_cached(sql)).await
    }
}

/// Nothing was sent.
const NEW: u8 = 0;
const BEGUN: u8 = 1;
/// The end was sent, whatever becomes of it.
const ENDED: u8 = 2;

/// What comes behind the statements of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// More statements.
    Continue,
    /// `COMMIT`, sent together with them. If one of them fails, it rolls back.
    Commit,
}

/// The answer of the database, if it comes in time.
async fn answered<T>(
    limit: Option<Duration>,
    running: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Fault> {
    match within(limit, running).await {
        Some(answer) => Ok(answer?),
        None => Err(Fault::NoAnswer),
    }
}

/// A transaction that writes.
pub(crate) struct Tx<'a> {
    client: &'a Object,
    state: AtomicU8,
    answer_timeout: Option<Duration>,
}

impl Tx<'_> {
    /// The connection, for what is streamed within the transaction. Something must have been run in it before.
    pub(crate) fn client(&self) -> &tokio_postgres::Client {
        self.client
    }

    /// Runs statements without parameters, which are not prepared.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Fault> {
        let running = self.client.batch_execute(sql);
        self.pipeline(running, Then::Continue).await
    }

    /// Runs statements in this order, all sent at once; returns the rows of each.
    pub(crate) async fn rows_of_all(
        &self,
        statements: &[(&str, Vec<Param<'_>>)],
    ) -> Result<Vec<Vec<tokio_postgres::Row>>, Fault> {
        let prepared = self.prepare_all(statements).await?;
        let running = prepared.iter().zip(statements);
        let running = running.map(|(prepared, (_, params))| self.client.query(prepared, params));
        let running = try_join_all(running.collect::<Vec<_>>());
        self.pipeline(running, Then::Continue).await
    }

    /// Runs statements in this order, all sent at once; returns how many rows each has changed. A commit is on the disk once this returns.
    pub(crate) async fn execute_all(
        &self,
        statements: &[(&str, Vec<Param<'_>>)],
        then: Then,
    ) -> Result<Vec<u64>, Fault> {
        let prepared = self.prepare_all(statements).await?;
        let running = prepared.iter().zip(statements);
        let running = running.map(|(prepared, (_, params))| self.client.execute(prepared, params));
        let running = try_join_all(running.collect::<Vec<_>>());
        self.pipeline(running, then).await
    }

    /// Returns once it is on the disk.
    pub(crate) async fn commit(self) -> Result<(), Fault> {
        self.pipeline(ready(Ok(())), Then::Commit).await
    }

    /// Sends what `running` sends when it is polled for the first time, behind `BEGIN` if that was not sent, and before what comes `then`. The first error
    /// counts: those behind it only say that the transaction has failed.
    async fn pipeline<T>(
        &self,
        running: impl Future<Output = Result<T, tokio_postgres::Error>>,
        then: Then,
    ) -> Result<T, Fault> {
        let is_new = self.state.swap(BEGUN, Ordering::Relaxed) == NEW;
        let begin = async {
            match is_new {
                true => self.client.batch_execute("BEGIN").await,
                false => Ok(()),
            }
        };
        let end = async {
            match then {
                Then::Continue => Ok(()),
                Then::Commit => {
                    self.state.store(ENDED, Ordering::Relaxed);
                    self.client.batch_execute("COMMIT").await
                }
            }
        };
        let fault = match within(self.answer_timeout, try_join3(begin, running, end)).await {
            Some(Ok(((), answer, ()))) => return Ok(answer),
            Some(Err(error)) => error,
            None => {
                return Err(match then {
                    Then::Continue => Fault::NoAnswer,
                    Then::Commit => Fault::Unknown(NO_ANSWER.to_owned()),
                });
            }
        };
        if fault.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) {
            self.client.statement_cache.clear();
        }
        Err(match then {
            Then::Continue => fault.into(),
            Then::Commit => Fault::of_commit(fault),
        })
    }

    /// All are prepared before the first is run: a statement that is prepared first would let a later one overtake it.
    async fn prepare_all(&self, statements: &[(&str, Vec<Param<'_>>)]) -> Result<Vec<Statement>, Fault> {
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, _) in statements {
            prepared.push(answered(self.answer_timeout, self.client.prepare_cached(sql)).await?);
        }
        Ok(prepared)
    }
}

impl Drop for Tx<'_> {
    /// The connection is used again, so what is open must not stay open. The first poll sends it; nobody needs the answer.
    fn drop(&mut self) {
        if *self.state.get_mut() == BEGUN {
            let _ = self.client.batch_execute("ROLLBACK").now_or_never();
        }
    }
}

/// The value of a statement's parameter.
pub(crate) type Param<'a> = &'a (dyn tokio_postgres::types::ToSql + Sync);

/// Where statements are run: a connection, or a transaction on it.
pub(crate) trait Execute: Sync {
    /// The rows of a statement, which is prepared once for each connection.
    fn rows(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Vec<tokio_postgres::Row>, Fault>> + Send;

    /// The first row of a statement.
    fn row(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Option<tokio_postgres::Row>, Fault>> + Send {
        async move { Ok(self.rows(sql, params).await?.into_iter().next()) }
    }

    /// How many rows a statement has changed.
    fn execute(&self, sql: &str, params: &[Param<'_>]) -> impl Future<Output = Result<u64, Fault>> + Send;
}

impl Execute for Connection {
    async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<tokio_postgres::Row>, Fault> {
        let statement = self.prepared(sql).await?;
        let running = async {
            let rows = self.client.query(&statement, params).await;
            rows.inspect_err(|error| self.forget_statements_after(error))
        };
        answered(Some(self.answer_timeout), running).await
    }

    async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Fault> {
        let statement = self.prepared(sql).await?;
        answered(Some(self.answer_timeout), self.client.execute(&statement, params)).await
    }
}

impl Execute for Tx<'_> {
    async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<tokio_postgres::Row>, Fault> {
        let rows = self.rows_of_all(&[(sql, params.to_vec())]).await?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Fault> {
        let counts = self.execute_all(&[(sql, params.to_vec())], Then::Continue).await?;
        Ok(counts.into_iter().next().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_over_a_network_in_the_clear_by_accident() {
        let new = |address| Connections::new(address, &PostgresOptions::default(), 2);
        for refused in [
            "postgres://db.example/tasks",
            "postgres://10.0.0.1/tasks",
            "postgres://127.0.0.1,db.example/tasks",
            "host=localhost hostaddr=10.0.0.1",
            "postgres://localhost/tasks?sslmode=require",
        ] {
            assert!(matches!(new(refused), Err(OpenError::Tls)), "{refused}");
        }
        for used in [
            "postgres://localhost/tasks",
            "postgres://[::1]:5433/tasks",
            "host=/run/postgresql dbname=tasks",
            "postgres://db.example/tasks?sslmode=disable",
        ] {
            assert!(new(used).is_ok(), "{used}");
        }
        assert!(matches!(new("no address"), Err(OpenError::Address(_))));
    }
}
