//! Legacy sessions, which must not be ended while a task of theirs lives.

use super::{
    ClientJournal,
    error::{JournalError, Refusal},
    worker::Scope,
};
use crate::recorded_call::SessionRef;
use longhaul_core::Json;
use rusqlite::{OptionalExtension, named_params};

/// Whether a call needs session `s`. One of unknown outcome may have a task there too.
const IN_USE: &str = "EXISTS (SELECT 1 FROM calls c WHERE c.session = s.seq AND c.state IN (1, 2, 3))";

impl ClientJournal {
    /// The sessions with `server` that a call is sent in, or that a task lives in. They must not be ended.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn sessions_in_use(&self, server: impl Into<String>) -> Result<Vec<SessionRef>, JournalError> {
        let server = server.into();
        self.0.read(move |scope| in_use(scope, &server)).await
    }

    /// Whether this process may end a session with `DELETE`: no call is sent in it, and no task lives in it. From then on no process
    /// [begins](Self::begin) a call in it.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn end_session(
        &self,
        server: impl Into<String>,
        session_id: impl Into<String>,
    ) -> Result<bool, JournalError> {
        let (server, id) = (server.into(), session_id.into());
        self.0.write(move |scope| end(scope, &server, &id)).await
    }
}

fn in_use(scope: &Scope<'_>, server: &str) -> Result<Vec<SessionRef>, Refusal> {
    let sql = format!(
        "SELECT s.id, s.revision, s.capabilities FROM sessions s WHERE s.server = ?1 AND {IN_USE} ORDER BY s.seq"
    );
    let mut statement = scope.connection.prepare_cached(&sql)?;
    let sessions = statement.query_map([server], |row| {
        Ok(SessionRef {
            id: row.get(0)?,
            revision: row.get(1)?,
            capabilities: Json::trusted(row.get::<_, String>(2)?),
        })
    })?;
    Ok(sessions.collect::<Result<_, _>>()?)
}

fn end(scope: &Scope<'_>, server: &str, id: &str) -> Result<bool, Refusal> {
    let sql = format!("SELECT s.seq, {IN_USE} FROM sessions s WHERE s.server = ?1 AND s.id = ?2");
    let found = scope
        .connection
        .prepare_cached(&sql)?
        .query_row([server, id], |row| Ok((row.get(0)?, row.get(1)?)));
    let (seq, is_in_use): (i64, bool) = match found.optional()? {
        // No other process has heard of it.
        None => return Ok(true),
        Some(found) => found,
    };
    if !is_in_use {
        let sql = "UPDATE sessions SET ended_at = ?2 WHERE seq = ?1";
        scope.connection.prepare_cached(sql)?.execute((seq, scope.now.0))?;
    }
    Ok(!is_in_use)
}

/// The number of a session in which a call is about to be sent.
pub(super) fn record_open(scope: &Scope<'_>, server: &str, session: &SessionRef) -> Result<i64, Refusal> {
    let sql = "SELECT ended_at IS NOT NULL FROM sessions WHERE server = ?1 AND id = ?2";
    let ended = scope
        .connection
        .prepare_cached(sql)?
        .query_row([server, &session.id], |row| row.get(0));
    if ended.optional()? == Some(true) {
        return Err(JournalError::SessionEnded(session.id.clone()).into());
    }
    record(scope, server, session)
}

/// The number of a session. Records it, if it is new.
pub(super) fn record(scope: &Scope<'_>, server: &str, session: &SessionRef) -> Result<i64, Refusal> {
    let sql =
        "INSERT INTO sessions (server, id, revision, capabilities) VALUES (:server, :id, :revision, :capabilities)
               ON CONFLICT (server, id) DO UPDATE SET revision = excluded.revision, capabilities = excluded.capabilities
               RETURNING seq";
    let session = named_params! {
        ":server": server,
        ":id": session.id,
        ":revision": session.revision,
        ":capabilities": session.capabilities.as_str(),
    };
    Ok(scope
        .connection
        .prepare_cached(sql)?
        .query_row(session, |row| row.get(0))?)
}
