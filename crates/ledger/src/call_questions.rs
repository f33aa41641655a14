//! What calls ask before they are tasks, and what those tasks ask that only the process of the call reaches. Another process can show and answer it: the one that
//! makes the call watches for the answer, and sends it.

use crate::{
    ClientJournal,
    questions::{ask, record_answer, release},
    refusal::Refusal,
    server_requests,
    worker::Scope,
};
use longhaul_client::{Asked, CallId, InputRequest, InputResponse, JournalError, RequestNumber};
use longhaul_core::ParsedJson;
use rusqlite::OptionalExtension;

/// The longest question that other processes are shown, in bytes.
const MAX_LENGTH: usize = 256 * 1024;

impl ClientJournal {
    /// What a call asks that is no task, or whose task [ends with its process](longhaul_client::RecordedCall::ends_with_process), and nobody has answered.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn call_questions(&self, call: CallId) -> Result<Vec<InputRequest>, JournalError> {
        self.0.read(move |scope| open(scope, call)).await
    }

    /// Answers what a call asks that is no task, or whose task [ends with its process](longhaul_client::RecordedCall::ends_with_process). The process that makes the call sends the answer; if it has ended, the same call does that is made again under
    /// the call's idempotency key. `false` if the call does not ask this now: then nothing is recorded.
    ///
    /// # Errors
    /// [`JournalError::InvalidAnswer`] if the answer does not fit the form of the question; [`JournalError::WrongState`] if the call has an answer or a task, [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn answer_call(
        &self,
        call: CallId,
        key: impl Into<String>,
        answer: &InputResponse,
    ) -> Result<bool, JournalError> {
        let (key, given) = (key.into(), answer.clone());
        let answer = answer.as_json().clone();
        self.0
            .write(move |scope| {
                let sql = "SELECT key, method, params FROM questions WHERE call = ?1 AND input_key = ?2 AND state = 1";
                let asked: Option<(String, String, String)> = scope
                    .connection
                    .prepare_cached(sql)?
                    .query_row((call.number(), &key), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                    .optional()?;
                let Some((name, method, params)) = asked else {
                    return Ok(false);
                };
                let question = InputRequest::of(method, ParsedJson::of(&params));
                question.check(&given).map_err(JournalError::InvalidAnswer)?;
                let is_recorded = record_answer(scope, call, &name, &answer)?;
                release(scope, call, &name)?;
                Ok(is_recorded)
            })
            .await
    }
}

/// As [`ask`](ask()), for what a call asks that is no task: other processes are shown it.
pub(crate) fn ask_in_call(
    scope: &Scope<'_>,
    call: CallId,
    name: &str,
    request: &InputRequest,
) -> Result<Asked, Refusal> {
    let asked = ask(scope, call, name)?;
    let params = request.params.as_json().as_str();
    if asked == Asked::First && params.len() <= MAX_LENGTH {
        let sql = "UPDATE questions SET input_key = ?3, method = ?4, params = ?5 WHERE call = ?1 AND key = ?2";
        let shown = (call.number(), name, &request.key, &request.method, params);
        scope.connection.prepare_cached(sql)?.execute(shown)?;
    }
    Ok(asked)
}

/// The names of the questions of a call whose answers the server has acknowledged.
pub(crate) fn accepted_answers(scope: &Scope<'_>, call: CallId) -> Result<Vec<String>, Refusal> {
    let sql = "SELECT key FROM questions WHERE call = ?1 AND state = 3";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let names = statement.query_map([call.number()], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Whether a question has an answer, or the server a response to the `request` that asks it.
pub(crate) fn has_answer(
    scope: &Scope<'_>,
    call: CallId,
    name: &str,
    request: Option<RequestNumber>,
) -> Result<bool, Refusal> {
    if let Some(request) = request
        && !server_requests::is_open(scope, request)?
    {
        return Ok(true);
    }
    let sql = "SELECT 1 FROM questions WHERE call = ?1 AND key = ?2 AND state IN (2, 3)";
    Ok(scope.connection.prepare_cached(sql)?.exists((call.number(), name))?)
}

fn open(scope: &Scope<'_>, call: CallId) -> Result<Vec<InputRequest>, Refusal> {
    let sql = "SELECT input_key, method, params FROM questions WHERE call = ?1 AND state = 1 AND input_key IS NOT NULL ORDER BY key";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let rows = statement.query_map([call.number()], |row| {
        let params: String = row.get(2)?;
        let mut question = InputRequest::of(row.get(1)?, ParsedJson::of(&params));
        question.key = row.get(0)?;
        Ok(question)
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
