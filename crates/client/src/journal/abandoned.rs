//! Calls whose process has ended, and that nobody may send again.

use super::{
    ClientJournal, calls,
    error::{JournalError, Refusal},
    retention,
    worker::Scope,
};
use crate::recorded_call::{CallId, StateCode};
use longhaul_core::Millis;

/// Why nobody sends a call without a key again.
const ENDED: &str = "the program ended before there was an answer";

impl ClientJournal {
    /// Records as of [unknown outcome](Self::mark_unknown) each call whose process has ended without recording an answer, and that nobody may send again: it has
    /// no idempotency key, or began more than a day ago, so that its server may have forgotten the key. Without such a call nothing is written.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn settle_abandoned(&self) -> Result<(), JournalError> {
        if self.0.read(abandoned).await?.is_empty() {
            return Ok(());
        }
        self.0.write(settle).await
    }
}

fn settle(scope: &Scope<'_>) -> Result<(), Refusal> {
    for (call, reason) in abandoned(scope)? {
        calls::mark_unknown(scope, call, reason)?;
    }
    Ok(())
}

/// The calls, and why they are not sent again.
fn abandoned(scope: &Scope<'_>) -> Result<Vec<(CallId, &'static str)>, Refusal> {
    const DAY: Millis = retention::TAKEN_OVER;
    let sql = "SELECT seq, process, idempotency_key IS NULL FROM calls
               WHERE state = ?1 AND (idempotency_key IS NULL OR begun_at <= ?2) ORDER BY seq";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let oldest = scope.now.0 - calls::stored_millis(DAY);
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
