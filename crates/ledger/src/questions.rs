//! Questions to the user: each is asked once, by one of the processes that could.

use crate::{
    ClientJournal,
    refusal::Refusal,
    server_requests,
    stored_call::{StateCode, StoredCall},
    worker::Scope,
};
use longhaul_client::{Asked, CallId, JournalError, RequestNumber};
use longhaul_core::Json;
use rusqlite::{OptionalExtension, Params, named_params};
use sha2::{Digest, Sha256};

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

    /// Records that the server has the answer, and deletes the answer. Of a question that is not known it records nothing.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn answer_accepted(&self, call: CallId, key: impl Into<String>) -> Result<(), JournalError> {
        let key = key.into();
        self.0.write(move |scope| accept(scope, call, &key)).await
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

    /// Discards an answer that the server has refused, so that the user can be asked again.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn answer_refused(&self, call: CallId, key: impl Into<String>) -> Result<(), JournalError> {
        let key = key.into();
        self.0.write(move |scope| refuse(scope, call, &key)).await
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

/// As [`ask`]: for a recorded request of the server, [`Asked::Accepted`] if the server has a response to it, or wants none.
pub(crate) fn ask_for(
    scope: &Scope<'_>,
    call: CallId,
    key: &str,
    request: Option<RequestNumber>,
) -> Result<Asked, Refusal> {
    match request {
        Some(request) if !server_requests::is_open(scope, request)? => Ok(Asked::Accepted),
        _ => ask(scope, call, key),
    }
}

/// As [`record_answer`]: for a recorded request of the server `false` also if the server has a response to it, or wants none. With the request goes when
/// the task had changed last.
pub(crate) fn record_answer_for(
    scope: &Scope<'_>,
    call: CallId,
    key: &str,
    answer: &Json,
    request: Option<&(RequestNumber, Option<String>)>,
) -> Result<bool, Refusal> {
    let Some((request, task_updated_at)) = request else {
        return record_answer(scope, call, key, answer);
    };
    let may_send = server_requests::is_open(scope, *request)? && record_answer(scope, call, key, answer)?;
    if may_send {
        server_requests::note_task(scope, call, key, task_updated_at.as_deref())?;
    }
    Ok(may_send)
}

pub(crate) fn ask(scope: &Scope<'_>, call: CallId, key: &str) -> Result<Asked, Refusal> {
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

pub(crate) fn record_answer(scope: &Scope<'_>, call: CallId, key: &str, answer: &Json) -> Result<bool, Refusal> {
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

pub(crate) fn release(scope: &Scope<'_>, call: CallId, key: &str) -> Result<(), Refusal> {
    let sql = "UPDATE questions SET process = NULL WHERE call = ?1 AND key = ?2 AND process = ?3";
    change(scope, call, sql, (call.number(), key, scope.process))
}

/// The server has the answer.
pub(crate) fn accept(scope: &Scope<'_>, call: CallId, key: &str) -> Result<(), Refusal> {
    let sql = "UPDATE questions SET state = 3, process = NULL, answer = NULL WHERE call = ?1 AND key = ?2";
    change(scope, call, sql, (call.number(), key))
}

/// The server has refused the answer.
pub(crate) fn refuse(scope: &Scope<'_>, call: CallId, key: &str) -> Result<(), Refusal> {
    let sql = "DELETE FROM questions WHERE call = ?1 AND key = ?2 AND state = 2 AND process = ?3";
    change(scope, call, sql, (call.number(), key, scope.process))
}

/// Forgets a question with its answer. The call may have gone.
pub(crate) fn forget(scope: &Scope<'_>, call: CallId, key: &str) -> Result<(), Refusal> {
    let sql = "DELETE FROM questions WHERE call = ?1 AND key = ?2";
    let forgotten = (call.number(), key);
    Ok(scope.connection.prepare_cached(sql)?.execute(forgotten).map(drop)?)
}

/// Runs a statement about a question of a call that is known.
fn change(scope: &Scope<'_>, call: CallId, sql: &str, parameters: impl Params) -> Result<(), Refusal> {
    StoredCall::read(scope, call)?;
    scope.connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}
