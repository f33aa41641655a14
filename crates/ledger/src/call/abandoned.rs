//! Calls whose process has ended: those that nobody may send again, and those whose task has ended with it.

use crate::{ClientJournal, call::calls, refusal::Refusal, stored_call::StateCode, worker::Scope};
use longhaul_client::{CallId, JournalError, LONGEST_TAKE_OVER};

/// Why nobody sends a call without a key again.
const ENDED: &str = "the program ended before there was an answer";

/// Why a task is lost that has ended with its process.
pub(crate) const TASK_ENDED: &str = "it has ended with the command that started or connected to its server";

impl ClientJournal {
    /// Records what has become of calls whose process has ended. A task that ends with its process is [lost](Self::mark_lost). A call without a recorded answer
    /// is of [unknown outcome](Self::mark_unknown) if nobody may send it again: it has no idempotency key, or began more than a day ago, so that its server may
    /// have forgotten the key. If there is no such call, nothing is written.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn settle_abandoned(&self) -> Result<(), JournalError> {
        let has_any = |scope: &Scope<'_>| Ok(!abandoned(scope)?.is_empty() || !ended_tasks(scope)?.is_empty());
        if !self.0.read(has_any).await? {
            return Ok(());
        }
        self.0.write(settle).await
    }
}

fn settle(scope: &Scope<'_>) -> Result<(), Refusal> {
    for (call, reason) in abandoned(scope)? {
        calls::mark_unknown(scope, call, reason)?;
    }
    for call in ended_tasks(scope)? {
        calls::mark_lost(scope, call, TASK_ENDED)?;
    }
    Ok(())
}

/// The tasks that have ended with their processes.
fn ended_tasks(scope: &Scope<'_>) -> Result<Vec<CallId>, Refusal> {
    let sql = "SELECT seq, process FROM calls WHERE state = ?1 AND process IS NOT NULL ORDER BY seq";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let bound = statement.query_map([StateCode::Task.code()], |row| {
        Ok((CallId::from_number(row.get(0)?), row.get::<_, String>(1)?))
    })?;
    let bound: Vec<(CallId, String)> = bound.collect::<Result<_, _>>()?;
    let ended = bound.into_iter().filter(|(_, process)| !scope.locks.is_alive(process));
    Ok(ended.map(|(call, _)| call).collect())
}

/// The calls, and why they are not sent again.
fn abandoned(scope: &Scope<'_>) -> Result<Vec<(CallId, &'static str)>, Refusal> {
    let sql = "SELECT seq, process, idempotency_key IS NULL FROM calls
               WHERE state = ?1 AND (idempotency_key IS NULL OR begun_at <= ?2) ORDER BY seq";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let oldest = scope.now.0 - calls::stored_millis(LONGEST_TAKE_OVER);
    let intents = statement.query_map((StateCode::Intent.code(), oldest), |row| {
        let reason = match row.get(2)? {
            true => ENDED,
            false => calls::FORGOTTEN,
        };
        Ok((
            CallId::from_number(row.get(0)?),
            reason,
            row.get::<_, Option<String>>(1)?,
        ))
    })?;
    let mut abandoned = Vec::new();
    for intent in intents {
        let (call, reason, process) = intent?;
        if process.is_none_or(|process| !scope.locks.is_alive(&process)) {
            abandoned.push((call, reason));
        }
    }
    Ok(abandoned)
}
