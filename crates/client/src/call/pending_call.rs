//! A call that is recorded and about to be sent.

use crate::{
    CallError, CallId, CallOptions, CallResponse, CallState, Connection, Event, Finished, Generation, JournalError,
    NewCall, Observer, OtherLogin, Outcome, RecordedCall, RequestError, TaskHandle, Tool,
    address::masked_address,
    call::TaskAnswer,
    connect::request::{call_progress::CallProgress, origin::Origin},
    error::{is_json_rpc_code, rpc_failure::leaves_outcome_unknown},
    journal::{
        LONGEST_TAKE_OVER,
        call_record::{CallRecord, JournalTarget},
        idempotency_key,
    },
    transport::polling,
};
use longhaul_core::{Json, Millis, UnixMillis, canonical_digest, whole_millis};
use serde_json::{Map, Value};
use std::{pin::pin, time::Duration};

/// How often a call is sent again that the server may have: for about a minute, since the server may be restarting.
const RETRIES: u32 = 8;
/// The same while no server has got it, or its child ends again and again: for about three seconds.
const RETRIES_OF_UNSENT: u32 = 3;
/// How long a server may take to name the task of a call that is cancelled, or to take the cancellation, in milliseconds.
const LAST_WORD: Millis = 2_000;

/// Why the answer to a call is [no longer waited for](PendingCall::send_unless).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopWaiting {
    /// Its caller leaves. With an idempotency key the call goes on at the server.
    Leave,
    /// It is to end.
    Cancel,
}

/// A call of a tool that is recorded, if its [`Client`](crate::Client) has a journal. [`send`](Self::send) sends it.
///
/// If it is dropped before there is an answer, it is interrupted: it may have run, and under its idempotency key it can be made again.
#[derive(Debug)]
pub struct PendingCall {
    connection: Connection,
    tool: Tool,
    arguments: Map<String, Value>,
    options: CallOptions,
    record: Option<CallRecord>,
    earlier: EarlierCall,
    task_answer: TaskAnswer,
    progress: CallProgress,
    /// Whether the server was waiting for an answer of the user when the wait for its answer was given up.
    was_asking: bool,
    /// Whether the server cancels calls by their keys.
    cancels_by_key: bool,
    /// Whether a task goes on when the connection has ended.
    is_task_kept: bool,
    arguments_digest: [u8; 32],
    /// For how long the server knows a key, from the beginning of the call on.
    known_for: Millis,
    login: Option<String>,
}

/// Whether the same call was made before, under its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlierCall {
    None,
    /// The server may know the key from it.
    Possible,
    /// It was begun then and interrupted, and this continues it.
    Interrupted(UnixMillis),
}

impl PendingCall {
    pub(crate) async fn prepare(
        connection: &Connection,
        recording: Option<&JournalTarget>,
        tool: &Tool,
        arguments: &Map<String, Value>,
        options: CallOptions,
    ) -> Result<Self, CallError> {
        let server = connection.server().await?;
        let takes_keys = server.takes_idempotency_keys();
        // A legacy server keeps a task, and its key, for as long as the call asks.
        let known_for = [server.idempotency_retention(), options.ttl]
            .into_iter()
            .flatten()
            .min();
        if options.idempotency_key.is_some() && !takes_keys {
            return Err(CallError::NoIdempotencyKeys);
        }
        let mut call = Self {
            connection: connection.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
            options,
            record: None,
            earlier: EarlierCall::None,
            task_answer: TaskAnswer::No,
            progress: CallProgress::new(false, false),
            was_asking: false,
            cancels_by_key: server.cancels_by_key(),
            is_task_kept: connection.keeps_tasks().await?,
            arguments_digest: canonical_digest(&Json::from(&Value::from(arguments.clone()))),
            known_for: known_for.unwrap_or(LONGEST_TAKE_OVER).min(LONGEST_TAKE_OVER),
            login: connection.login().await,
        };
        if call.options.idempotency_key.is_some() || call.options.batch_line.is_some() {
            call.earlier = EarlierCall::Possible;
        }
        call.task_answer = connection.task_answer(tool, &call.options).await?;
        if let Some(recording) = recording {
            call.record(recording, takes_keys, known_for).await?;
        }
        call.progress = CallProgress::new(call.options.idempotency_key.is_some(), call.interrupted().is_some());
        Ok(call)
    }

    async fn record(
        &mut self,
        recording: &JournalTarget,
        takes_keys: bool,
        known_for: Option<Millis>,
    ) -> Result<(), JournalError> {
        let journal = &recording.journal;
        let mut call = NewCall {
            server: recording.server.clone(),
            server_name: recording.server_name.clone(),
            tool: self.tool.name.clone(),
            arguments_digest: self.arguments_digest,
            idempotency_key: self.options.idempotency_key.clone(),
            session: self.connection.session().await,
            login: self.login.clone(),
            batch_line: self.options.batch_line.clone(),
        };
        if takes_keys {
            if let Some(line) = &call.batch_line {
                call.idempotency_key.get_or_insert_with(|| line.name.clone());
            }
            if let Some((record, taken)) = CallRecord::take_over(journal, call.clone(), known_for).await? {
                self.record = Some(record);
                self.options.idempotency_key = Some(taken.idempotency_key);
                self.earlier = EarlierCall::Interrupted(taken.begun_at);
                return Ok(());
            }
            let key = call.idempotency_key.take().unwrap_or_else(idempotency_key::new_key);
            call.idempotency_key = Some(key.clone());
            self.options.idempotency_key = Some(key);
        }
        self.record = Some(CallRecord::begin(journal, call).await?);
        Ok(())
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn call_record(&self) -> Option<&CallRecord> {
        self.record.as_ref()
    }

    /// When the same call was begun before, if it was interrupted and this is its continuation.
    pub fn interrupted(&self) -> Option<UnixMillis> {
        match self.earlier {
            EarlierCall::Interrupted(begun_at) => Some(begun_at),
            EarlierCall::None | EarlierCall::Possible => None,
        }
    }

    /// Its number in the journal, if it is recorded.
    pub fn id(&self) -> Option<CallId> {
        self.record.as_ref().map(CallRecord::call)
    }

    /// The idempotency key that it is sent with.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.options.idempotency_key.as_deref()
    }

    /// Whether the tool may have run although sending the call has failed with `error`. Also an error that says that nothing was sent, or that the call is refused, says nothing of
    /// an earlier time that the same call was sent: by a process that was interrupted, or by this one before it was sent again.
    pub fn may_have_run(&self, error: &RequestError) -> bool {
        self.progress.was_sent() || !(self.is_refused(error) || error.is_unsent())
    }

    /// Whether the error says that the call was not run. Tools of many servers fail with errors of JSON-RPC, such as those of a request that they have made themselves; a server
    /// that keeps keys sends these for calls that it has not run.
    fn is_refused(&self, error: &RequestError) -> bool {
        let may_be_of_tool = self.idempotency_key().is_none()
            && matches!(error, RequestError::Rpc(failure) if is_json_rpc_code(failure.code));
        error.is_refusal() && !may_be_of_tool
    }

    /// Whether `other` is another call of the same tool with the same arguments. With the same idempotency key it is the same call, not another one. The
    /// servers are not compared.
    ///
    /// Ask before [`send`](Self::send), of [`Client::calls`](crate::Client::calls): a user who repeats a command may have forgotten the task of the first one.
    pub fn repeats(&self, other: &RecordedCall) -> bool {
        let is_same = self.idempotency_key().is_some() && self.idempotency_key() == other.idempotency_key.as_deref();
        !is_same && self.tool.name == other.tool && self.arguments_digest == other.arguments_digest
    }

    /// Whether `other` is this call, made before under the same idempotency key, and has an answer that the server still knows. Then it is not run again: the answer is that
    /// of `other`, unless `other` was deleted there. The servers are not compared.
    pub fn has_answer_of(&self, other: &RecordedCall) -> bool {
        let is_same = self.idempotency_key().is_some()
            && self.idempotency_key() == other.idempotency_key.as_deref()
            && self.tool.name == other.tool
            && self.arguments_digest == other.arguments_digest
            // The server knows the key of another user as another key.
            && !OtherLogin::are_two_users(self.login.as_deref(), other.login.as_deref());
        let is_answered = match other.state {
            CallState::Finished(finished) => finished != Finished::Refused,
            CallState::Task => true,
            _ => false,
        };
        is_same && is_answered && self.connection.options().clock.now() < other.begun_at.plus(self.known_for)
    }

    /// Sends the call. When a task is returned, it is recorded. A result is yours to [`finish`](Self::finish) once you have used it.
    ///
    /// With an idempotency key the call is sent again, with exponential backoff for about a minute, while the server cannot be reached. Without one it is
    /// sent once. A busy server is waited for if [`CallOptions::waits_while_busy`] says so.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::CancelledElsewhere`] if another process wants the call to be cancelled before there is an answer. The call is recorded as refused if the tool has not run, and as failed if it may have run and the server has answered with an error.
    /// Otherwise it is of unknown outcome; with an idempotency key it is interrupted, and the same call continues it.
    pub async fn send(&mut self, on_event: Observer<'_>) -> Result<CallResponse, RequestError> {
        loop {
            // It never returns nothing.
            if let Some(response) = self.send_unless(std::future::pending(), on_event).await {
                return response;
            }
        }
    }

    /// As [`send`](Self::send); stops waiting when `stopped` completes before there is an answer, and returns `None` then, with nothing recorded: see
    /// [`give_up`](Self::give_up) and [`cancelled`](Self::cancelled). An answer that has arrived is always returned. A server that may make the call a task has two
    /// more seconds to name it, since a task goes on, and without its id nobody could follow or cancel it; unless the user is being asked something, so that the
    /// server has no request. After that a request that is no longer waited for is cancelled as its era of MCP says; one that is cancelled by message, or [by its
    /// key](Connection::cancel_by_key), before its stream is closed, for which the server has two seconds. A call with an idempotency key that its caller [leaves](StopWaiting::Leave) goes on.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_unless(
        &mut self,
        stopped: impl Future<Output = StopWaiting>,
        on_event: Observer<'_>,
    ) -> Option<Result<CallResponse, RequestError>> {
        let _unanswered = self.record.as_ref().map(|record| {
            let tasks = self.connection.legacy_tasks();
            tasks.expect_answer(record, self.task_answer == TaskAnswer::Requested)
        });
        // An answer that has arrived is taken, and what follows it is not interrupted: the handle would be lost.
        let mut is_cancelled_elsewhere = false;
        let begun = self.connection.monotonic();
        let (response, was_asking) = {
            let mut sending = pin!(self.send_until_answered(on_event));
            let answered = tokio::select! {
                biased;
                response = &mut sending => Ok(response),
                stop = stopped => Err(stop),
                () = self.cancel_requested() => {
                    is_cancelled_elsewhere = true;
                    Err(StopWaiting::Cancel)
                }
            };
            let was_asking = self.is_asked();
            match answered {
                Ok(response) => (Some(response), was_asking),
                Err(stop) => {
                    let mut last_word = pin!(self.wait_for_last_word(stop, was_asking, begun));
                    let response = tokio::select! {
                        biased;
                        response = &mut sending => Some(response),
                        () = &mut last_word => None,
                    };
                    let response = match response {
                        // The server has ended the stream, and may have accepted the cancellation, too.
                        Some(response) if !self.is_last_word(&response) => {
                            last_word.await;
                            None
                        }
                        response => response,
                    };
                    (response, was_asking)
                }
            }
        };
        self.was_asking = was_asking;
        let response = match response {
            None if is_cancelled_elsewhere => Err(RequestError::CancelledElsewhere),
            response => response?,
        };
        let response = self.note_response(response, on_event).await;
        if let (Ok(CallResponse::Task(task)), true) = (&response, is_cancelled_elsewhere)
            && let Err(error) = task.cancel().await
        {
            tracing::warn!(%error, "a task was not cancelled");
        }
        Some(response)
    }

    /// Gives the server its time to name the task, or else tells it that the call is cancelled.
    async fn wait_for_last_word(&self, stop: StopWaiting, was_asking: bool, begun: Duration) {
        let key = self.options.idempotency_key.as_deref();
        let is_left = stop == StopWaiting::Leave && key.is_some();
        // What is named later is found by the key.
        let had = match is_left {
            true => whole_millis(self.connection.monotonic().saturating_sub(begun)),
            false => 0,
        };
        let limit = || self.connection.sleep(LAST_WORD.saturating_sub(had));
        if let (StopWaiting::Cancel, Some(key), true) = (stop, key, self.cancels_by_key) {
            let by_key = self.connection.cancel_sent_by_key(&self.progress, &self.tool.name, key);
            let is_cancelled = tokio::select! {
                biased;
                is_cancelled = by_key => is_cancelled,
                () = limit() => false,
            };
            if is_cancelled {
                return;
            }
        }
        match (self.may_become_task(), was_asking) {
            (true, false) => limit().await,
            (true, true) => {}
            (false, _) if is_left => {}
            (false, _) => tokio::select! {
                biased;
                () = self.connection.cancel_sent(&self.progress) => {}
                () = limit() => {}
            },
        }
    }

    /// Whether this is an answer to the call. Once the server was told that it is cancelled, an error only says that it is: some servers end the stream, and others answer with an error.
    fn is_last_word(&self, response: &Result<CallResponse, RequestError>) -> bool {
        !self.progress.is_cancelled() || matches!(response, Ok(_) | Err(RequestError::InvalidOutput { .. }))
    }

    /// Whether the server was waiting for an answer of the user when the call was given up, so that it runs nothing.
    pub(crate) fn was_asking(&self) -> bool {
        self.was_asking
    }

    /// Whether the server [cancels it by its key](Connection::cancel_by_key), also later.
    pub fn is_cancelled_by_key(&self) -> bool {
        self.cancels_by_key && self.options.idempotency_key.is_some()
    }

    /// Whether the server has cancelled it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.progress.has_ended()
    }

    /// Whether the server waits for an answer of the user.
    fn is_asked(&self) -> bool {
        let listening = self.connection.listening();
        let asks_by_request = |record: &CallRecord| listening.asks_in_call(record.call());
        self.progress.is_asking() || self.record.as_ref().is_some_and(asks_by_request)
    }

    /// Whether it may go on at the server when it is no longer waited for: as a task, or under its idempotency key; not if the server has accepted that it is cancelled.
    pub fn may_go_on(&self) -> bool {
        (self.may_become_task() || self.options.idempotency_key.is_some()) && !self.progress.is_cancellation_accepted()
    }

    fn may_become_task(&self) -> bool {
        self.task_answer != TaskAnswer::No
    }

    /// Waits until another process wants the call to be cancelled.
    async fn cancel_requested(&self) {
        match &self.record {
            Some(record) => record.cancel_requested().await,
            None => std::future::pending().await,
        }
    }

    async fn note_response(
        &self,
        response: Result<CallResponse, RequestError>,
        on_event: Observer<'_>,
    ) -> Result<CallResponse, RequestError> {
        match &response {
            Ok(_) => {}
            Err(RequestError::Unanswered { .. }) => self.record_finished(Finished::Unanswered).await,
            // Whoever refuses it has not looked whether it knows the key: what was sent before may run, and the same call continues it.
            Err(error) if self.is_refused(error) && self.may_have_run(error) && is_refused_unread(error) => {
                self.release().await;
            }
            Err(error) if self.is_refused(error) => self.record_finished(Finished::Refused).await,
            // The result is in the error.
            Err(RequestError::InvalidOutput { .. }) => self.record_finished(Finished::InvalidOutput).await,
            Err(error @ RequestError::Rpc(failure)) if leaves_outcome_unknown(failure) => {
                self.unknown(&error.to_string()).await;
            }
            // The tool may have run, but there is an answer, and under its key the call would only get the same one.
            Err(RequestError::Rpc(_)) => self.record_finished(Finished::Failed).await,
            Err(RequestError::CancelledElsewhere) if self.was_asking || !self.may_go_on() => {
                self.record_finished(Finished::Cancelled).await;
            }
            Err(error @ RequestError::CancelledElsewhere) => self.unknown(&error.to_string()).await,
            Err(error @ RequestError::NoKeysAnyMore { .. }) => self.unknown(&error.to_string()).await,
            // Under its key it can be made again, also at once.
            Err(_) if self.options.idempotency_key.is_some() => self.release().await,
            Err(error) => self.unknown(&error.to_string()).await,
        }
        match response? {
            CallResponse::Task(task) => {
                let task = self.acknowledge(task, on_event).await;
                Ok(CallResponse::Task(self.as_it_is_now(task).await))
            }
            done => Ok(done),
        }
    }

    /// A legacy server answers with a task that it has created just now, also if an earlier call under the key has created it, and it has ended.
    async fn as_it_is_now(&self, task: TaskHandle) -> TaskHandle {
        let is_legacy = task
            .reference()
            .is_some_and(|task| task.generation == Generation::Legacy);
        if self.earlier == EarlierCall::None || !is_legacy {
            return task;
        }
        match task.get().await {
            Ok(now) if now.status.is_final() => task.seen_as(now),
            _ => task,
        }
    }

    async fn send_until_answered(&self, on_event: Observer<'_>) -> Result<CallResponse, RequestError> {
        let (mut failures, mut refusals) = (0, 0_u32);
        let (mut may_be_replaced, mut may_have_it) = (false, false);
        loop {
            let still_takes_keys = match may_be_replaced {
                true => self.still_takes_keys().await,
                false => Ok(()),
            };
            let sent = match still_takes_keys {
                Ok(()) => {
                    let origin = Origin {
                        source: self.options.source,
                        record: self.record.as_ref(),
                        call: Some(&self.progress),
                    };
                    let (tool, arguments, options) = (&self.tool, &self.arguments, &self.options);
                    let called = self
                        .connection
                        .call_recorded(tool, arguments, options, origin, on_event);
                    called.await
                }
                Err(error) => Err(error),
            };
            may_be_replaced |= matches!(sent, Err(RequestError::Unreachable { .. }));
            may_have_it |= sent.as_ref().is_err_and(|error| !error.is_unsent());
            if sent.as_ref().is_err_and(|error| self.may_have_run(error)) {
                self.progress.note_sent();
            }
            let retries = match may_have_it && !self.connection.transport().is_session() {
                true => RETRIES,
                false => RETRIES_OF_UNSENT,
            };
            let error = match sent {
                answered if self.progress.is_cancelled() => return answered,
                Err(error) if self.options.waits_while_busy && error.is_busy() => {
                    refusals = refusals.saturating_add(1);
                    error
                }
                Err(error) if failures < retries && self.may_be_sent_again(&error) => {
                    failures += 1;
                    error
                }
                answered => {
                    if answered.is_ok() && failures.saturating_add(refusals) > 0 {
                        on_event(Event::Recovered);
                    }
                    return answered;
                }
            };
            let attempt = failures.saturating_add(refusals);
            let retry_in = polling::next_retry(attempt, error.retry_after(), self.connection.jitter());
            on_event(Event::Retrying {
                error: &error,
                attempt,
                retry_in,
            });
            self.connection.sleep(retry_in).await;
        }
    }

    /// A server that was away may be another one now, which would run the call again under whatever key.
    async fn still_takes_keys(&self) -> Result<(), RequestError> {
        if let Some(era) = self.connection.known_era().await.filter(|era| era.legacy().is_none()) {
            self.connection.forget(&era).await;
        }
        match self.connection.server().await?.takes_idempotency_keys() {
            true => Ok(()),
            false => Err(RequestError::NoKeysAnyMore {
                address: masked_address(self.connection.address()),
            }),
        }
    }

    /// Whether the server may have the call or not, and sending it again is the same call.
    fn may_be_sent_again(&self, error: &RequestError) -> bool {
        self.options.idempotency_key.is_some() && error.is_transient() && !error.is_refusal()
    }

    async fn acknowledge(&self, task: TaskHandle, on_event: Observer<'_>) -> TaskHandle {
        let (Some(record), Some(reference)) = (&self.record, task.reference().cloned()) else {
            return task;
        };
        if reference.generation == Generation::Legacy {
            // Before it is on disk: the task may ask at once.
            self.connection.follow_legacy_task(task.id(), Some(record));
        }
        if let Err(error) = record.acknowledge(reference, self.is_task_kept).await {
            on_event(Event::NotRecorded { error: &error });
        }
        task.recorded(record.clone())
    }

    /// Records that the result was used, so nothing more is to be done. Until then a call of the same tool with the same arguments gets the same result, if
    /// the server takes idempotency keys.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn finish(self, outcome: &Outcome) -> Result<(), JournalError> {
        match self.record {
            Some(record) => record.finish(Finished::of_call(outcome)).await,
            None => Ok(()),
        }
    }

    /// Records that the call is given up, and may have run. The same call is another one then, unless it is made with this
    /// [idempotency key](Self::idempotency_key).
    pub async fn give_up(self, reason: &str) {
        self.unknown(reason).await;
    }

    /// Records that this client has cancelled the call.
    pub async fn cancelled(&self) {
        self.record_finished(Finished::Cancelled).await;
    }

    /// Records that the call was given up because nobody answered what it asked.
    pub async fn unanswered(&self) {
        self.record_finished(Finished::Unanswered).await;
    }

    async fn record_finished(&self, finished: Finished) {
        if let Some(record) = &self.record
            && let Err(error) = record.finish(finished).await
        {
            tracing::warn!(%error, "the end of a call is not recorded");
        }
    }

    async fn release(&self) {
        if let Some(record) = &self.record {
            record.release().await;
        }
    }

    async fn unknown(&self, reason: &str) {
        if let Some(record) = &self.record {
            record.mark_unknown(reason).await;
        }
    }
}

/// Whether the call is refused by what stands before the server's record of idempotency keys: a login, a limit, or this client.
fn is_refused_unread(error: &RequestError) -> bool {
    error.is_busy() || !matches!(error, RequestError::Rpc(_))
}
