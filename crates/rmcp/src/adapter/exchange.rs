//! One request to the handler until its result, with the questions and notifications in between.
#![expect(
    deprecated,
    reason = "rmcp marks sampling, roots and logging as deprecated (SEP-2577); handlers still use them"
)]

use super::{
    caller::Caller,
    changes::{Change, Changes},
    connection::{ClientEnd, Handler, RequestConnection},
};
use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable, Aborted, BoxFuture, FutureExt, join_all},
    stream::FuturesUnordered,
};
use longhaul_core::{Capability, Json, LogLevel, StopReason};
use longhaul_runtime::{AskError, Question, STOP_GRACE};
use rmcp::{
    ErrorData,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification, ClientRequest,
        CustomNotification, EmptyResult, ErrorCode, GetMeta, InputRequests, InputRequiredResult, InputResponses,
        JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, LoggingLevel, ProgressToken, RequestId,
        ServerJsonRpcMessage, ServerNotification, ServerRequest, ServerResult,
    },
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// How often the handler may answer a request with questions.
const MAX_ROUNDS: usize = 100;
/// The wait before a request is sent again if the handler returned `input_required` without a question.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The user has finished on a page (2025-11-25); rmcp has no type for it.
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// The handler, and the channel for the changes that it announces.
pub(super) struct HostedHandler {
    handler: Box<dyn Handler>,
    pub(super) changes: Changes,
    next_id: AtomicI64,
}

/// A request has no result.
#[derive(Debug)]
pub(super) enum RequestFailure {
    /// The handler answered with an error.
    Refused(ErrorData),
    /// The handler panicked.
    Panicked,
    /// The task was stopped.
    Stopped(StopReason),
    /// Its result was a question that could not be asked or got no answer.
    Ask(AskError),
}

impl HostedHandler {
    pub(super) fn new(handler: impl Handler, changes: Changes) -> Self {
        Self {
            handler: Box::new(handler),
            changes,
            next_id: AtomicI64::new(1),
        }
    }

    /// Sends a request and returns the handler's result. Questions in a result (`input_required`, 2026-07-28) are asked, and the request is sent
    /// again with the answers. `make_request` makes it for each round.
    ///
    /// # Errors
    /// [`RequestFailure`]; also if the request cannot be made.
    pub(super) async fn request(
        &self,
        make_request: impl Fn() -> Result<ClientRequest, serde_json::Error>,
        caller: &Caller,
    ) -> Result<ServerResult, RequestFailure> {
        let mut answers = None;
        for _ in 0..MAX_ROUNDS {
            let mut request = make_request().map_err(|error| unreadable(&error))?;
            if let Some(answers) = answers.take() {
                add_answers(&mut request, answers);
            }
            match self.send_once(request, caller).await? {
                ServerResult::InputRequiredResult(round) => answers = Some(ask_round(round, caller).await?),
                result => return Ok(result),
            }
        }
        let endless = format!("the handler returned questions {MAX_ROUNDS} times and no result");
        Err(RequestFailure::Refused(ErrorData::internal_error(endless, None)))
    }

    /// An id that no other request to the handler has, on any connection.
    pub(super) fn next_id(&self) -> RequestId {
        RequestId::Number(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    async fn send_once(&self, mut request: ClientRequest, caller: &Caller) -> Result<ServerResult, RequestFailure> {
        let id = self.next_id();
        let meta = request.get_meta_mut();
        *meta = caller.meta().into();
        // The progress token is set even if the client wants no progress: tasks show it.
        meta.set_progress_token(ProgressToken(id.clone()));
        let connection = self.handler.connect(caller.initialize_params());
        Exchange {
            caller,
            changes: &self.changes,
            id,
            sender: connection.client_end.sender.clone(),
            replies: FuturesUnordered::new(),
            open_questions: HashMap::new(),
        }
        .run(connection, request)
        .await
    }
}

fn unreadable(error: &serde_json::Error) -> RequestFailure {
    RequestFailure::Refused(ErrorData::internal_error(
        format!("a message to or from the handler could not be read: {error}"),
        None,
    ))
}

/// A result as JSON.
pub(super) fn text(result: &ServerResult) -> Result<Json, RequestFailure> {
    match serde_json::to_string(result) {
        Ok(text) => Ok(Json::trusted(text)),
        Err(error) => Err(unreadable(&error)),
    }
}

/// The answers to a round of questions.
struct RoundAnswers {
    responses: Option<InputResponses>,
    state: Option<String>,
}

/// Adds the answers of the last round to the request.
fn add_answers(request: &mut ClientRequest, RoundAnswers { responses, state }: RoundAnswers) {
    let (input_responses, request_state) = match request {
        ClientRequest::CallToolRequest(call) => (&mut call.params.input_responses, &mut call.params.request_state),
        ClientRequest::GetPromptRequest(get) => (&mut get.params.input_responses, &mut get.params.request_state),
        ClientRequest::ReadResourceRequest(read) => (&mut read.params.input_responses, &mut read.params.request_state),
        // The result of other requests is never a question.
        _ => return,
    };
    (*input_responses, *request_state) = (responses, state);
}

async fn ask_round(round: InputRequiredResult, caller: &Caller) -> Result<RoundAnswers, RequestFailure> {
    let responses = match round.input_requests {
        Some(questions) if !questions.is_empty() => Some(ask_all(questions, caller).await?),
        _ => {
            caller.sleep(RETRY_DELAY).await;
            None
        }
    };
    let state = round.request_state;
    Ok(RoundAnswers { responses, state })
}

/// Asks all questions concurrently, so that the client is shown them together.
async fn ask_all(questions: InputRequests, caller: &Caller) -> Result<InputResponses, RequestFailure> {
    let answers = questions.into_iter().map(|(key, question)| async {
        let request = serde_json::to_value(question).map_err(|error| unreadable(&error))?;
        let question = Question {
            name: Some(key.as_str().into()),
            ..question_of(request)
        };
        let answer = caller.ask(question).await.map_err(RequestFailure::Ask)?;
        let answer: Value = serde_json::from_str(answer.as_str()).map_err(|error| unreadable(&error))?;
        Ok((key, answer))
    });
    join_all(answers).await.into_iter().collect()
}

fn question_of(request: Value) -> Question {
    let request = Json::from(request);
    Question {
        name: None,
        needs: Capability::needed_by(&request),
        request,
        within: None,
    }
}

/// The messages on the connection of one request.
struct Exchange<'a> {
    caller: &'a Caller,
    changes: &'a Changes,
    id: RequestId,
    sender: tokio::sync::mpsc::Sender<ClientJsonRpcMessage>,
    replies: FuturesUnordered<BoxFuture<'a, (RequestId, Result<ClientJsonRpcMessage, Aborted>)>>,
    /// Aborts open questions if the handler cancels them.
    open_questions: HashMap<RequestId, AbortHandle>,
}

impl Exchange<'_> {
    async fn run(
        mut self,
        connection: RequestConnection,
        request: ClientRequest,
    ) -> Result<ServerResult, RequestFailure> {
        let RequestConnection {
            client_end,
            mut result,
            _open,
        } = connection;
        let ClientEnd { mut receiver, .. } = client_end;
        self.send(JsonRpcMessage::request(request, self.id.clone())).await;
        let caller = self.caller;
        let mut stop = caller.stopped().map(Some).boxed();
        let mut stopping = None;
        loop {
            tokio::select! {
                biased;
                reason = &mut stop => match (reason, stopping) {
                    (Some(reason), _) => {
                        stopping = Some(reason);
                        self.send(cancelled(self.id.clone())).await;
                        stop = caller.sleep(STOP_GRACE).map(|()| None).boxed();
                    }
                    (None, reason) => return Err(RequestFailure::Stopped(reason.unwrap_or(StopReason::Cancel))),
                },
                // Messages before the result are handled before it.
                Some(message) = receiver.recv() => self.receive(message).await,
                Some((id, reply)) = self.replies.next(), if !self.replies.is_empty() => {
                    self.open_questions.remove(&id);
                    // A cancelled question needs no reply.
                    if let Ok(reply) = reply {
                        self.send(reply).await;
                    }
                }
                result = &mut result => {
                    while let Ok(message) = receiver.try_recv() {
                        self.receive(message).await;
                    }
                    return result.map_err(|_| RequestFailure::Panicked)?.map_err(RequestFailure::Refused);
                }
            }
        }
    }

    /// Ignores that the connection is closed: then the channel of the result is, too.
    async fn send(&mut self, message: ClientJsonRpcMessage) {
        let _ = self.sender.send(message).await;
    }

    async fn receive(&mut self, message: ServerJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) => self.ask(id, request).await,
            JsonRpcMessage::Notification(JsonRpcNotification { notification, .. }) => self.forward(notification),
            // The result has a channel of its own.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    async fn ask(&mut self, id: RequestId, mut request: ServerRequest) {
        let refused = match &request {
            ServerRequest::PingRequest(_) => {
                return self.send(JsonRpcMessage::response(EmptyResult {}.into(), id)).await;
            }
            ServerRequest::ElicitRequest(_)
            | ServerRequest::CreateMessageRequest(_)
            | ServerRequest::ListRootsRequest(_) => None,
            _ => Some("only elicitation, sampling and roots can be requested from a client"),
        };
        // No client sends progress of an answer.
        request.get_meta_mut().remove("progressToken");
        let request = match (refused, serde_json::to_value(request)) {
            (None, Ok(request)) => request,
            (why, _) => {
                let why = why.unwrap_or("the question could not be written");
                let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None);
                return self.send(JsonRpcMessage::error(error, Some(id))).await;
            }
        };
        let (handle, registration) = AbortHandle::new_pair();
        self.open_questions.insert(id.clone(), handle);
        let caller = self.caller;
        let question_id = id.clone();
        let reply = async move { reply(question_id, caller.ask(question_of(request)).await) };
        let reply = Abortable::new(reply, registration);
        self.replies.push(reply.map(|reply| (id, reply)).boxed());
    }

    fn forward(&mut self, notification: ServerNotification) {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                let progress = progress.params;
                let message = progress.message.as_deref();
                self.caller.report(progress.progress, progress.total, message);
            }
            ServerNotification::LoggingMessageNotification(log) => {
                let log = log.params;
                self.caller.log(level(log.level), log.logger.as_deref(), log.data);
            }
            ServerNotification::CancelledNotification(cancelled) => {
                let id = cancelled.params.request_id;
                if let Some(handle) = id.and_then(|id| self.open_questions.remove(&id)) {
                    handle.abort();
                }
            }
            ServerNotification::CustomNotification(CustomNotification {
                method,
                params: Some(params),
                ..
            }) if method == ELICITATION_COMPLETE => {
                if let Some(id) = params["elicitationId"].as_str() {
                    self.caller.elicitation_complete(id);
                }
            }
            other => {
                if let Some(change) = Change::of(&other) {
                    self.changes.send(change);
                }
            }
        }
    }
}

fn cancelled(id: RequestId) -> ClientJsonRpcMessage {
    let params = CancelledNotificationParam::new(Some(id), Some("the task was asked to stop".to_owned()));
    let cancelled = CancelledNotification::new(params);
    JsonRpcMessage::notification(ClientNotification::CancelledNotification(cancelled))
}

/// The reply to the handler's question: the client's answer, or an error.
fn reply(id: RequestId, answer: Result<Json, AskError>) -> ClientJsonRpcMessage {
    let error = match answer {
        Ok(answer) => match serde_json::from_str(answer.as_str()) {
            Ok(result) => return JsonRpcMessage::response(result, id),
            Err(error) => ErrorData::internal_error(format!("the client's answer cannot be read: {error}"), None),
        },
        Err(AskError::Refused(failure)) => ErrorData::new(
            ErrorCode(failure.code),
            failure.message.to_string(),
            failure.data.and_then(|data| serde_json::from_str(data.as_str()).ok()),
        ),
        Err(error @ AskError::Unsupported(_)) => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, error.to_string(), None),
        Err(error) => ErrorData::internal_error(error.to_string(), None),
    };
    JsonRpcMessage::error(error, Some(id))
}

fn level(level: LoggingLevel) -> LogLevel {
    match level {
        LoggingLevel::Debug => LogLevel::Debug,
        LoggingLevel::Info => LogLevel::Info,
        LoggingLevel::Notice => LogLevel::Notice,
        LoggingLevel::Warning => LogLevel::Warning,
        LoggingLevel::Error => LogLevel::Error,
        LoggingLevel::Critical => LogLevel::Critical,
        LoggingLevel::Alert => LogLevel::Alert,
        _ => LogLevel::Emergency,
    }
}
