//! Runs over files of calls. A run that was interrupted is continued: what is known of its calls is kept until it is over.

use crate::{ClientJournal, refusal::Refusal, retention, worker::Scope};
use longhaul_client::{BatchLine, CallId, JournalError, OtherLogin};
use longhaul_core::UnixMillis;
use rusqlite::{Row, named_params, params};

/// A run that is about to begin, or to be continued.
#[derive(Debug, Clone)]
pub(crate) struct NewBatch {
    pub(crate) server: String,
    pub(crate) server_name: Option<String>,
    /// What the calls are read from.
    pub(crate) file: String,
    pub(crate) login: Option<String>,
    /// Whether it is a new run in any case.
    pub(crate) is_new: bool,
}

/// A run as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredBatch {
    pub(crate) number: i64,
    pub(crate) key: String,
    pub(crate) begun_at: UnixMillis,
    /// How many of its calls were recorded before.
    pub(crate) calls: i64,
}

impl ClientJournal {
    /// Begins a run, or continues the one of this file that is not over.
    pub(crate) async fn store_batch(&self, batch: NewBatch) -> Result<StoredBatch, JournalError> {
        self.0.write(move |scope| begin(scope, &batch)).await
    }

    /// Records that a run is over. Its calls are deleted as others are.
    pub(crate) async fn finish_batch(&self, number: i64) -> Result<(), JournalError> {
        self.0.write(move |scope| finish(scope, number)).await
    }
}

fn begin(scope: &Scope<'_>, batch: &NewBatch) -> Result<StoredBatch, Refusal> {
    let sql = "DELETE FROM batches WHERE delete_at <= ?1";
    scope.connection.prepare_cached(sql)?.execute([scope.now.0])?;
    let sql =
        "SELECT b.seq, b.key, b.begun_at, b.login, (SELECT count(*) FROM calls c WHERE c.batch = b.seq) FROM batches b
               WHERE b.file = ?1 AND b.server = ?2 AND b.server_name IS ?3 ORDER BY b.seq DESC";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let earlier = statement.query_map(params![batch.file, batch.server, batch.server_name], |row| {
        let stored = StoredBatch {
            number: row.get(0)?,
            key: row.get(1)?,
            begun_at: UnixMillis(row.get(2)?),
            calls: row.get(4)?,
        };
        Ok((stored, row.get::<_, Option<String>>(3)?))
    })?;
    let earlier: Vec<(StoredBatch, Option<String>)> = earlier.collect::<Result<_, _>>()?;
    // The server does not know the keys and tasks of another user.
    let own = earlier
        .into_iter()
        .filter(|(_, login)| !OtherLogin::are_two_users(login.as_deref(), batch.login.as_deref()));
    for (stored, _) in own {
        if !batch.is_new {
            return Ok(stored);
        }
        finish(scope, stored.number)?;
    }
    let sql = "INSERT INTO batches (server, server_name, file, login, key, begun_at, delete_at)
               VALUES (:server, :server_name, :file, :login, lower(hex(randomblob(16))), :now, :delete_at)
               RETURNING seq, key";
    let begun = named_params! {
        ":server": batch.server,
        ":server_name": batch.server_name,
        ":file": batch.file,
        ":login": batch.login,
        ":now": scope.now.0,
        ":delete_at": scope.now.plus(retention::BATCH).0,
    };
    let new = |row: &Row<'_>| {
        Ok(StoredBatch {
            number: row.get(0)?,
            key: row.get(1)?,
            begun_at: scope.now,
            calls: 0,
        })
    };
    Ok(scope.connection.prepare_cached(sql)?.query_row(begun, new)?)
}

/// A call of the run begins. It takes the place of an earlier one of its line that has ended.
pub(crate) fn begin_line(scope: &Scope<'_>, line: &BatchLine) -> Result<(), Refusal> {
    let sql = "UPDATE batches SET delete_at = ?2 WHERE seq = ?1";
    let kept = (line.batch, scope.now.plus(retention::BATCH).0);
    scope.connection.prepare_cached(sql)?.execute(kept)?;
    let sql = "SELECT seq, session FROM calls WHERE batch = ?1 AND batch_line = ?2 AND state IN (3, 5)";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let ended = statement.query_map((line.batch, &line.name), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let ended: Vec<(i64, Option<i64>)> = ended.collect::<Result<_, _>>()?;
    for (call, session) in ended {
        retention::delete(scope.connection, call, session)?;
    }
    Ok(())
}

/// A call that is taken over is that of a line from now on.
pub(crate) fn take_line(scope: &Scope<'_>, line: &BatchLine, call: CallId) -> Result<(), Refusal> {
    let sql = "UPDATE calls SET batch = ?2, batch_line = ?3 WHERE seq = ?1";
    let changed = (call.number(), line.batch, &line.name);
    Ok(scope.connection.prepare_cached(sql)?.execute(changed).map(drop)?)
}

fn finish(scope: &Scope<'_>, number: i64) -> Result<(), Refusal> {
    let sql = "UPDATE calls SET delete_at = min(delete_at, ?2) WHERE batch = ?1 AND state IN (3, 5) AND delete_at IS NOT NULL";
    let due = (number, scope.now.plus(retention::ENDED).0);
    scope.connection.prepare_cached(sql)?.execute(due)?;
    let sql = "DELETE FROM batches WHERE seq = ?1";
    Ok(scope.connection.prepare_cached(sql)?.execute([number]).map(drop)?)
}
