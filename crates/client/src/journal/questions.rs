//! Questions to the user: each is asked once, by one of the processes that could.

use crate::journal::{
    ClientJournal,
    error::{JournalError, Refusal},
    recorded_call::{CallId, StateCode},
    server_requests::{self, RequestNumber},
    stored_call::StoredCall,
    worker::Scope,
};
use longhaul_core::Json;
use rusqlite::{OptionalExtension, Params, named_params};
use sha2::{Digest, Sha256};

/// Whether the user is to be asked a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Ask the user now. A process that asked before has ended without an answer, or there was none.
    First,
    /// A process that lives asks the user, or is sending the answer. It may be this one.
    Pending,
    /// The user has answered, and the server may not have got the answer: send this one.
    Answered(Json),
    /// The server has accepted an answer.
    Accepted,
}

impl ClientJournal {
    /// Whether to ask the user the question `key` of a call. After [`Asked::First`] and [`Asked::Answered`] the question is in the hands of this
    /// process until it ends or [releases](Self::release_question) it.
    ///
    /// # Errors
    /// [`JournalError::WrongState`] if the call is neither in flight nor a task, [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn ask(&self, call: CallId, key: impl Into<String>) -> Result<Asked, JournalError> {
        let key = key.into();
        self.0.write(move |scope| ask(scope, call, &key)).await
    }

    /// As [`ask`](Self::ask), for a recorded request of the server. [`Asked::Accepted`] if the server has a response to it, or wants none.
    pub(crate) async fn ask_for(
        &self,
        call: CallId,
        key: impl Into<String>,
        request: RequestNumber,
    ) -> Result<Asked, JournalError> {
        let key = key.into();
        self.0
            .write(move |scope| match server_requests::is_open(scope, request)? {
                true => ask(scope, call, &key),
                false => Ok(Asked::Accepted),
            })
            .await
    }

    /// Records the user's answer. Send it if this returns `true`. If it returns `false`, the question has another answer already, and this one
    /// must not be sent.
    ///
    /// The answer is kept until the server has [accepted](Self::answer_accepted) it.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn record_answer(
        &self,
        call: CallId,
        key: impl Into<String>,
        answer: Json,
    ) -> Result<bool, JournalError> {
        let key = key.into();
        self.0
            .write(move |scope| record_answer(scope, call, &key, &answer))
            .await
    }

    /// As [`record_answer`](Self::record_answer), for a recorded request of the server. `false` also if the server has a response to it, or wants none.
    /// `task_updated_at` is when the task had changed last.
    pub(crate) async fn record_answer_for(
        &self,
        call: CallId,
        key: impl Into<String>,
        request: RequestNumber,
        answer: Json,
        task_updated_at: Option<String>,
    ) -> Result<bool, JournalError> {
        let key = key.into();
        self.0
            .write(move |scope| {
                let may_send = server_requests::is_open(scope, request)? && record_answer(scope, call, &key, &answer)?;
                if may_send {
                    server_requests::note_task(scope, call, &key, task_updated_at.as_deref())?;
                }
                Ok(may_send)
            })
            .await
    }

    /// Records that the server has the answer, and deletes the answer. Of a question that is not known it records nothing.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn answer_accepted(&self, call: CallId, key: impl Into<String>) -> Result<(), JournalError> {
        let key = key.into();
        let sql = "UPDATE questions SET state = 3, process = NULL, answer = NULL WHERE call = ?1 AND key = ?2";
        self.0
            .write(move |scope| change(scope, call, sql, (call.number(), &key)))
            .await
    }

    /// Gives up a question that is in the hands of this process, without waiting for its end. The next [`ask`](Self::ask) returns
    /// [`Asked::First`], or [`Asked::Answered`] with the answer that was recorded.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn release_question(&self, call: CallId, key: impl Into<String>) -> Result<(), JournalError> {
        let key = key.into();
        self.0.write(move |scope| release(scope, call, &key)).await
    }

    /// As [`release_question`](Self::release_question), without waiting: before every change that is asked for later.
    pub(crate) fn enqueue_release_question(
        &self,
        call: CallId,
        key: String,
    ) -> impl Future<Output = Result<(), JournalError>> + use<> {
        let released = self.0.enqueue(move |scope| release(scope, call, &key));
        async move { released.await.unwrap_or(Ok(())) }
    }

    /// Discards an answer that the server has refused, so that the user can be asked again.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn answer_refused(&self, call: CallId, key: impl Into<String>) -> Result<(), JournalError> {
        let key = key.into();
        let sql = "DELETE FROM questions WHERE call = ?1 AND key = ?2 AND state = 2 AND process = ?3";
        self.0
            .write(move |scope| change(scope, call, sql, (call.number(), &key, scope.process)))
            .await
    }
}

/// The stored state of a question: the codes of the column, and of the statements above.
const ASKED: i64 = 1;
const ANSWERED: i64 = 2;

struct StoredQuestion {
    state: i64,
    process: Option<String>,
    answer: Option<String>,
    digest: Option<[u8; 32]>,
}

impl StoredQuestion {
    fn read(scope: &Scope<'_>, call: CallId, key: &str) -> Result<Option<Self>, Refusal> {
        let stored = StoredCall::read(scope, call)?;
        if !matches!(stored.state, StateCode::Intent | StateCode::Task) {
            return Err(stored.refuse("answer a question of"));
        }
        let sql = "SELECT state, process, answer, digest FROM questions WHERE call = ?1 AND key = ?2";
        let found = scope
            .connection
            .prepare_cached(sql)?
            .query_row((call.number(), key), |row| {
                Ok(Self {
                    state: row.get(0)?,
                    process: row.get(1)?,
                    answer: row.get(2)?,
                    digest: row.get(3)?,
                })
            });
        Ok(found.optional()?)
    }

    /// Whether a process that lives, this one included, deals with it.
    fn is_in_hands(&self, scope: &Scope<'_>) -> bool {
        self.process
            .as_deref()
            .is_some_and(|process| scope.locks.is_alive(process))
    }
}

pub(super) fn ask(scope: &Scope<'_>, call: CallId, key: &str) -> Result<Asked, Refusal> {
    let asked = match StoredQuestion::read(scope, call, key)? {
        None => {
            let sql = "INSERT INTO questions (call, key, state, process) VALUES (?1, ?2, ?3, ?4)";
            let question = (call.number(), key, ASKED, scope.process);
            scope.connection.prepare_cached(sql)?.execute(question)?;
            return Ok(Asked::First);
        }
        Some(question) if !matches!(question.state, ASKED | ANSWERED) => return Ok(Asked::Accepted),
        Some(question) if question.is_in_hands(scope) => return Ok(Asked::Pending),
        Some(question) => question
            .answer
            .map_or(Asked::First, |answer| Asked::Answered(Json::trusted(answer))),
    };
    let sql = "UPDATE questions SET process = ?3 WHERE call = ?1 AND key = ?2";
    change(scope, call, sql, (call.number(), key, scope.process))?;
    Ok(asked)
}

pub(super) fn record_answer(scope: &Scope<'_>, call: CallId, key: &str, answer: &Json) -> Result<bool, Refusal> {
    let digest: [u8; 32] = Sha256::digest(answer.as_str()).into();
    match StoredQuestion::read(scope, call, key)? {
        Some(question) if question.state != ASKED => {
            // Repeated, for instance because the first return was an error.
            let is_same = question.digest == Some(digest) && question.process.as_deref() == Some(scope.process);
            return Ok(question.state == ANSWERED && is_same);
        }
        _ => {}
    }
    let sql = "INSERT INTO questions (call, key, state, process, answer, digest) VALUES (:call, :key, :state, :process, :answer, :digest)
               ON CONFLICT (call, key) DO UPDATE
               SET state = excluded.state, process = excluded.process, answer = excluded.answer, digest = excluded.digest";
    scope.connection.prepare_cached(sql)?.execute(named_params! {
        ":call": call.number(),
        ":key": key,
        ":state": ANSWERED,
        ":process": scope.process,
        ":answer": answer.as_str(),
        ":digest": digest,
    })?;
    Ok(true)
}

pub(super) fn release(scope: &Scope<'_>, call: CallId, key: &str) -> Result<(), Refusal> {
    let sql = "UPDATE questions SET process = NULL WHERE call = ?1 AND key = ?2 AND process = ?3";
    change(scope, call, sql, (call.number(), key, scope.process))
}

/// Runs a statement about a question of a call that is known.
fn change(scope: &Scope<'_>, call: CallId, sql: &str, parameters: impl Params) -> Result<(), Refusal> {
    StoredCall::read(scope, call)?;
    scope.connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}
