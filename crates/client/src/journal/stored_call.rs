//! What is stored of a call.

use crate::journal::{
    error::{JournalError, Refusal},
    recorded_call::{CallId, StateCode},
    worker::Scope,
};
use rusqlite::{OptionalExtension, named_params};

/// What decides which changes fit.
pub(super) struct StoredCall {
    pub(super) call: CallId,
    pub(super) state: StateCode,
    pub(super) process: Option<String>,
    pub(super) task_id: Option<String>,
    pub(super) session: Option<i64>,
    pub(super) status: Option<String>,
}

impl StoredCall {
    /// Whether it is a task that ends with another process, which lives.
    pub(super) fn is_followed_elsewhere(&self, scope: &Scope<'_>) -> bool {
        let is_elsewhere = |process: &str| process != scope.process && scope.locks.is_alive(process);
        self.state == StateCode::Task && self.process.as_deref().is_some_and(is_elsewhere)
    }

    pub(super) fn read(scope: &Scope<'_>, call: CallId) -> Result<Self, Refusal> {
        let sql = "SELECT state, process, task_id, session, status FROM calls
                   WHERE seq = :call AND (delete_at IS NULL OR delete_at > :now)";
        let found = scope
            .connection
            .prepare_cached(sql)?
            .query_row(named_params! {":call": call.number(), ":now": scope.now.0}, |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })
            .optional()?;
        let (state, process, task_id, session, status) = found.ok_or(JournalError::UnknownCall(call))?;
        let state = StateCode::from_code(state).ok_or(JournalError::UnknownCall(call))?;
        Ok(Self {
            call,
            state,
            process,
            task_id,
            session,
            status,
        })
    }

    pub(super) fn refuse(&self, action: &'static str) -> Refusal {
        JournalError::WrongState {
            call: self.call,
            action,
            state: self.state.describe(),
        }
        .into()
    }

    /// Whether another process that lives is sending the call.
    pub(super) fn is_in_other_hands(&self, scope: &Scope<'_>) -> bool {
        let other = self.process.as_deref().filter(|process| *process != scope.process);
        self.state == StateCode::Intent && other.is_some_and(|process| scope.locks.is_alive(process))
    }
}
