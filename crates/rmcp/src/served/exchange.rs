//! One request to the handler, from the asking to the answer, with all that is said and asked on the way.
#![expect(
    deprecated,
    reason = "rmcp calls sampling, roots and logging so (SEP-2577); handlers go on using them"
)]

use super::{
    caller::Caller,
    connection::{Handler, Near, OneRequest},
    watch::{Change, Changes},
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
        EmptyResult, ErrorCode, GetMeta, InputRequests, InputRequiredResult, JsonRpcMessage, JsonRpcNotification,
        JsonRpcRequest, LoggingLevel, RequestId, ServerJsonRpcMessage, ServerNotification, ServerRequest, ServerResult,
    },
};
use serde_json::{Map, Value, json};
use std::{collections::HashMap, time::Duration};

/// How long the handler may take to follow a request to stop before its work is dropped.
const GRACE: Duration = Duration::from_secs(10);
/// How often a request may be answered with questions before we take it that there is no end to it.
const ROUNDS: usize = 100;
/// How long we wait before a request is sent again that was put off without a question.
const PUT_OFF: Duration = Duration::from_secs(1);
/// The id of the only request on a connection.
const ID: RequestId = RequestId::Number(1);

/// A handler, and where its word of changed lists goes.
pub(super) struct Hosted {
    pub(super) handler: Box<dyn Handler>,
    pub(super) changes: Changes,
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
    /// What the handler answers, with its questions (2026-07-28: `input_required`) asked and answered.
    pub(super) async fn request(&self, method: &str, params: Value, caller: &Caller) -> Result<Value, Failed> {
        let mut next = params.clone();
        for _ in 0..ROUNDS {
            match self.once(method, next, caller).await? {
                ServerResult::InputRequiredResult(round) => next = go_on(&params, round, caller).await?,
                result => return serde_json::to_value(result).map_err(|error| unreadable(&error)),
            }
        }
        let endless = format!("{method} asked {ROUNDS} times and came to no end");
        Err(Failed::Refused(ErrorData::internal_error(endless, None)))
    }

    async fn once(&self, method: &str, mut params: Value, caller: &Caller) -> Result<ServerResult, Failed> {
        params["_meta"] = Value::Object(caller.meta());
        let request = json!({"method": method, "params": params});
        let request: ClientRequest = serde_json::from_value(request).map_err(|error| unreadable(&error))?;
        let connection = self.handler.connect(caller.introduction());
        Exchange {
            caller,
            changes: &self.changes,
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

/// The params of the next round: the same, with the answers.
async fn go_on(params: &Value, round: InputRequiredResult, caller: &Caller) -> Result<Value, Failed> {
    let mut next = params.clone();
    match round.input_requests {
        Some(questions) if !questions.is_empty() => next["inputResponses"] = answers(questions, caller).await?,
        _ => caller.sleep(PUT_OFF).await,
    }
    if let Some(state) = round.request_state {
        next["requestState"] = state.into();
    }
    Ok(next)
}

/// Asked together, so that a reader sees all of them or none.
async fn answers(questions: InputRequests, caller: &Caller) -> Result<Value, Failed> {
    let answers = questions.into_iter().map(|(key, question)| async {
        let request = serde_json::to_value(question).map_err(|error| unreadable(&error))?;
        let question = Question {
            name: Some(key.as_str().into()),
            ..question_of(request)
        };
        let answer = caller.ask(question).await.map_err(Failed::Asked)?;
        let answer = serde_json::from_str(answer.as_str()).map_err(|error| unreadable(&error))?;
        Ok((key, answer))
    });
    let answers: Result<Map<String, Value>, Failed> = join_all(answers).await.into_iter().collect();
    answers.map(Value::Object)
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
    to: tokio::sync::mpsc::Sender<ClientJsonRpcMessage>,
    asking: FuturesUnordered<BoxFuture<'a, (RequestId, Result<ClientJsonRpcMessage, Aborted>)>>,
    /// Of each that is open, so that the handler can take a question back.
    asked: HashMap<RequestId, AbortHandle>,
}

impl Exchange<'_> {
    async fn run(mut self, connection: OneRequest, request: ClientRequest) -> Result<ServerResult, Failed> {
        let OneRequest { near, mut told, _open } = connection;
        let Near { mut from, .. } = near;
        self.send(JsonRpcMessage::request(request, ID)).await;
        let caller = self.caller;
        let mut stop = caller.stopped().map(Some).boxed();
        let mut stopping = None;
        loop {
            tokio::select! {
                biased;
                reason = &mut stop => match (reason, stopping) {
                    (Some(reason), _) => {
                        stopping = Some(reason);
                        self.send(cancelled()).await;
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
            other => {
                if let Some(change) = Change::of(&other) {
                    self.changes.tell(change);
                }
            }
        }
    }
}

fn cancelled() -> ClientJsonRpcMessage {
    let params = CancelledNotificationParam::new(Some(ID), Some("the task was asked to stop".to_owned()));
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
