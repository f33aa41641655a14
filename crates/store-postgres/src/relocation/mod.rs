//! Moves the tasks of a data directory here, in one transaction. What a crash leaves, and how it goes on, is told at [`Relocation`].

mod rows;
mod tables;

use crate::{
    PostgresOpenError, PostgresOptions,
    connection::{Address, Connections, take_turn},
    schema,
    statement::{Clock, Connection, Execute, Fault, Tx, encode},
};
use longhaul_core::{TaskId, UnixMillis};
use longhaul_store::{Relocation, SqliteOpenError as SourceError};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tables::tables;

/// Why the tasks were not moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The database cannot be used. Nothing has changed.
    #[error(transparent)]
    Open(#[from] PostgresOpenError),
    /// The data directory cannot be read or written.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The database failed meanwhile. Nothing has changed.
    #[error("the tasks were not moved: {0}")]
    Database(String),
    /// The connection was lost while the copy was committed.
    #[error("it is not known whether the tasks were moved: {0}. Run the command again, which finds out")]
    OutcomeUnknown(String),
    /// Another server's tasks would be mixed with these.
    #[error("the schema `{0}` of the database has tasks or servers already: name a new one with --schema")]
    NotEmpty(String),
    /// The database has the tasks, and the data directory does not know it yet.
    #[error(
        "the database has the tasks, but that cannot be recorded in the data directory: {0}. Run the command again, which records it"
    )]
    Unrecorded(SourceError),
    /// There is no move to abandon, since it was committed.
    #[error(
        "the tasks are in the database already, so that the move cannot be abandoned: run the command without --abandon"
    )]
    Committed,
}

impl From<Fault> for MoveError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unknown(why) => Self::OutcomeUnknown(why),
            other => Self::Database(other.to_string()),
        }
    }
}

/// What was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// How many tasks and calls.
    pub tasks: u64,
    /// Those of them whose commands may still run on the host of the data directory.
    pub running_commands: Vec<TaskId>,
}

/// What has been copied so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveProgress {
    /// The table.
    pub table: &'static str,
    /// Rows of it.
    pub rows: u64,
}

/// How long the database may take to let a move begin, since another one is being committed, and to commit it. Without a limit a commit that waits for a standby that is
/// away is waited for in silence.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Moves the tasks of `source` into the database at `address`, whose schema must have none. Once this returns, the database has them, and no server starts on
/// the data directory alone any more. If an earlier call was interrupted, this one finishes it. `progress` is called from time to time.
///
/// Commands that still run are not touched: their folders stay in the data directory, and a server that uses the database and this data directory takes them back.
///
/// # Errors
/// [`MoveError`]. Unless it is [`MoveError::OutcomeUnknown`] or [`MoveError::Unrecorded`], the data directory can be used as before.
pub async fn move_tasks(
    source: Relocation,
    address: &str,
    options: &PostgresOptions,
    now: UnixMillis,
    progress: impl FnMut(MoveProgress),
) -> Result<Moved, MoveError> {
    let connections = Connections::direct(&Address::parse(address)?, options, 1)?;
    schema::migrate(&connections, options).await?;
    let mut connection = connections.get().await?;
    let tx = begin(&mut connection).await?;
    let source = Arc::new(Mutex::new(source));
    if is_committed(&tx, &source).await? {
        tx.answered_within(Some(LONGEST_WAIT)).commit().await?;
    } else {
        check_empty(&tx, &options.schema).await?;
        let id = begun(&source)?;
        let clock = Clock {
            offset: Arc::clone(&options.clock_offset),
        };
        if let Err(error) = copy(&tx, &source, &id, now, &clock, progress).await {
            // It was not committed, so no later look will find it there.
            source.lock().abandon()?;
            return Err(error);
        }
        match tx.answered_within(Some(LONGEST_WAIT)).commit().await {
            Err(Fault::Unknown(why)) => return Err(MoveError::OutcomeUnknown(why)),
            Err(fault) => {
                source.lock().abandon()?;
                return Err(fault.into());
            }
            Ok(()) => {}
        }
    }
    let mut source = source.lock();
    source.finish(now).map_err(MoveError::Unrecorded)?;
    Ok(Moved {
        tasks: source.count()?,
        running_commands: source.running_commands()?,
    })
}

/// Ends a move that was interrupted before the database had the tasks: the data directory is used as before.
///
/// # Errors
/// [`MoveError::Committed`] if the database has them, and whenever that cannot be found out.
pub async fn abandon_move(source: Relocation, address: &str, options: &PostgresOptions) -> Result<(), MoveError> {
    let connections = Connections::direct(&Address::parse(address)?, options, 1)?;
    schema::migrate(&connections, options).await?;
    let mut connection = connections.get().await?;
    let tx = begin(&mut connection).await?;
    let source = Arc::new(Mutex::new(source));
    let committed = is_committed(&tx, &source).await?;
    if !committed {
        source.lock().abandon()?;
    }
    tx.answered_within(Some(LONGEST_WAIT)).commit().await?;
    match committed {
        true => Err(MoveError::Committed),
        false => Ok(()),
    }
}

/// Begins the transaction in which everything happens. No node is opened on the schema until it has ended, and a move that is being committed was committed.
async fn begin(connection: &mut Connection) -> Result<Tx<'_>, Fault> {
    let tx = connection.begin().answered_within(Some(LONGEST_WAIT));
    // Locks are waited for as long as the connection: a move that is being committed may hold one for longer than other work waits.
    tx.run("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
        .await?;
    take_turn(&tx, "nodes").await?;
    // Copying takes as long as it takes.
    Ok(tx.answered_within(None))
}

async fn is_committed(tx: &Tx<'_>, source: &Mutex<Relocation>) -> Result<bool, MoveError> {
    let id = source.lock().id().map(str::to_owned);
    match id {
        Some(id) => Ok(is_known(tx, &id).await?),
        None => Ok(false),
    }
}

/// Whether the tasks of this move are here.
pub(crate) async fn is_known(on: &impl Execute, id: &str) -> Result<bool, Fault> {
    let found = on.row("SELECT 1 FROM relocations WHERE id = $1", &[&id]).await?;
    Ok(found.is_some())
}

async fn check_empty(tx: &Tx<'_>, schema: &str) -> Result<(), MoveError> {
    let used = "SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks) OR EXISTS (SELECT 1 FROM nodes)";
    match tx.row(used, &[]).await? {
        Some(_) => Err(MoveError::NotEmpty(schema.to_owned())),
        None => Ok(()),
    }
}

/// The id of the move, which the data directory has from now on.
fn begun(source: &Mutex<Relocation>) -> Result<String, MoveError> {
    let mut source = source.lock();
    if let Some(id) = source.id() {
        return Ok(id.to_owned());
    }
    let id = format!("{:032x}", fastrand::u128(..));
    source.begin(&id)?;
    Ok(id)
}

async fn copy(
    tx: &Tx<'_>,
    source: &Arc<Mutex<Relocation>>,
    id: &str,
    now: UnixMillis,
    clock: &Clock,
    mut progress: impl FnMut(MoveProgress),
) -> Result<(), MoveError> {
    for table in tables() {
        rows::copy(tx, source, table, &mut progress).await?;
    }
    // As if the server had ended just now: its host has the usual time to come back for its commands.
    let ended = clock.now(tx).await?.0;
    tx.execute("UPDATE nodes SET ends_at = $1, lost_at = $1", &[&ended])
        .await?;
    let host = source.lock().host_id().0.to_string();
    let host = encode(&host);
    tx.execute(
        "INSERT INTO relocations (id, host, at) VALUES ($1, $2, $3)",
        &[&id, &host, &now.0],
    )
    .await?;
    // The first queries are planned by what there is.
    tx.run("ANALYZE specs, tasks, arguments, outcomes, inputs, journal, task_hosts")
        .await?;
    Ok(())
}
