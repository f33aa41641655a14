//! Requests of legacy servers that belong to a task. A response can be sent to them from any process, in their session.

use crate::journal::{
    ClientJournal,
    error::{JournalError, Refusal},
    recorded_call::{CallId, StateCode},
    stored_call::StoredCall,
    worker::Scope,
};
use rusqlite::{OptionalExtension, named_params};

/// The most requests of a call that are recorded at once. More are served, and not recorded.
const MAX_OPEN: i64 = 64;
/// The longest request that is recorded, in bytes.
const MAX_LENGTH: usize = 256 * 1024;

/// A request of a legacy server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewServerRequest {
    /// The legacy session that it came in, if it has an id.
    pub(crate) session: Option<String>,
    /// As JSON.
    pub(crate) id: String,
    /// The name of what it asks.
    pub(crate) question: String,
    pub(crate) method: String,
    /// As JSON.
    pub(crate) params: String,
}

impl NewServerRequest {
    fn len(&self) -> usize {
        self.id.len() + self.method.len() + self.params.len()
    }
}

/// A request of a legacy server that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerRequestRecord {
    pub(crate) number: RequestNumber,
    /// The number of the first request that asks the same. Users name the question by it.
    pub(crate) first: RequestNumber,
    pub(crate) request: NewServerRequest,
    /// Whether the user has not answered it.
    pub(crate) is_unanswered: bool,
    /// When the task had changed last, when the user answered.
    pub(crate) task_updated_at: Option<String>,
}

/// The number of a recorded request. It is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestNumber(i64);

impl RequestNumber {
    /// The key of the question that it was the first to ask.
    pub(crate) fn key(self) -> String {
        format!("q{}", self.0)
    }
}

impl ClientJournal {
    /// Records a request of a server before anyone is asked. The same request again gets the same number. `None` if there are too many, or it is too long.
    ///
    /// An id that comes with another question is used again: the server has the response to the earlier request, which is forgotten.
    pub(crate) async fn record_request(
        &self,
        call: CallId,
        request: NewServerRequest,
    ) -> Result<Option<ServerRequestRecord>, JournalError> {
        self.0.write(move |scope| record(scope, call, &request)).await
    }

    /// The requests of a call's server that have no response, in the order of their arrival.
    pub(crate) async fn open_requests(&self, call: CallId) -> Result<Vec<ServerRequestRecord>, JournalError> {
        self.0.read(move |scope| open(scope, call)).await
    }

    /// The server wants no response to a request any more. What it asks is forgotten too, unless another open request asks the same.
    pub(crate) async fn request_withdrawn(&self, call: CallId, number: RequestNumber) -> Result<(), JournalError> {
        self.0.write(move |scope| withdrawn(scope, call, number)).await
    }

    /// The server has the response to a request, and to the earlier ones that ask the same. The same text is another question from now on, unless the question
    /// has a key of its own.
    pub(crate) async fn request_answered(
        &self,
        call: CallId,
        number: RequestNumber,
        has_own_key: bool,
    ) -> Result<(), JournalError> {
        self.0
            .write(move |scope| answered(scope, call, number, has_own_key))
            .await
    }

    /// Forgets a request, and its recorded answer, unless a process that lives is sending the answer: the server has it, and may use the id for another question.
    pub(crate) async fn doubt_answer(&self, call: CallId, number: RequestNumber) -> Result<(), JournalError> {
        self.0
            .write(move |scope| {
                let Some(question) = question_of(scope, number)? else {
                    return Ok(());
                };
                let sql = "SELECT process FROM questions WHERE call = ?1 AND key = ?2";
                let holder: Option<Option<String>> = scope
                    .connection
                    .prepare_cached(sql)?
                    .query_row((call.number(), &question), |row| row.get(0))
                    .optional()?;
                match holder.flatten().is_some_and(|process| scope.locks.is_alive(&process)) {
                    true => Ok(()),
                    false => delete(scope, call, number, &question),
                }
            })
            .await
    }

    /// Records that this process reads the stream of a request for the result of a call's task. Before it is sent.
    pub(crate) async fn record_result_request(
        &self,
        call: CallId,
        session: Option<String>,
        id: u64,
    ) -> Result<(), JournalError> {
        self.0
            .write(move |scope| {
                StoredCall::read(scope, call)?;
                let sql = "INSERT OR REPLACE INTO result_requests (call, session, id, process) VALUES (?1, ?2, ?3, ?4)";
                let request = (call.number(), &session, id.cast_signed(), scope.process);
                Ok(scope.connection.prepare_cached(sql)?.execute(request).map(drop)?)
            })
            .await
    }

    /// The request for the result has ended, without waiting: before every change that is asked for later.
    pub(crate) fn enqueue_result_request_ended(
        &self,
        call: CallId,
        id: u64,
    ) -> impl Future<Output = Result<(), JournalError>> + use<> {
        let ended = self.0.enqueue(move |scope| {
            let sql = "DELETE FROM result_requests WHERE call = ?1 AND id = ?2";
            let ended = (call.number(), id.cast_signed());
            Ok(scope.connection.prepare_cached(sql)?.execute(ended).map(drop)?)
        });
        async move { ended.await.unwrap_or(Ok(())) }
    }

    /// The requests for the result of a call's task whose processes have ended. This process cancels them: they are forgotten.
    pub(crate) async fn take_abandoned_result_requests(
        &self,
        call: CallId,
        session: Option<String>,
    ) -> Result<Vec<u64>, JournalError> {
        self.0.write(move |scope| take_abandoned(scope, call, &session)).await
    }
}

fn record(scope: &Scope<'_>, call: CallId, request: &NewServerRequest) -> Result<Option<ServerRequestRecord>, Refusal> {
    let stored = StoredCall::read(scope, call)?;
    if !matches!(stored.state, StateCode::Intent | StateCode::Task) {
        return Err(stored.refuse("record a question of"));
    }
    let known = open(scope, call)?;
    let with_id =
        |known: &&ServerRequestRecord| known.request.id == request.id && known.request.session == request.session;
    let has_answer = |known: &ServerRequestRecord| !known.is_unanswered;
    if let Some(known) = known.iter().find(with_id) {
        if known.request == *request {
            return Ok(Some(known.clone()));
        }
        delete(scope, call, known.number, &known.request.question)?;
    }
    if request.len() > MAX_LENGTH || known.len() as i64 >= MAX_OPEN {
        return Ok(None);
    }
    let sql = "INSERT INTO server_requests (call, session, id, question, method, params)
               VALUES (:call, :session, :id, :question, :method, :params)";
    let number = scope.connection.prepare_cached(sql)?.insert(named_params! {
        ":call": call.number(),
        ":session": request.session,
        ":id": request.id,
        ":question": request.question,
        ":method": request.method,
        ":params": request.params,
    })?;
    let number = RequestNumber(number);
    let same = known.iter().find(|known| known.request.question == request.question);
    Ok(Some(ServerRequestRecord {
        number,
        first: same.map_or(number, |same| same.first),
        request: request.clone(),
        is_unanswered: !same.is_some_and(has_answer),
        task_updated_at: None,
    }))
}

fn open(scope: &Scope<'_>, call: CallId) -> Result<Vec<ServerRequestRecord>, Refusal> {
    let sql = "SELECT r.seq, r.session, r.id, r.question, r.method, r.params,
                   (SELECT min(same.seq) FROM server_requests same WHERE same.call = r.call AND same.question = r.question),
                   NOT EXISTS (SELECT 1 FROM questions q WHERE q.call = r.call AND q.key = r.question AND q.state <> 1),
                   r.task_updated_at
               FROM server_requests r WHERE r.call = ?1 ORDER BY r.seq";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let rows = statement.query_map([call.number()], |row| {
        Ok(ServerRequestRecord {
            number: RequestNumber(row.get(0)?),
            request: NewServerRequest {
                session: row.get(1)?,
                id: row.get(2)?,
                question: row.get(3)?,
                method: row.get(4)?,
                params: row.get(5)?,
            },
            first: RequestNumber(row.get(6)?),
            is_unanswered: row.get(7)?,
            task_updated_at: row.get(8)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Notes when the task had changed last, when the user answered a question.
pub(super) fn note_task(
    scope: &Scope<'_>,
    call: CallId,
    question: &str,
    updated_at: Option<&str>,
) -> Result<(), Refusal> {
    let sql = "UPDATE server_requests SET task_updated_at = ?3 WHERE call = ?1 AND question = ?2";
    let answered = (call.number(), question, updated_at);
    Ok(scope.connection.prepare_cached(sql)?.execute(answered).map(drop)?)
}

/// Whether a request has no response.
pub(super) fn is_open(scope: &Scope<'_>, number: RequestNumber) -> Result<bool, Refusal> {
    let sql = "SELECT 1 FROM server_requests WHERE seq = ?1";
    Ok(scope.connection.prepare_cached(sql)?.exists([number.0])?)
}

fn question_of(scope: &Scope<'_>, number: RequestNumber) -> Result<Option<String>, Refusal> {
    let sql = "SELECT question FROM server_requests WHERE seq = ?1";
    let question = scope
        .connection
        .prepare_cached(sql)?
        .query_row([number.0], |row| row.get(0));
    Ok(question.optional()?)
}

fn withdrawn(scope: &Scope<'_>, call: CallId, number: RequestNumber) -> Result<(), Refusal> {
    let question = question_of(scope, number)?;
    question.map_or(Ok(()), |question| delete(scope, call, number, &question))
}

fn answered(scope: &Scope<'_>, call: CallId, number: RequestNumber, has_own_key: bool) -> Result<(), Refusal> {
    let Some(question) = question_of(scope, number)? else {
        return Ok(());
    };
    let sql = match has_own_key {
        true => "UPDATE questions SET state = 3, process = NULL, answer = NULL WHERE call = ?1 AND key = ?2",
        // Also if a later request asks the same: it may have come after the answer.
        false => "DELETE FROM questions WHERE call = ?1 AND key = ?2",
    };
    scope
        .connection
        .prepare_cached(sql)?
        .execute((call.number(), &question))?;
    let sql = "DELETE FROM server_requests WHERE call = ?1 AND question = ?2 AND seq <= ?3";
    let answered = (call.number(), &question, number.0);
    scope.connection.prepare_cached(sql)?.execute(answered)?;
    Ok(())
}

/// Deletes a request, and what is known of its question if no other request asks it. That a question with a key of its own was accepted stays known.
fn delete(scope: &Scope<'_>, call: CallId, number: RequestNumber, question: &str) -> Result<(), Refusal> {
    let sql = "DELETE FROM server_requests WHERE seq = ?1";
    scope.connection.prepare_cached(sql)?.execute([number.0])?;
    let sql = "DELETE FROM questions WHERE call = ?1 AND key = ?2 AND state <> 3
               AND NOT EXISTS (SELECT 1 FROM server_requests r WHERE r.call = ?1 AND r.question = ?2)";
    scope
        .connection
        .prepare_cached(sql)?
        .execute((call.number(), question))?;
    Ok(())
}

/// Forgets the requests of a call that came in other sessions than this one: nobody waits for their responses.
pub(super) fn forget_other_sessions(scope: &Scope<'_>, call: CallId, session: Option<&str>) -> Result<(), Refusal> {
    for found in open(scope, call)? {
        if found.request.session.as_deref() != session {
            delete(scope, call, found.number, &found.request.question)?;
        }
    }
    let sql = "DELETE FROM result_requests WHERE call = ?1 AND session IS NOT ?2";
    scope
        .connection
        .prepare_cached(sql)?
        .execute((call.number(), session))?;
    Ok(())
}

/// Forgets all requests of a call: its task has ended.
pub(super) fn forget_all(scope: &Scope<'_>, call: CallId) -> Result<(), Refusal> {
    for found in open(scope, call)? {
        delete(scope, call, found.number, &found.request.question)?;
    }
    let sql = "DELETE FROM result_requests WHERE call = ?1";
    scope.connection.prepare_cached(sql)?.execute([call.number()])?;
    Ok(())
}

fn take_abandoned(scope: &Scope<'_>, call: CallId, session: &Option<String>) -> Result<Vec<u64>, Refusal> {
    let sql = "SELECT id, process FROM result_requests WHERE call = ?1 AND session IS ?2";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let found = statement.query_map((call.number(), session), |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    let found: Vec<(i64, String)> = found.collect::<Result<_, _>>()?;
    let mut abandoned = Vec::new();
    for (id, process) in found {
        if !scope.locks.is_alive(&process) {
            let sql = "DELETE FROM result_requests WHERE call = ?1 AND id = ?2";
            scope.connection.prepare_cached(sql)?.execute((call.number(), id))?;
            abandoned.push(id.cast_unsigned());
        }
    }
    Ok(abandoned)
}
