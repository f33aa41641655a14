//! What an error of the database means for the change that met it.

use super::tls_fault;
use crate::executor::pause;
use longhaul_core::store::StoreError;
use std::{
    fmt,
    time::{Duration, Instant},
};
use tokio_postgres::{Error, error::SqlState};

/// How often a change is tried whose transaction was the victim of others.
const MOST_CONFLICTS: u32 = 12;
/// What is said of a pooler that was not expected.
pub(crate) const POOLER: &str = "a connection pooler, such as PgBouncer, is between here and the database. Name the database itself in `store_direct`, for what needs a session of its own; \
     `store` may then lead through the pooler";
/// What is said of a database that accepts connections and then is silent.
pub(crate) const NO_ANSWER: &str = "the database has not answered in time";
/// What is said of a database that can only be read.
const READ_ONLY: &str = "the database can only be read: it is a standby, or `default_transaction_read_only` is on. Name the primary in `store`, or all \
     servers, of which the primary is found";
/// What is said of a database without room for another connection.
const NO_CONNECTION: &str = "the database accepts no more connections: raise its `max_connections`, or the `CONNECTION LIMIT` of the role, set `store_connections` lower on each server, or put a pooler between";
/// What is said of a pooler behind which the database itself cannot be reached.
pub(crate) const NO_DIRECT: &str = "the database itself, `store_direct`, does not answer, and is needed for statements that this server has not made before";
/// What is said of a role that has lost a right.
const NO_RIGHT: &str =
    "the role in `store` may not do what a server needs: `longhaul check` names the SQL that grants it";
/// How long work waits for a database that cannot be used as it is.
const LONGEST_UNUSABLE: Duration = Duration::from_secs(1);
/// How long work waits for a database that cannot be reached, all in all: after this time it is not tried again.
const LONGEST_OUTAGE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Why a transaction did not come to its end.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was rolled back, because others were in its way. It may be tried again at once.
    Conflict(String),
    /// It was not made, because the database cannot be used as it is. It may be tried again a little later.
    Unusable(&'static str),
    /// It was not made, because the database could not be reached. It may be tried again a little later.
    Outage(String),
    /// It was not made, because the database did not answer in time. The connection is of no use any more: see
    /// [`Connection::settle`](crate::statement::Connection::settle).
    NoAnswer,
    /// The connection was lost while it was committed, or there was no answer: it may have been made, and may still be made.
    Unknown(String),
    /// It was not made, and trying it again would not help.
    Refused(StoreError),
}

impl Fault {
    /// What an error of `COMMIT` means. Without an answer of the server it is not known what has become of the transaction.
    pub(crate) fn of_commit(error: Error) -> Self {
        match Self::from(error) {
            Self::Outage(why) => Self::Unknown(why),
            other => other,
        }
    }

    /// Whether the database was found that can only be read.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::Unusable(why) if *why == READ_ONLY)
    }

    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Conflict(why) => StoreError::Failed(why),
            Self::Outage(why) => StoreError::Unavailable(why),
            Self::Unusable(why) => StoreError::Unusable(why),
            Self::NoAnswer => StoreError::Unavailable(NO_ANSWER.to_owned()),
            Self::Unknown(why) => StoreError::OutcomeUnknown(why),
            Self::Refused(error) => error,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(why) | Self::Outage(why) | Self::Unknown(why) => f.write_str(why),
            Self::Unusable(why) => f.write_str(why),
            Self::NoAnswer => f.write_str(NO_ANSWER),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let Some(answer) = error.as_db_error() else {
            if let Some(why) = tls_fault::describe(&error) {
                return Self::Refused(StoreError::Unavailable(why));
            }
            let why = describe(&error);
            // The driver was told to want a primary.
            if why.contains("does not allow writes") {
                return Self::Unusable(READ_ONLY);
            }
            // Without an answer of the server it is the connection, unless the driver could not read or write a value.
            return match error.is_closed() || is_io(&error) {
                true => Self::Outage(why),
                false => Self::Refused(StoreError::Failed(why)),
            };
        };
        let why = format!("{} (SQLSTATE {})", answer.message(), answer.code().code());
        let code = answer.code();
        let class = &code.code()[..2];
        match () {
            () if class == "40" => Self::Conflict(why),
            // Another transaction has written the same task, or made the same call.
            () if *code == SqlState::UNIQUE_VIOLATION => Self::Conflict(why),
            // A statement that was sent behind the one that failed.
            () if *code == SqlState::IN_FAILED_SQL_TRANSACTION => Self::Conflict(why),
            // A later release has migrated the schema: the connection's prepared statements are of no use any more.
            () if *code == SqlState::FEATURE_NOT_SUPPORTED => Self::Outage(why),
            // Ours asks for a setting at its beginning.
            () if *code == SqlState::PROTOCOL_VIOLATION && why.contains("unsupported startup parameter") => {
                Self::Refused(StoreError::Failed(POOLER.to_owned()))
            }
            // The connection is lost, or the server is starting or stopping.
            () if class == "08" || code.code().starts_with("57P") => Self::Outage(why),
            () if *code == SqlState::TOO_MANY_CONNECTIONS => Self::Unusable(NO_CONNECTION),
            () if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Self::Unusable(READ_ONLY),
            () if *code == SqlState::INSUFFICIENT_PRIVILEGE => Self::Unusable(NO_RIGHT),
            () if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Self::Outage(why),
            () if *code == SqlState::DISK_FULL => Self::Refused(StoreError::Full),
            // It has taken longer than `statement_timeout`.
            () if *code == SqlState::QUERY_CANCELED => Self::Refused(StoreError::Unavailable(why)),
            () if *code == SqlState::LOCK_NOT_AVAILABLE => Self::Refused(StoreError::Locked),
            () => Self::Refused(StoreError::Failed(why)),
        }
    }
}

fn is_io(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// With its cause, which the driver does not show by itself.
fn describe(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn longest(fault: &Fault) -> Duration {
    match fault {
        Fault::Unusable(_) => LONGEST_UNUSABLE,
        _ => LONGEST_OUTAGE,
    }
}

/// How often the work of one caller was tried, and how long it has waited.
pub(crate) struct Retries {
    conflicts: u32,
    began: Instant,
    pause: Duration,
}

impl Default for Retries {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long it waits for the database decides nothing about a task"
    )]
    fn default() -> Self {
        Self {
            conflicts: 0,
            began: Instant::now(),
            pause: Duration::ZERO,
        }
    }
}

impl Retries {
    /// Waits until the work may be tried again.
    ///
    /// # Errors
    /// The fault, if it is not to be tried again.
    pub(crate) async fn wait(&mut self, fault: Fault) -> Result<(), Fault> {
        match &fault {
            Fault::Conflict(why) if self.conflicts < MOST_CONFLICTS => {
                tracing::debug!(%why, "a transaction is tried again");
                self.conflicts += 1;
                // Those that were in each other's way do not meet again.
                let most = u64::from(self.conflicts) * 2;
                pause(Duration::from_millis(fastrand::u64(0..=most))).await;
                Ok(())
            }
            Fault::Outage(_) | Fault::Unusable(_) if self.began.elapsed() < longest(&fault) => {
                tracing::debug!(why = %fault, "the database cannot be used; trying again");
                self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                pause(self.pause).await;
                Ok(())
            }
            _ => Err(fault),
        }
    }
}
