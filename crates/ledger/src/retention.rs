//! How long calls are listed after their end.

use longhaul_core::{Millis, UnixMillis};
use rusqlite::{Connection, Error, params};

const HOUR: Millis = 60 * 60 * 1000;
/// A finished call, or one of unknown outcome.
pub(crate) const ENDED: Millis = 24 * HOUR;
/// A task that was lost: it is asked for again, and may be found.
pub(crate) const LOST: Millis = 30 * 24 * HOUR;
/// A run over a file of calls, from its latest call on.
pub(crate) const BATCH: Millis = LOST;
/// How many calls one transaction deletes. More than one: each change adds at most one.
const PORTION: i64 = 16;

/// Which calls to delete. It reads no others.
pub(crate) const DUE: &str = "SELECT seq, session FROM calls WHERE delete_at <= ?1 ORDER BY delete_at LIMIT ?2";

/// Deletes some of the calls whose time has come, and the sessions that nothing refers to any more.
pub(crate) fn delete_some(connection: &Connection, now: UnixMillis) -> Result<(), Error> {
    let mut due = connection.prepare_cached(DUE)?;
    let due: Vec<(i64, Option<i64>)> = due
        .query_map(params![now.0, PORTION], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (call, session) in due {
        delete(connection, call, session)?;
    }
    Ok(())
}

/// Deletes a call with its questions, and its session if that was the last call of it.
pub(crate) fn delete(connection: &Connection, call: i64, session: Option<i64>) -> Result<(), Error> {
    connection
        .prepare_cached("DELETE FROM calls WHERE seq = ?1")?
        .execute([call])?;
    session.map_or(Ok(()), |session| delete_unused_session(connection, session))
}

/// Deletes the record of a session that no call refers to.
pub(crate) fn delete_unused_session(connection: &Connection, session: i64) -> Result<(), Error> {
    let sql = "DELETE FROM sessions WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM calls WHERE session = ?1)";
    connection.prepare_cached(sql)?.execute([session]).map(drop)
}
