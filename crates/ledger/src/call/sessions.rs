//! Legacy sessions, which must not be ended once there is a task in them: other processes may wait for it, also when its result was fetched.

use crate::{ClientJournal, refusal::Refusal, worker::Scope};
use longhaul_client::{JournalError, SessionRef};
use longhaul_core::Json;
use rusqlite::{OptionalExtension, named_params};

/// Whether session `s` is needed: a call is sent in it, or it has, or may have, a task.
const IN_USE: &str =
    "EXISTS (SELECT 1 FROM calls c WHERE c.session = s.seq AND (c.state IN (1, 3) OR c.task_id IS NOT NULL))";

impl ClientJournal {
    /// The sessions with `server` that a call is sent in, or that a listed task is in. They must not be ended: the server ends them when nobody uses them.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn sessions_in_use(&self, server: impl Into<String>) -> Result<Vec<SessionRef>, JournalError> {
        let server = server.into();
        self.0.read(move |scope| in_use(scope, &server)).await
    }

    /// Whether this process may end a session with `DELETE`: no call is sent in it, and no task is in it that is listed, whether it has ended or not. Any number
    /// of processes may wait for one task, and nobody knows which of them is the last.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn may_end_session(
        &self,
        server: impl Into<String>,
        session_id: impl Into<String>,
    ) -> Result<bool, JournalError> {
        let (server, id) = (server.into(), session_id.into());
        self.0.read(move |scope| may_end(scope, &server, &id)).await
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

pub(crate) fn may_end(scope: &Scope<'_>, server: &str, id: &str) -> Result<bool, Refusal> {
    let sql = format!("SELECT {IN_USE} FROM sessions s WHERE s.server = ?1 AND s.id = ?2");
    let mut statement = scope.connection.prepare_cached(&sql)?;
    let is_in_use = statement.query_row([server, id], |row| row.get::<_, bool>(0));
    // No other process has heard of a session that is not recorded.
    Ok(!is_in_use.optional()?.unwrap_or(false))
}

/// The number of a session. Records it, if it is new.
pub(crate) fn record(scope: &Scope<'_>, server: &str, session: &SessionRef) -> Result<i64, Refusal> {
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
