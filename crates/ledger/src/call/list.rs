//! Reading what is recorded.

use crate::{ClientJournal, call::abandoned, refusal::Refusal, stored_call::StateCode, worker::Scope};
use longhaul_client::{
    BatchLine, CallFilter, CallId, CallState, Finished, JournalError, RecordedCall, SessionRef, TaskRef,
};
use longhaul_core::{Json, Millis, UnixMillis};
use longhaul_wire::{Generation, TaskStatus};
use rusqlite::{Error, Row, ToSql, types::Type};
use std::collections::HashMap;

/// The shortest part of a task id that stands for it.
const SHORTEST_PART: usize = 4;

impl ClientJournal {
    /// Lists calls, the latest first.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn list(&self, filter: CallFilter) -> Result<Vec<RecordedCall>, JournalError> {
        let select = move |scope: &Scope<'_>| {
            let limit = filter.limit.map_or(-1, i64::from);
            let condition = match filter.unfinished {
                true => "c.state IN (1, 2, 3) AND (?2 IS NULL OR c.server = ?2) ORDER BY c.seq DESC LIMIT ?3",
                false => "(?2 IS NULL OR c.server = ?2) ORDER BY c.seq DESC LIMIT ?3",
            };
            let mut calls = select(scope, condition, &[&filter.server, &limit])?;
            calls.retain(|call| !(filter.unfinished && matches!(call.state, CallState::Lost { .. })));
            Ok(calls)
        };
        self.0.read(select).await
    }

    /// The call with this number.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn get(&self, call: CallId) -> Result<RecordedCall, JournalError> {
        let select = move |scope: &Scope<'_>| {
            let found = select(scope, "c.seq = ?2", &[&call.number()])?.pop();
            found.ok_or(Refusal::Journal(JournalError::UnknownCall(call)))
        };
        self.0.read(select).await
    }

    /// The latest call of a line.
    pub(crate) async fn batch_call(&self, line: BatchLine) -> Result<Option<RecordedCall>, JournalError> {
        let read = move |scope: &Scope<'_>| {
            let condition = "c.batch = ?2 AND c.batch_line = ?3 ORDER BY c.seq DESC LIMIT 1";
            Ok(select(scope, condition, &[&line.batch, &line.name])?.pop())
        };
        self.0.read(read).await
    }

    /// The live tasks, the latest first: those whose end was not fetched yet.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn live(&self) -> Result<Vec<RecordedCall>, JournalError> {
        let select = |scope: &Scope<'_>| {
            let mut calls = select(scope, "c.state = 2 ORDER BY c.seq DESC", &[])?;
            calls.retain(|call| call.state == CallState::Task);
            Ok(calls)
        };
        self.0.read(select).await
    }

    /// The calls whose process has ended without recording an answer, the earliest first; see [`claim_unresolved`](Self::claim_unresolved).
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn unresolved(&self) -> Result<Vec<RecordedCall>, JournalError> {
        let select = |scope: &Scope<'_>| {
            let mut calls = select(scope, "c.state = 1 ORDER BY c.seq", &[])?;
            calls.retain(|call| call.state == CallState::Interrupted);
            Ok(calls)
        };
        self.0.read(select).await
    }

    /// The calls with the task id `part`; if there are none, those whose task id contains `part`, which then must have at least four
    /// characters. Several are found if ids of different servers are equal, or if `part` is not unique.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn find(&self, part: impl Into<String>) -> Result<Vec<RecordedCall>, JournalError> {
        let part = part.into();
        let select = move |scope: &Scope<'_>| {
            let exact = select(scope, "c.task_id = ?2 ORDER BY c.seq DESC", &[&part])?;
            if !exact.is_empty() || part.chars().count() < SHORTEST_PART {
                return Ok(exact);
            }
            // A look at each task id, which takes a few milliseconds for ten thousand.
            let condition = "c.task_id IS NOT NULL AND instr(c.task_id, ?2) > 0 ORDER BY c.seq DESC";
            select(scope, condition, &[&part])
        };
        self.0.read(select).await
    }
}

/// The calls for which `condition` holds, with its parameters from `?2` on.
fn select(scope: &Scope<'_>, condition: &str, parameters: &[&dyn ToSql]) -> Result<Vec<RecordedCall>, Refusal> {
    let sql = format!(
        "SELECT c.seq, c.server, c.server_name, c.tool, c.arguments_digest, c.idempotency_key, c.state, c.process, c.task_id, c.generation,
                c.task_created_at, c.ttl, c.status, c.finished, c.reason, c.login, c.begun_at, c.changed_at, s.id AS session_id, s.revision,
                s.capabilities, EXISTS (SELECT 1 FROM questions q WHERE q.call = c.seq AND q.state = 1) AS is_asked
         FROM calls c LEFT JOIN sessions s ON s.seq = c.session
         WHERE (c.delete_at IS NULL OR c.delete_at > ?1) AND {condition}"
    );
    let mut statement = scope.connection.prepare_cached(&sql)?;
    let mut all: Vec<&dyn ToSql> = vec![&scope.now.0];
    all.extend(parameters);
    let mut rows = statement.query(all.as_slice())?;
    let mut alive = HashMap::new();
    let mut calls = Vec::new();
    while let Some(row) = rows.next()? {
        calls.push(read(row, |process| {
            *alive
                .entry(process.to_owned())
                .or_insert_with(|| scope.locks.is_alive(process))
        })?);
    }
    Ok(calls)
}

fn read(row: &Row<'_>, mut is_alive: impl FnMut(&str) -> bool) -> Result<RecordedCall, Error> {
    let code = read_code(row, "state", StateCode::from_code)?;
    let state = match code {
        StateCode::Intent => match row
            .get::<_, Option<String>>("process")?
            .as_deref()
            .is_some_and(&mut is_alive)
        {
            true => CallState::InFlight,
            false => CallState::Interrupted,
        },
        StateCode::Task => match row.get::<_, Option<String>>("process")? {
            Some(process) if !is_alive(&process) => CallState::Lost {
                reason: abandoned::TASK_ENDED.to_owned(),
            },
            _ => CallState::Task,
        },
        StateCode::Unknown => CallState::Unknown {
            reason: row.get("reason")?,
        },
        StateCode::Lost => CallState::Lost {
            reason: row.get("reason")?,
        },
        StateCode::Finished => CallState::Finished(read_code(row, "finished", Finished::from_code)?),
    };
    let status = row.get::<_, Option<String>>("status")?;
    let status = status.and_then(|status| TaskStatus::parse(&status));
    let ends_with_process = state == CallState::Task && row.get::<_, Option<String>>("process")?.is_some();
    let is_open = matches!(code, StateCode::Intent | StateCode::Task);
    let task = read_task(row)?;
    // The status of a modern task says whether it asks: another client may have answered. Some legacy servers ask in any status.
    let says_by_status = task.as_ref().is_some_and(|task| task.generation == Generation::Modern);
    Ok(RecordedCall {
        id: CallId::from_number(row.get("seq")?),
        server: row.get("server")?,
        server_name: row.get("server_name")?,
        tool: row.get("tool")?,
        arguments_digest: row.get("arguments_digest")?,
        idempotency_key: row.get("idempotency_key")?,
        login: row.get("login")?,
        state,
        ends_with_process,
        task,
        status,
        asks: is_open && (status == Some(TaskStatus::InputRequired) || (!says_by_status && row.get("is_asked")?)),
        begun_at: UnixMillis(row.get("begun_at")?),
        changed_at: UnixMillis(row.get("changed_at")?),
    })
}

fn read_task(row: &Row<'_>) -> Result<Option<TaskRef>, Error> {
    let Some(task_id) = row.get("task_id")? else {
        return Ok(None);
    };
    let session = match row.get("session_id")? {
        None => None,
        Some(id) => Some(SessionRef {
            id,
            revision: row.get("revision")?,
            capabilities: Json::trusted(row.get::<_, String>("capabilities")?),
        }),
    };
    let ttl = row.get::<_, Option<i64>>("ttl")?;
    Ok(Some(TaskRef {
        task_id,
        generation: read_code(row, "generation", generation_from_code)?,
        session,
        created_at: row.get("task_created_at")?,
        ttl: ttl.and_then(|ttl| Millis::try_from(ttl).ok()),
    }))
}

fn generation_from_code(code: i64) -> Option<Generation> {
    match code {
        1 => Some(Generation::Legacy),
        2 => Some(Generation::Modern),
        _ => None,
    }
}

fn read_code<T>(row: &Row<'_>, column: &str, from_code: fn(i64) -> Option<T>) -> Result<T, Error> {
    let code = row.get(column)?;
    from_code(code).ok_or_else(|| {
        let reason = format!("unknown code {code} of `{column}`");
        Error::FromSqlConversionFailure(0, Type::Integer, reason.into())
    })
}
