//! Connections and transactions that one caller uses.

use super::{Fault, fault::NO_ANSWER};
use crate::executor::within;
use deadpool_postgres::Object;
use futures_util::{
    FutureExt,
    future::{try_join_all, try_join3},
};
use longhaul_core::BoxFuture;
use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};
use tokio_postgres::{Row, Statement, error::SqlState, types::Type};

/// How transactions are run behind a pooler, which may send each of them to another session of the database.
#[derive(Clone)]
pub(crate) struct PoolerSettings {
    /// What begins each.
    pub(crate) begin: Arc<str>,
    /// The types of the parameters of statements, since none can be prepared.
    pub(crate) types: Arc<dyn ParamTypes>,
}

/// The types of the parameters of statements.
pub(crate) trait ParamTypes: Send + Sync {
    fn of<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Arc<[Type]>, Fault>>;
}

/// A connection that one caller uses.
pub(crate) struct Connection {
    client: Object,
    answer_timeout: Duration,
    pooled: Option<PoolerSettings>,
}

impl Connection {
    pub(crate) fn new(client: Object, answer_timeout: Duration, pooled: Option<PoolerSettings>) -> Self {
        Self {
            client,
            answer_timeout,
            pooled,
        }
    }

    /// Another release has migrated the schema: statements that were prepared before are of no use.
    fn forget_statements_after(&self, error: &tokio_postgres::Error) {
        if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) {
            self.client.statement_cache.clear();
        }
    }

    /// Begins a transaction, together with its first statements. It is rolled back unless it is committed.
    pub(crate) fn begin(&mut self) -> Tx<'_> {
        self.transaction()
    }

    fn transaction(&self) -> Tx<'_> {
        Tx {
            client: &self.client,
            state: AtomicU8::new(NEW),
            answer_timeout: Some(self.answer_timeout),
            pooled: self.pooled.as_ref(),
        }
    }

    /// Gives the connection back, unless there was no answer: then it is closed, since whoever used it next would wait for that answer, too.
    pub(crate) fn settle<T>(self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(Fault::NoAnswer | Fault::Unknown(_)) = outcome {
            drop(Object::take(self.client));
        }
        outcome
    }

    /// Closes the connection.
    pub(crate) fn close(self) {
        drop(Object::take(self.client));
    }

    /// Closes the connection behind what it was used for.
    pub(crate) fn close_with<T>(self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        self.close();
        outcome
    }

    async fn prepared(&self, sql: &str) -> Result<Statement, Fault> {
        answered(Some(self.answer_timeout), self.client.prepare_cached(sql)).await
    }

    /// The types of the parameters of a statement.
    pub(crate) async fn types(&self, sql: &str) -> Result<Arc<[Type]>, Fault> {
        Ok(self.prepared(sql).await?.params().into())
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
    /// The same where nothing was written, so that its outcome does not matter.
    End,
}

/// A statement that can be run.
enum Ready {
    Prepared(Statement),
    /// Sent whole, with the types of its parameters.
    Whole(Arc<[Type]>),
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
    pooled: Option<&'a PoolerSettings>,
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
    pub(crate) async fn rows_of_all(&self, statements: &[(&str, Vec<Param<'_>>)]) -> Result<Vec<Vec<Row>>, Fault> {
        self.query_all(statements, Then::Continue).await
    }

    /// As [`rows_of_all`](Self::rows_of_all), with what comes behind them.
    pub(crate) async fn query_all(
        &self,
        statements: &[(&str, Vec<Param<'_>>)],
        then: Then,
    ) -> Result<Vec<Vec<Row>>, Fault> {
        let ready = self.prepare_all(statements).await?;
        let running = ready.iter().zip(statements);
        let running = running.map(|(ready, (sql, params))| self.query(ready, sql, params));
        let running = try_join_all(running.collect::<Vec<_>>());
        self.pipeline(running, then).await
    }

    async fn query(&self, ready: &Ready, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, tokio_postgres::Error> {
        match ready {
            Ready::Prepared(statement) => self.client.query(statement, params).await,
            Ready::Whole(types) => self.client.query_typed(sql, &typed(params, types)).await,
        }
    }

    async fn run_one(&self, ready: &Ready, sql: &str, params: &[Param<'_>]) -> Result<u64, tokio_postgres::Error> {
        match ready {
            Ready::Prepared(statement) => self.client.execute(statement, params).await,
            Ready::Whole(types) => self.client.execute_typed(sql, &typed(params, types)).await,
        }
    }

    /// Runs statements in this order, all sent at once; returns how many rows each has changed. A commit is on the disk once this returns.
    pub(crate) async fn execute_all(
        &self,
        statements: &[(&str, Vec<Param<'_>>)],
        then: Then,
    ) -> Result<Vec<u64>, Fault> {
        let ready = self.prepare_all(statements).await?;
        let running = ready.iter().zip(statements);
        let running = running.map(|(ready, (sql, params))| self.run_one(ready, sql, params));
        let running = try_join_all(running.collect::<Vec<_>>());
        self.pipeline(running, then).await
    }

    /// Its statements are to be answered in this time from now on, or may take any time.
    pub(crate) fn answered_within(mut self, limit: Option<Duration>) -> Self {
        self.answer_timeout = limit;
        self
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
                true => {
                    let begin = self.pooled.map_or("BEGIN", |pooled| &pooled.begin);
                    self.client.batch_execute(begin).await
                }
                false => Ok(()),
            }
        };
        let end = async {
            match then {
                Then::Continue => Ok(()),
                Then::Commit | Then::End => {
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
                    Then::Continue | Then::End => Fault::NoAnswer,
                    Then::Commit => Fault::Unknown(NO_ANSWER.to_owned()),
                });
            }
        };
        if fault.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) {
            self.client.statement_cache.clear();
        }
        Err(match then {
            Then::Continue | Then::End => fault.into(),
            Then::Commit => Fault::of_commit(fault),
        })
    }

    /// All are prepared before the first is run: a statement that is prepared first would let a later one overtake it.
    async fn prepare_all(&self, statements: &[(&str, Vec<Param<'_>>)]) -> Result<Vec<Ready>, Fault> {
        let mut ready = Vec::with_capacity(statements.len());
        for (sql, _) in statements {
            ready.push(match self.pooled {
                Some(pooled) => Ready::Whole(pooled.types.of(sql).await?),
                None => Ready::Prepared(answered(self.answer_timeout, self.client.prepare_cached(sql)).await?),
            });
        }
        Ok(ready)
    }
}

fn typed<'a>(params: &[Param<'a>], types: &[Type]) -> Vec<(Param<'a>, Type)> {
    params.iter().copied().zip(types.iter().cloned()).collect()
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
        if self.pooled.is_some() {
            // The settings hold within a transaction only.
            let statement = [(sql, params.to_vec())];
            let rows = self.transaction().query_all(&statement, Then::End).await?;
            return Ok(rows.into_iter().next().unwrap_or_default());
        }
        let statement = self.prepared(sql).await?;
        let running = async {
            let rows = self.client.query(&statement, params).await;
            rows.inspect_err(|error| self.forget_statements_after(error))
        };
        answered(Some(self.answer_timeout), running).await
    }

    async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Fault> {
        if self.pooled.is_some() {
            let statement = [(sql, params.to_vec())];
            let counts = self.transaction().execute_all(&statement, Then::Commit).await?;
            return Ok(counts.into_iter().next().unwrap_or_default());
        }
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
