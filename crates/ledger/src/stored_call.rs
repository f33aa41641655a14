//! What is stored of a call.

use crate::{refusal::Refusal, worker::Scope};
use longhaul_client::{CallId, JournalError};
use rusqlite::{OptionalExtension, named_params};

/// What decides which changes fit.
pub(crate) struct StoredCall {
    pub(crate) call: CallId,
    pub(crate) state: StateCode,
    pub(crate) process: Option<String>,
    pub(crate) task_id: Option<String>,
    pub(crate) session: Option<i64>,
    pub(crate) status: Option<String>,
}

impl StoredCall {
    /// Whether it is a task that ends with another process, which lives.
    pub(crate) fn is_followed_elsewhere(&self, scope: &Scope<'_>) -> bool {
        let is_elsewhere = |process: &str| process != scope.process && scope.locks.is_alive(process);
        self.state == StateCode::Task && self.process.as_deref().is_some_and(is_elsewhere)
    }

    pub(crate) fn read(scope: &Scope<'_>, call: CallId) -> Result<Self, Refusal> {
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

    pub(crate) fn refuse(&self, action: &'static str) -> Refusal {
        JournalError::WrongState {
            call: self.call,
            action,
            state: self.state.describe(),
        }
        .into()
    }

    /// Whether another process that lives is sending the call.
    pub(crate) fn is_in_other_hands(&self, scope: &Scope<'_>) -> bool {
        let other = self.process.as_deref().filter(|process| *process != scope.process);
        self.state == StateCode::Intent && other.is_some_and(|process| scope.locks.is_alive(process))
    }
}

/// The stored code of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateCode {
    Intent = 1,
    Task = 2,
    Unknown = 3,
    Lost = 4,
    Finished = 5,
}

impl StateCode {
    const ALL: [Self; 5] = [Self::Intent, Self::Task, Self::Unknown, Self::Lost, Self::Finished];

    pub(crate) fn code(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// In words, for errors.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Intent => "in flight",
            Self::Task => "a task",
            Self::Unknown => "of unknown outcome",
            Self::Lost => "lost",
            Self::Finished => "finished",
        }
    }
}
