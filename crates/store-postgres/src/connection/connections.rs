//! Connections to the database.

use super::{Address, met_lock::MetLock, session::Session};
use crate::{
    PostgresOpenError, PostgresOptions,
    statement::{Connection, Fault, fault::NO_ANSWER, transaction::PoolerSettings},
};
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType, Timeouts,
};
use longhaul_core::store::{PoolHealth, StoreError};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_postgres::{Config, config::TargetSessionAttrs};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How much longer than its own timeouts the database may take to answer.
const TOLERANCE: Duration = Duration::from_secs(1);
/// A host that is gone is noticed after this time at the latest.
const SILENCE: Duration = Duration::from_secs(20);

/// Connections, opened when they are needed.
#[derive(Clone)]
pub(crate) struct Connections {
    pool: Pool,
    answer_timeout: Duration,
    /// Only behind a pooler.
    pooled: Option<PoolerSettings>,
    waits: Arc<Waits>,
    pub(crate) schema: Arc<str>,
    /// The last lock that a caller has waited for in vain.
    pub(crate) met_lock: Arc<MetLock>,
}

/// How often a connection was asked for, and for how many microseconds callers have waited.
#[derive(Default)]
struct Waits {
    asked: AtomicU64,
    micros: AtomicU64,
}

impl Connections {
    /// `count` connections at most, to the database itself.
    pub(crate) fn direct(
        address: &Address,
        options: &PostgresOptions,
        count: usize,
    ) -> Result<Self, PostgresOpenError> {
        let session = Arc::new(Session::new(options));
        let mark = Arc::clone(&session);
        let begin = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let session = Arc::clone(&session);
            Box::pin(async move { session.begin(client).await })
        });
        Self::new(address, options, count, |config| mark.mark(config), Some(begin), None)
    }

    /// As [`direct`](Self::direct), or as [`pooled`](Self::pooled) if there is such, to whatever server answers, also one that can only be read.
    pub(crate) fn for_reading(
        address: &Address,
        options: &PostgresOptions,
        pooled: Option<PoolerSettings>,
    ) -> Result<Self, PostgresOpenError> {
        let session = Arc::new(Session::new(options));
        let begin = Arc::clone(&session);
        let begin = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let session = Arc::clone(&begin);
            Box::pin(async move { session.begin(client).await })
        });
        let begin = pooled.is_none().then_some(begin);
        let prepare = |config: &mut Config| {
            if pooled.is_none() {
                session.mark(config);
            }
            config.target_session_attrs(TargetSessionAttrs::Any);
        };
        Self::new(address, options, 1, prepare, begin, pooled.clone())
    }

    /// `count` connections at most, through a pooler.
    pub(crate) fn pooled(
        address: &Address,
        options: &PostgresOptions,
        count: usize,
        pooled: PoolerSettings,
    ) -> Result<Self, PostgresOpenError> {
        Self::new(address, options, count, |_| (), None, Some(pooled))
    }

    fn new(
        address: &Address,
        options: &PostgresOptions,
        count: usize,
        prepare: impl FnOnce(&mut Config),
        begin: Option<Hook>,
        pooled: Option<PoolerSettings>,
    ) -> Result<Self, PostgresOpenError> {
        let (mut config, tls) = address.connector()?;
        set_up(&mut config);
        prepare(&mut config);
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_config(config, tls, recycling);
        let timeouts = Timeouts {
            wait: Some(CONNECT_TIMEOUT),
            // The server may accept a connection and then be silent.
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(CONNECT_TIMEOUT),
        };
        let mut builder = Pool::builder(manager)
            .max_size(count)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1);
        if let Some(begin) = begin {
            builder = builder.post_create(begin);
        }
        Ok(Self {
            pool: builder
                .build()
                .map_err(|error| PostgresOpenError::Database(error.to_string()))?,
            answer_timeout: Duration::from_millis(options.statement_timeout) + TOLERANCE,
            pooled,
            waits: Arc::default(),
            schema: options.schema.as_str().into(),
            met_lock: Arc::default(),
        })
    }

    /// A connection that nobody else uses.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long callers wait is for operators, and decides nothing"
    )]
    pub(crate) async fn get(&self) -> Result<Connection, Fault> {
        let asked = Instant::now();
        let got = self.pool.get().await;
        let micros = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.waits.asked.fetch_add(1, Ordering::Relaxed);
        self.waits.micros.fetch_add(micros, Ordering::Relaxed);
        match got {
            Ok(client) => Ok(Connection::new(client, self.answer_timeout, self.pooled.clone())),
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => Err(error.into()),
            Err(PoolError::PostCreateHook(HookError::Message(why))) => Err(StoreError::Failed(why.into_owned()).into()),
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

    /// What operators see of it.
    pub(crate) fn health(&self, name: &'static str) -> PoolHealth {
        let status = self.pool.status();
        PoolHealth {
            name,
            size: status.max_size,
            waiting: status.waiting,
            asked: self.waits.asked.load(Ordering::Relaxed),
            waited: Duration::from_micros(self.waits.micros.load(Ordering::Relaxed)),
        }
    }

    /// Closes what is not in use, and the rest when it is given back.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// How every connection is made.
pub(crate) fn set_up(config: &mut Config) {
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
}
