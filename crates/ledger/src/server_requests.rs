//! Requests of legacy servers that belong to a task. A response can be sent to them from any process, in their session.

use crate::{
    refusal::Refusal,
    stored_call::{StateCode, StoredCall},
    worker::Scope,
};
use longhaul_client::{CallId, NewServerRequest, RequestNumber, ServerRequestRecord};
use rusqlite::{OptionalExtension, named_params};

/// The most requests of a call that are recorded at once. More are served, and not recorded.
const MAX_OPEN: i64 = 64;
/// The longest request that is recorded, in bytes.
const MAX_LENGTH: usize = 256 * 1024;

/// Forgets a request, and its recorded answer, unless a process that lives is sending the answer: the server has it, and may use the id for another question.
pub(crate) fn doubt_answer(scope: &Scope<'_>, call: CallId, number: RequestNumber) -> Result<(), Refusal> {
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
}

/// Records that this process reads the stream of a request for the result of a call's task. Before it is sent.
pub(crate) fn record_result_request(
    scope: &Scope<'_>,
    call: CallId,
    session: Option<&str>,
    id: u64,
) -> Result<(), Refusal> {
    StoredCall::read(scope, call)?;
    let sql = "INSERT OR REPLACE INTO result_requests (call, session, id, process) VALUES (?1, ?2, ?3, ?4)";
    let request = (call.number(), session, id.cast_signed(), scope.process);
    Ok(scope.connection.prepare_cached(sql)?.execute(request).map(drop)?)
}

/// The request for the result has ended.
pub(crate) fn end_result_request(scope: &Scope<'_>, call: CallId, id: u64) -> Result<(), Refusal> {
    let sql = "DELETE FROM result_requests WHERE call = ?1 AND id = ?2";
    let ended = (call.number(), id.cast_signed());
    Ok(scope.connection.prepare_cached(sql)?.execute(ended).map(drop)?)
}

/// Records a request of a server before anyone is asked: see [`QuestionJournal::record_request`](longhaul_client::QuestionJournal::record_request).
pub(crate) fn record(
    scope: &Scope<'_>,
    call: CallId,
    request: &NewServerRequest,
) -> Result<Option<ServerRequestRecord>, Refusal> {
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
    let length = request.id.len() + request.method.len() + request.params.len();
    if length > MAX_LENGTH || known.len() as i64 >= MAX_OPEN {
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

/// The requests of a call's server that have no response, in the order of their arrival.
pub(crate) fn open(scope: &Scope<'_>, call: CallId) -> Result<Vec<ServerRequestRecord>, Refusal> {
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
pub(crate) fn note_task(
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
pub(crate) fn is_open(scope: &Scope<'_>, number: RequestNumber) -> Result<bool, Refusal> {
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

/// The server wants no response to a request any more. What it asks is forgotten too, unless another open request asks the same.
pub(crate) fn withdrawn(scope: &Scope<'_>, call: CallId, number: RequestNumber) -> Result<(), Refusal> {
    let question = question_of(scope, number)?;
    question.map_or(Ok(()), |question| delete(scope, call, number, &question))
}

/// The server has the response to a request, and to the earlier ones that ask the same. The same text is another question from now on, unless the question
/// has a key of its own.
pub(crate) fn answered(
    scope: &Scope<'_>,
    call: CallId,
    number: RequestNumber,
    has_own_key: bool,
) -> Result<(), Refusal> {
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
pub(crate) fn forget_other_sessions(scope: &Scope<'_>, call: CallId, session: Option<&str>) -> Result<(), Refusal> {
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
pub(crate) fn forget_all(scope: &Scope<'_>, call: CallId) -> Result<(), Refusal> {
    for found in open(scope, call)? {
        delete(scope, call, found.number, &found.request.question)?;
    }
    let sql = "DELETE FROM result_requests WHERE call = ?1";
    scope.connection.prepare_cached(sql)?.execute([call.number()])?;
    Ok(())
}

/// The requests for the result of a call's task whose processes have ended. This process cancels them: they are forgotten.
pub(crate) fn take_abandoned(scope: &Scope<'_>, call: CallId, session: &Option<String>) -> Result<Vec<u64>, Refusal> {
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
