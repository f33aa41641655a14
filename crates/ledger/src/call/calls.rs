//! The life of a call.

use crate::{
    ClientJournal,
    call::{batches, sessions},
    refusal::Refusal,
    retention, server_requests,
    stored_call::{StateCode, StoredCall},
    worker::Scope,
};
use longhaul_client::{
    CallId, Finished, JournalError, LEGACY_QUESTION, LONGEST_TAKE_OVER, NewCall, OtherLogin, QUESTION_BY_TEXT,
    SessionRef, TakenOver, TaskRef,
};
use longhaul_core::{Millis, UnixMillis};
use longhaul_wire::{Generation, TaskStatus};
use rusqlite::{OptionalExtension, named_params};

impl ClientJournal {
    /// Records that a call is about to be sent. Send it when this has returned.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn begin(&self, call: NewCall) -> Result<CallId, JournalError> {
        self.0.write(move |scope| begin(scope, &call)).await
    }

    /// Records that a call is about to be sent in this session instead of the one that it [began](Self::begin) in: the server has lost that one.
    ///
    /// # Errors
    /// [`JournalError::WrongState`] if the server has answered or another process that lives is sending the call, [`JournalError::UnknownCall`], and those of
    /// the disk and the file.
    pub async fn enter_session(&self, call: CallId, session: SessionRef) -> Result<(), JournalError> {
        self.0.write(move |scope| enter_session(scope, call, &session)).await
    }

    /// Records the task that the server has created for a call. The handle replaces the intent, and questions from before the task are forgotten.
    ///
    /// Of a task that is recorded already it records the session and the other members anew, and it brings a lost one back. A call that was
    /// finished before the server answered is a live task again.
    ///
    /// If another call of the same server and name has this task, because both have the same idempotency key, the two become one: the earlier one, which
    /// has the questions that were asked. Returns the call that has the task.
    ///
    /// # Errors
    /// [`JournalError::WrongState`] if the call has another task or its task has finished, [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn acknowledge(&self, call: CallId, task: TaskRef) -> Result<CallId, JournalError> {
        self.0.write(move |scope| acknowledge(scope, call, &task, None)).await
    }

    /// As [`acknowledge`](Self::acknowledge), for a task that ends with this process, because its server is a child process, or its session a connection. When
    /// the process has ended, it is [`CallState::Lost`](longhaul_client::CallState::Lost).
    ///
    /// # Errors
    /// As [`acknowledge`](Self::acknowledge).
    pub async fn acknowledge_while_alive(&self, call: CallId, task: TaskRef) -> Result<CallId, JournalError> {
        let change = move |scope: &Scope<'_>| acknowledge(scope, call, &task, Some(scope.process));
        self.0.write(change).await
    }

    /// Notes the status of a task, for lists. If the task does not ask, the server has taken what no process is about to send it: recorded answers that would
    /// be those of later questions with the same text are discarded. It is not the end of the call: that is [`finish`](Self::finish), once the result was fetched.
    ///
    /// # Errors
    /// [`JournalError::WrongState`] if the call is no live task, [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn note_status(&self, call: CallId, status: TaskStatus) -> Result<(), JournalError> {
        self.0.write(move |scope| note_status(scope, call, status)).await
    }

    /// Records that nothing more is to be done: the answer or the result was fetched, or there will be none. The call is listed for another 24 hours
    /// and then deleted. Finishing it again changes nothing.
    ///
    /// # Errors
    /// [`JournalError::WrongState`] if another process that lives is sending the call, [`JournalError::UnknownCall`], and those of the disk and
    /// the file.
    pub async fn finish(&self, call: CallId, finished: Finished) -> Result<(), JournalError> {
        self.0.write(move |scope| finish(scope, call, finished)).await
    }

    /// Records that it is not known whether a call was carried out. It is listed as such for 24 hours.
    ///
    /// # Errors
    /// [`JournalError::WrongState`] if the server has answered, or another process that lives is sending the call;
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn mark_unknown(&self, call: CallId, reason: impl Into<String>) -> Result<(), JournalError> {
        let reason = reason.into();
        self.0.write(move |scope| mark_unknown(scope, call, &reason)).await
    }

    /// Records that the task of a call can no longer be reached. It is listed as lost for 30 days.
    ///
    /// # Errors
    /// [`JournalError::WrongState`] if the call is no live task, or one that ends with another process that lives, [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn mark_lost(&self, call: CallId, reason: impl Into<String>) -> Result<(), JournalError> {
        let reason = reason.into();
        self.0.write(move |scope| mark_lost(scope, call, &reason)).await
    }

    /// Whether the task of a call ends with another process that lives: its server is a child of that process, or its session a connection of it. Nobody else can
    /// reach the task; [`answer_call`](Self::answer_call) and [`cancel_call`](Self::cancel_call) tell that process.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn is_followed_elsewhere(&self, call: CallId) -> Result<bool, JournalError> {
        let look = move |scope: &Scope<'_>| Ok(StoredCall::read(scope, call)?.is_followed_elsewhere(scope));
        self.0.read(look).await
    }

    /// Forgets a call at once, and all others whose task is the same: the task was deleted.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn forget(&self, call: CallId) -> Result<(), JournalError> {
        self.0.write(move |scope| forget(scope, call)).await
    }

    /// Takes over a call whose process has ended without recording an answer. Of all processes that try, one gets `true`: it may send the
    /// call again under its idempotency key. If the call has none it must not be repeated, and [`settle_abandoned`](Self::settle_abandoned) records that.
    ///
    /// Returns `false` if a process that lives is sending the call, this one included, or if its answer was recorded meanwhile.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn claim_unresolved(&self, call: CallId) -> Result<bool, JournalError> {
        self.0.write(move |scope| claim(scope, call)).await
    }

    /// Takes over a call with the same server, under the same name, tool and arguments as `call` whose process has ended without recording an answer, as
    /// [`claim_unresolved`](Self::claim_unresolved) does, so that it is sent again under its idempotency key: that of `call` if it has one, else any.
    /// `None` if there is none. Those of another user are left alone.
    ///
    /// Servers forget keys: one that began more than `known_for` milliseconds ago, or more than a day, is not taken over. It is
    /// [marked](Self::mark_unknown) as of unknown outcome.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn take_over(&self, call: NewCall, known_for: Option<Millis>) -> Result<Option<TakenOver>, JournalError> {
        self.0.write(move |scope| take_over(scope, &call, known_for)).await
    }

    /// Gives up a call that this process is sending, without waiting for its end, for example because it stopped waiting for the answer. The call
    /// is [`CallState::Interrupted`](longhaul_client::CallState::Interrupted) from then on. Changes nothing if this process is not sending it.
    ///
    /// # Errors
    /// [`JournalError::UnknownCall`], and those of the disk and the file.
    pub async fn release_call(&self, call: CallId) -> Result<(), JournalError> {
        self.0.write(move |scope| release(scope, call)).await
    }
}

pub(crate) fn begin(scope: &Scope<'_>, call: &NewCall) -> Result<CallId, Refusal> {
    let session = match &call.session {
        Some(session) => Some(sessions::record(scope, &call.server, session)?),
        None => None,
    };
    if let Some(line) = &call.batch_line {
        batches::begin_line(scope, line)?;
    }
    let sql = "INSERT INTO calls (server, server_name, tool, arguments_digest, idempotency_key, login, state, process, session, begun_at, changed_at,
                   batch, batch_line)
               VALUES (:server, :server_name, :tool, :digest, :key, :login, :state, :process, :session, :now, :now, :batch, :batch_line)";
    let seq = scope.connection.prepare_cached(sql)?.insert(named_params! {
        ":server": call.server,
        ":server_name": call.server_name,
        ":tool": call.tool,
        ":digest": call.arguments_digest,
        ":key": call.idempotency_key,
        ":login": call.login,
        ":state": StateCode::Intent.code(),
        ":process": scope.process,
        ":session": session,
        ":now": scope.now.0,
        ":batch": call.batch_line.as_ref().map(|line| line.batch),
        ":batch_line": call.batch_line.as_ref().map(|line| &line.name),
    })?;
    Ok(CallId::from_number(seq))
}

pub(crate) fn enter_session(scope: &Scope<'_>, call: CallId, session: &SessionRef) -> Result<(), Refusal> {
    let stored = StoredCall::read(scope, call)?;
    if stored.state != StateCode::Intent || stored.is_in_other_hands(scope) {
        return Err(stored.refuse("send in another session"));
    }
    let session = sessions::record(scope, &server_of(scope, call)?, session)?;
    set_session(scope, call, session)?;
    match stored.session {
        Some(before) if before != session => Ok(retention::delete_unused_session(scope.connection, before)?),
        _ => Ok(()),
    }
}

/// The server of a call, as it is recorded.
fn server_of(scope: &Scope<'_>, call: CallId) -> Result<String, Refusal> {
    let sql = "SELECT server FROM calls WHERE seq = ?1";
    Ok(scope
        .connection
        .prepare_cached(sql)?
        .query_row([call.number()], |row| row.get(0))?)
}

fn set_session(scope: &Scope<'_>, call: CallId, session: i64) -> Result<(), Refusal> {
    let sql = "UPDATE calls SET session = ?2 WHERE seq = ?1";
    let changed = (call.number(), session);
    Ok(scope.connection.prepare_cached(sql)?.execute(changed).map(drop)?)
}

/// Records the task. One with a process ends with that.
pub(crate) fn acknowledge(
    scope: &Scope<'_>,
    call: CallId,
    task: &TaskRef,
    process: Option<&str>,
) -> Result<CallId, Refusal> {
    let stored = StoredCall::read(scope, call)?;
    if stored.task_id.is_none()
        && let Some(earlier) = same_task(scope, call, &task.task_id)?
    {
        return join(scope, &stored, earlier);
    }
    let is_same = stored.task_id.as_ref() == Some(&task.task_id);
    match stored.state {
        StateCode::Intent | StateCode::Unknown => forget_rounds(scope, call)?,
        // Given up before the answer came. The handle must not be lost, if only for the task to be cancelled.
        StateCode::Finished if stored.task_id.is_none() => {}
        StateCode::Task | StateCode::Lost if is_same => {}
        StateCode::Task | StateCode::Lost | StateCode::Finished => return Err(stored.refuse("record a task of")),
    }
    let session = match &task.session {
        Some(session) => Some(sessions::record(scope, &server_of(scope, call)?, session)?),
        None => None,
    };
    let sql = "UPDATE calls SET state = :state, process = :process, session = :session, task_id = :task_id, generation = :generation,
                   task_created_at = :created_at, ttl = :ttl, finished = NULL, reason = NULL, changed_at = :now, delete_at = NULL
               WHERE seq = :call";
    scope.connection.prepare_cached(sql)?.execute(named_params! {
        ":call": call.number(),
        ":state": StateCode::Task.code(),
        ":process": process,
        ":session": session,
        ":task_id": task.task_id,
        ":generation": generation_code(task.generation),
        ":created_at": task.created_at,
        ":ttl": task.ttl.map(stored_millis),
        ":now": scope.now.0,
    })?;
    let session_id = task.session.as_ref().map(|session| session.id.as_str());
    server_requests::forget_other_sessions(scope, call, session_id)?;
    if let Some(before) = stored.session.filter(|before| session != Some(*before)) {
        retention::delete_unused_session(scope.connection, before)?;
    }
    Ok(call)
}

/// The live task of another call that is this one.
fn same_task(scope: &Scope<'_>, call: CallId, task_id: &str) -> Result<Option<CallId>, Refusal> {
    let sql = "SELECT o.seq FROM calls o INDEXED BY calls_by_task_id JOIN calls c ON c.seq = ?1
               WHERE o.task_id = ?2 AND o.seq <> c.seq AND o.server = c.server AND o.server_name IS c.server_name
                 AND o.idempotency_key = c.idempotency_key AND o.state IN (2, 4) AND (o.delete_at IS NULL OR o.delete_at > ?3)
               ORDER BY o.seq LIMIT 1";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let found = statement.query_row((call.number(), task_id, scope.now.0), |row| row.get(0));
    Ok(found.optional()?.map(CallId::from_number))
}

/// Makes a call one with an earlier one that has its task. A legacy task may have asked it already.
fn join(scope: &Scope<'_>, stored: &StoredCall, earlier: CallId) -> Result<CallId, Refusal> {
    forget_rounds(scope, stored.call)?;
    for table in ["questions", "server_requests", "result_requests"] {
        let sql = format!("UPDATE OR IGNORE {table} SET call = ?2 WHERE call = ?1");
        let moved = (stored.call.number(), earlier.number());
        scope.connection.prepare_cached(&sql)?.execute(moved)?;
    }
    retention::delete(scope.connection, stored.call.number(), stored.session)?;
    let sql = "UPDATE calls SET state = 2, reason = NULL, changed_at = ?2, delete_at = NULL WHERE seq = ?1";
    scope
        .connection
        .prepare_cached(sql)?
        .execute((earlier.number(), scope.now.0))?;
    Ok(earlier)
}

pub(crate) fn note_status(scope: &Scope<'_>, call: CallId, status: TaskStatus) -> Result<(), Refusal> {
    let stored = StoredCall::read(scope, call)?;
    if stored.state != StateCode::Task {
        return Err(stored.refuse("note the status of"));
    }
    if status.is_final() {
        server_requests::forget_all(scope, call)?;
    }
    if status != TaskStatus::InputRequired {
        forget_taken(scope, call)?;
    }
    if stored.status.as_deref() == Some(status.as_str()) {
        return Ok(());
    }
    let sql = "UPDATE calls SET status = ?2, changed_at = ?3 WHERE seq = ?1";
    let changed = (call.number(), status.as_str(), scope.now.0);
    Ok(scope.connection.prepare_cached(sql)?.execute(changed).map(drop)?)
}

pub(crate) fn finish(scope: &Scope<'_>, call: CallId, finished: Finished) -> Result<(), Refusal> {
    let stored = StoredCall::read(scope, call)?;
    if stored.state == StateCode::Finished {
        return Ok(());
    }
    if stored.is_in_other_hands(scope) {
        return Err(stored.refuse("finish"));
    }
    server_requests::forget_all(scope, call)?;
    end(scope, call, StateCode::Finished, Some(finished), None, retention::ENDED)
}

pub(crate) fn mark_unknown(scope: &Scope<'_>, call: CallId, reason: &str) -> Result<(), Refusal> {
    let stored = StoredCall::read(scope, call)?;
    match stored.state {
        StateCode::Unknown => Ok(()),
        StateCode::Intent if !stored.is_in_other_hands(scope) => {
            end(scope, call, StateCode::Unknown, None, Some(reason), retention::ENDED)
        }
        _ => Err(stored.refuse("call unknown the outcome of")),
    }
}

pub(crate) fn mark_lost(scope: &Scope<'_>, call: CallId, reason: &str) -> Result<(), Refusal> {
    let stored = StoredCall::read(scope, call)?;
    match stored.state {
        StateCode::Lost => Ok(()),
        StateCode::Task if stored.is_followed_elsewhere(scope) => Err(stored.refuse("record the loss of")),
        StateCode::Task => end(scope, call, StateCode::Lost, None, Some(reason), retention::LOST),
        _ => Err(stored.refuse("record the loss of")),
    }
}

pub(crate) fn forget(scope: &Scope<'_>, call: CallId) -> Result<(), Refusal> {
    StoredCall::read(scope, call)?;
    let sql = "SELECT seq, session FROM calls WHERE seq = ?1
               UNION SELECT seq, session FROM calls INDEXED BY calls_by_task_id
               WHERE (server, task_id) = (SELECT server, task_id FROM calls WHERE seq = ?1) AND task_id IS NOT NULL";
    let mut same = scope.connection.prepare_cached(sql)?;
    let same: Vec<(i64, Option<i64>)> = same
        .query_map([call.number()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (seq, session) in same {
        retention::delete(scope.connection, seq, session)?;
    }
    Ok(())
}

/// Enters a state that ends by itself after `retention`.
fn end(
    scope: &Scope<'_>,
    call: CallId,
    state: StateCode,
    finished: Option<Finished>,
    reason: Option<&str>,
    retention: Millis,
) -> Result<(), Refusal> {
    forget_questions(scope, call)?;
    // What is known of a run that is not over stays.
    let sql = "UPDATE calls SET state = :state, process = NULL, finished = :finished, reason = :reason, changed_at = :now,
                   delete_at = iif(EXISTS (SELECT 1 FROM batches WHERE batches.seq = batch), max(:delete_at, :batch_delete_at), :delete_at)
               WHERE seq = :call";
    scope.connection.prepare_cached(sql)?.execute(named_params! {
        ":call": call.number(),
        ":state": state.code(),
        ":finished": finished.map(Finished::code),
        ":reason": reason,
        ":now": scope.now.0,
        ":delete_at": scope.now.plus(retention).0,
        ":batch_delete_at": scope.now.plus(retention::BATCH).0,
    })?;
    Ok(())
}

fn claim(scope: &Scope<'_>, call: CallId) -> Result<bool, Refusal> {
    let stored = StoredCall::read(scope, call)?;
    let is_ours = stored.process.as_deref() == Some(scope.process);
    if stored.state != StateCode::Intent || is_ours || stored.is_in_other_hands(scope) {
        return Ok(false);
    }
    let sql = "UPDATE calls SET process = ?2, changed_at = ?3, cancel_requested = NULL WHERE seq = ?1";
    let changed = (call.number(), scope.process, scope.now.0);
    scope.connection.prepare_cached(sql)?.execute(changed)?;
    Ok(true)
}

/// Why an interrupted call is not repeated under its key.
pub(crate) const FORGOTTEN: &str =
    "it was interrupted before it was answered, and since then the server may have forgotten its idempotency key";

pub(crate) fn take_over(
    scope: &Scope<'_>,
    call: &NewCall,
    known_for: Option<Millis>,
) -> Result<Option<TakenOver>, Refusal> {
    let known_for = known_for.unwrap_or(LONGEST_TAKE_OVER).min(LONGEST_TAKE_OVER);
    let oldest = scope.now.0 - stored_millis(known_for);
    let sql = "SELECT seq, idempotency_key, begun_at, login FROM calls
               WHERE state = :state AND server = :server AND server_name IS :server_name AND tool = :tool AND arguments_digest = :digest
                 AND idempotency_key IS NOT NULL AND (:key IS NULL OR idempotency_key = :key)
               ORDER BY seq";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let earlier = statement.query_map(
        named_params! {
            ":state": StateCode::Intent.code(),
            ":server": call.server,
            ":server_name": call.server_name,
            ":tool": call.tool,
            ":digest": call.arguments_digest,
            ":key": call.idempotency_key,
        },
        |row| {
            let taken = TakenOver {
                call: CallId::from_number(row.get(0)?),
                idempotency_key: row.get(1)?,
                begun_at: UnixMillis(row.get(2)?),
            };
            Ok((taken, row.get::<_, Option<String>>(3)?))
        },
    )?;
    let earlier: Vec<(TakenOver, Option<String>)> = earlier.collect::<Result<_, _>>()?;
    for (earlier, login) in earlier {
        // The server knows the key of another user as another key.
        if OtherLogin::are_two_users(login.as_deref(), call.login.as_deref()) {
            continue;
        }
        if !claim(scope, earlier.call)? {
            continue;
        }
        if earlier.begun_at.0 <= oldest {
            mark_unknown(scope, earlier.call, FORGOTTEN)?;
            continue;
        }
        if let Some(session) = &call.session {
            let session = sessions::record(scope, &call.server, session)?;
            set_session(scope, earlier.call, session)?;
        }
        if let Some(line) = &call.batch_line {
            // It may have been made outside the run, under the key of the line.
            batches::take_line(scope, line, earlier.call)?;
        }
        return Ok(Some(earlier));
    }
    Ok(None)
}

/// Why nobody sends a call without a key again that this process has dropped.
const DROPPED: &str = "the program stopped waiting before there was an answer: it dropped the call, which may have run";

/// The program has dropped a call before there was an answer. It is released; without an idempotency key its outcome is unknown at once.
pub(crate) fn abandon(scope: &Scope<'_>, call: CallId) -> Result<(), Refusal> {
    let sql = "SELECT state = ?2 AND process = ?3 AND idempotency_key IS NULL FROM calls WHERE seq = ?1";
    let ours = (call.number(), StateCode::Intent.code(), scope.process);
    let cannot_be_repeated: Option<bool> = (scope.connection.prepare_cached(sql)?)
        .query_row(ours, |row| Ok(row.get::<_, Option<bool>>(0)?.unwrap_or_default()))
        .optional()?;
    match cannot_be_repeated {
        Some(true) => mark_unknown(scope, call, DROPPED),
        _ => release(scope, call),
    }
}

pub(crate) fn release(scope: &Scope<'_>, call: CallId) -> Result<(), Refusal> {
    StoredCall::read(scope, call)?;
    let sql = "UPDATE calls SET process = NULL, changed_at = ?3 WHERE seq = ?1 AND process = ?2";
    let changed = (call.number(), scope.process, scope.now.0);
    Ok(scope.connection.prepare_cached(sql)?.execute(changed).map(drop)?)
}

/// Forgets the questions from before there was a task. A legacy task may have asked already.
fn forget_rounds(scope: &Scope<'_>, call: CallId) -> Result<(), Refusal> {
    let sql = "DELETE FROM questions WHERE call = ?1 AND substr(key, 1, length(?2)) <> ?2";
    scope
        .connection
        .prepare_cached(sql)?
        .execute((call.number(), LEGACY_QUESTION))?;
    Ok(())
}

fn forget_questions(scope: &Scope<'_>, call: CallId) -> Result<(), Refusal> {
    let sql = "DELETE FROM questions WHERE call = ?1";
    Ok(scope
        .connection
        .prepare_cached(sql)?
        .execute([call.number()])
        .map(drop)?)
}

/// Discards the answers to questions that are known by their texts, unless a process that lives is sending them, or they can be sent to a recorded request:
/// the server ignores what it has taken.
fn forget_taken(scope: &Scope<'_>, call: CallId) -> Result<(), Refusal> {
    let sql = "SELECT key, process FROM questions q WHERE call = ?1 AND state = 2 AND substr(key, 1, length(?2)) = ?2
               AND NOT EXISTS (SELECT 1 FROM server_requests r WHERE r.call = q.call AND r.question = q.key)";
    let mut statement = scope.connection.prepare_cached(sql)?;
    let answered = statement.query_map((call.number(), QUESTION_BY_TEXT), |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
    })?;
    let answered: Vec<(String, Option<String>)> = answered.collect::<Result<_, _>>()?;
    for (key, process) in answered {
        if process.is_none_or(|process| !scope.locks.is_alive(&process)) {
            let sql = "DELETE FROM questions WHERE call = ?1 AND key = ?2";
            scope.connection.prepare_cached(sql)?.execute((call.number(), &key))?;
        }
    }
    Ok(())
}

fn generation_code(generation: Generation) -> i64 {
    match generation {
        Generation::Legacy => 1,
        Generation::Modern => 2,
    }
}

pub(crate) fn stored_millis(millis: Millis) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}
