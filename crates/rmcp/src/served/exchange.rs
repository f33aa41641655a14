//! One request to the handler, from the asking to the answer, with all that is said and asked on the way.
#![expect(
    deprecated,
    reason = "rmcp calls sampling, roots and logging so (SEP-2577); handlers go on using them"
)]

use super::{
    caller::Caller,
    changes::{Change, Changes},
    connection::{Handler, Near, OneRequest},
};
use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable, Aborted, BoxFuture, FutureExt, join_all},
    stream::FuturesUnordered,
};
use longhaul_core::{Json, LogLevel, StopReason};
use longhaul_runtime::{Ability, AskError, Question};
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

/// How long the handler may take to follow a request to stop before its work is dropped.
const GRACE: Duration = Duration::from_secs(10);
/// How often a request may be answered with questions before we take it that there is no end to it.
const ROUNDS: usize = 100;
/// How long we wait before a request is sent again that was put off without a question.
const PUT_OFF: Duration = Duration::from_secs(1);
/// Says that what there was to do on a page is done (2025-11-25); rmcp has no type for it.
const PAGE_DONE: &str = "notifications/elicitation/complete";

/// A handler, and where its word of changed lists goes.
pub(super) struct Hosted {
    handler: Box<dyn Handler>,
    pub(super) changes: Changes,
    requests: AtomicI64,
}

/// A request came to no result.
#[derive(Debug)]
pub(super) enum Failed {
    /// The handler answered with an error.
    Refused(ErrorData),
    /// The handler panicked.
    Panicked,
    /// It was made to stop.
    Stopped(StopReason),
    /// It was answered with a question that cannot be asked, or gets no answer.
    Asked(AskError),
}

impl Hosted {
    pub(super) fn new(handler: impl Handler, changes: Changes) -> Self {
        Self {
            handler: Box::new(handler),
            changes,
            requests: AtomicI64::new(1),
        }
    }

    /// What the handler answers, with its questions (2026-07-28: `input_required`) asked and answered. `make` makes the request, for each
    /// round of questions anew.
    ///
    /// # Errors
    /// [`Failed`]; also if the request cannot be made.
    pub(super) async fn request(
        &self,
        make: impl Fn() -> Result<ClientRequest, serde_json::Error>,
        caller: &Caller,
    ) -> Result<ServerResult, Failed> {
        let mut answered = None;
        for _ in 0..ROUNDS {
            let mut request = make().map_err(|error| unreadable(&error))?;
            if let Some(answered) = answered.take() {
                go_on(&mut request, answered);
            }
            match self.once(request, caller).await? {
                ServerResult::InputRequiredResult(round) => answered = Some(answer(round, caller).await?),
                result => return Ok(result),
            }
        }
        let endless = format!("the handler asked {ROUNDS} times and came to no end");
        Err(Failed::Refused(ErrorData::internal_error(endless, None)))
    }

    /// An id that no other request to the handler has: on whatever connection they come, it may keep them apart by it.
    pub(super) fn next_id(&self) -> RequestId {
        RequestId::Number(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    async fn once(&self, mut request: ClientRequest, caller: &Caller) -> Result<ServerResult, Failed> {
        let id = self.next_id();
        let meta = request.get_meta_mut();
        *meta = caller.meta().into();
        // Progress is always welcome.
        meta.set_progress_token(ProgressToken(id.clone()));
        let connection = self.handler.connect(caller.introduction());
        Exchange {
            caller,
            changes: &self.changes,
            id,
            to: connection.near.to.clone(),
            asking: FuturesUnordered::new(),
            asked: HashMap::new(),
        }
        .run(connection, request)
        .await
    }
}

fn unreadable(error: &serde_json::Error) -> Failed {
    Failed::Refused(ErrorData::internal_error(
        format!("a message to or from the handler could not be read: {error}"),
        None,
    ))
}

/// A result as its text.
pub(super) fn text(result: &ServerResult) -> Result<Json, Failed> {
    match serde_json::to_string(result) {
        Ok(text) => Ok(Json::trusted(text)),
        Err(error) => Err(unreadable(&error)),
    }
}

/// What a round of questions has come to.
struct Answered {
    responses: Option<InputResponses>,
    state: Option<String>,
}

/// The next round: the same request, with the answers.
fn go_on(request: &mut ClientRequest, Answered { responses, state }: Answered) {
    let (to, kept) = match request {
        ClientRequest::CallToolRequest(call) => (&mut call.params.input_responses, &mut call.params.request_state),
        ClientRequest::GetPromptRequest(get) => (&mut get.params.input_responses, &mut get.params.request_state),
        ClientRequest::ReadResourceRequest(read) => (&mut read.params.input_responses, &mut read.params.request_state),
        // Nothing else is answered with questions.
        _ => return,
    };
    (*to, *kept) = (responses, state);
}

async fn answer(round: InputRequiredResult, caller: &Caller) -> Result<Answered, Failed> {
    let responses = match round.input_requests {
        Some(questions) if !questions.is_empty() => Some(answers(questions, caller).await?),
        _ => {
            caller.sleep(PUT_OFF).await;
            None
        }
    };
    let state = round.request_state;
    Ok(Answered { responses, state })
}

/// Asked together, so that a reader sees all of them or none.
async fn answers(questions: InputRequests, caller: &Caller) -> Result<InputResponses, Failed> {
    let answers = questions.into_iter().map(|(key, question)| async {
        let request = serde_json::to_value(question).map_err(|error| unreadable(&error))?;
        let question = Question {
            name: Some(key.as_str().into()),
            ..question_of(request)
        };
        let answer = caller.ask(question).await.map_err(Failed::Asked)?;
        let answer: Value = serde_json::from_str(answer.as_str()).map_err(|error| unreadable(&error))?;
        Ok((key, answer))
    });
    join_all(answers).await.into_iter().collect()
}

fn question_of(request: Value) -> Question {
    let request = Json::from(request);
    Question {
        name: None,
        needs: Ability::needed_by(&request),
        request,
        within: None,
    }
}

/// What goes on on the connection of one request.
struct Exchange<'a> {
    caller: &'a Caller,
    changes: &'a Changes,
    id: RequestId,
    to: tokio::sync::mpsc::Sender<ClientJsonRpcMessage>,
    asking: FuturesUnordered<BoxFuture<'a, (RequestId, Result<ClientJsonRpcMessage, Aborted>)>>,
    /// Of each that is open, so that the handler can take a question back.
    asked: HashMap<RequestId, AbortHandle>,
}

impl Exchange<'_> {
    async fn run(mut self, connection: OneRequest, request: ClientRequest) -> Result<ServerResult, Failed> {
        let OneRequest { near, mut told, _open } = connection;
        let Near { mut from, .. } = near;
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
                        stop = caller.sleep(GRACE).map(|()| None).boxed();
                    }
                    (None, reason) => return Err(Failed::Stopped(reason.unwrap_or(StopReason::Cancel))),
                },
                // What was said before the answer is told before it.
                Some(message) = from.recv() => self.hear(message).await,
                Some((id, reply)) = self.asking.next(), if !self.asking.is_empty() => {
                    self.asked.remove(&id);
                    // What was taken back needs no reply.
                    if let Ok(reply) = reply {
                        self.send(reply).await;
                    }
                }
                told = &mut told => {
                    while let Ok(message) = from.try_recv() {
                        self.hear(message).await;
                    }
                    return told.map_err(|_| Failed::Panicked)?.map_err(Failed::Refused);
                }
            }
        }
    }

    /// A connection that is closed is told by the answer's channel.
    async fn send(&mut self, message: ClientJsonRpcMessage) {
        let _ = self.to.send(message).await;
    }

    async fn hear(&mut self, message: ServerJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) => self.ask(id, request).await,
            JsonRpcMessage::Notification(JsonRpcNotification { notification, .. }) => self.note(notification),
            // The answer comes the other way.
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
            _ => Some("a client can be asked for elicitation, sampling and roots"),
        };
        // A token for progress that nobody will send.
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
        self.asked.insert(id.clone(), handle);
        let caller = self.caller;
        let asked = id.clone();
        let reply = async move { reply(asked, caller.ask(question_of(request)).await) };
        let reply = Abortable::new(reply, registration);
        self.asking.push(reply.map(|reply| (id, reply)).boxed());
    }

    fn note(&mut self, notification: ServerNotification) {
        match notification {
            ServerNotification::ProgressNotification(said) => {
                let said = said.params;
                self.caller.report(said.progress, said.total, said.message.as_deref());
            }
            ServerNotification::LoggingMessageNotification(said) => {
                let said = said.params;
                self.caller.log(level(said.level), said.logger.as_deref(), said.data);
            }
            ServerNotification::CancelledNotification(taken_back) => {
                let id = taken_back.params.request_id;
                if let Some(handle) = id.and_then(|id| self.asked.remove(&id)) {
                    handle.abort();
                }
            }
            ServerNotification::CustomNotification(CustomNotification {
                method,
                params: Some(params),
                ..
            }) if method == PAGE_DONE => {
                if let Some(id) = params["elicitationId"].as_str() {
                    self.caller.page_done(id);
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

/// The client's answer, or why there is none, as the handler is told.
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
