//! Messages of a server that belong to no request of ours, and serving its requests.

use crate::{
    Connection, RequestError, ServerChange, TaskSnapshot,
    asking::{Answered, HeldQuestion},
    era::{Era, LegacySession},
    input::{InputRequest, InputResponse, not_offered},
    legacy_questions::{QuestionName, digest},
    listening::{MAX_SERVED, ServedAnswer, ServedRequest},
    polling,
    response::ServerRequest,
};
use futures_util::{FutureExt, TryFutureExt};
use longhaul_core::{BoxFuture, Json, Millis, Outcome, RpcFailure};
use longhaul_wire::{Message, Method, jsonrpc::Notification, meta};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The first and the longest wait before the push stream is opened again, in milliseconds.
const OPEN_AGAIN: (Millis, Millis) = (1_000, 30_000);
/// How often a response is sent again: for about a minute.
const RETRIES: u32 = 8;

impl Connection {
    /// Opens the push stream of a legacy session, if it is not open.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) fn listen(&self) {
        let mut stream = self.listening().stream.lock();
        if stream.as_ref().is_some_and(|stream| !stream.is_finished()) {
            return;
        }
        let connection = self.downgrade();
        let mut opening = Some(self.listening().open());
        let listening = tokio::spawn(async move {
            let mut wait = OPEN_AGAIN.0;
            loop {
                // The connection is held only while there is something to do, so that dropping it ends this.
                let Some(used) = connection.upgrade() else { return };
                let Ok(era) = used.era().await else { return };
                let Some(headers) = era.legacy().map(LegacySession::headers) else {
                    return;
                };
                let transport = Arc::clone(used.transport());
                drop(used);
                let mut asked = 0;
                let opened = transport.listen(headers).await;
                drop(opening.take());
                match opened {
                    Ok(Some(mut reply)) => {
                        wait = OPEN_AGAIN.0;
                        while let Ok(Some(message)) = reply.next().await {
                            let Some(connection) = connection.upgrade() else { return };
                            connection.receive(&message, &era);
                        }
                    }
                    // The server has no push stream, or another process has it.
                    Ok(None) => return,
                    Err(error) => {
                        tracing::debug!(%error, "the push stream could not be opened");
                        asked = error.retry_after().unwrap_or(0).min(polling::MAX_INTERVAL);
                    }
                }
                if transport.is_session() {
                    return;
                }
                drop(transport);
                let Some(connection) = connection.upgrade() else { return };
                connection.sleep(wait.max(asked)).await;
                wait = (wait * 2).min(OPEN_AGAIN.1);
            }
        });
        *stream = Some(listening.abort_handle());
    }

    /// Handles a message that belongs to no request.
    fn receive(&self, message: &[u8], era: &Arc<Era>) {
        match Message::parse(message) {
            Ok(Message::Request(request)) => self.serve(ServerRequest::read(&request), era),
            Ok(Message::Notification(notification)) => self.notified(&notification),
            Ok(Message::Response(_)) => tracing::debug!("ignored a response to an unknown request"),
            Err(rejection) => tracing::warn!(error = %rejection.error, "ignored an unreadable message of the server"),
        }
    }

    /// Handles a notification on any stream.
    pub(crate) fn notified(&self, notification: &Notification<'_>) {
        if let Some(change) = ServerChange::read(notification) {
            return self.changed(change);
        }
        if let Some(logging) = &self.options().logging {
            logging.notify(notification);
        }
        let Some(params) = notification.raw_params() else {
            return;
        };
        match &*notification.method {
            method if method == Method::TaskStatus.as_str() => {
                if let Ok(task) = TaskSnapshot::read(params.get()) {
                    if task.status.is_final() {
                        self.legacy_tasks().ended(&task.id);
                    }
                    self.task_pushes().deliver(task);
                }
            }
            method if method == Method::Cancelled.as_str() => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                if let Some(served) = self.listening().serving.lock().remove(&params["requestId"].to_string()) {
                    served.running.abort();
                }
            }
            "notifications/elicitation/complete" => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                if let (Some(inputs), Some(id)) = (&self.options().inputs, params["elicitationId"].as_str()) {
                    inputs.elicitation_complete(id);
                }
            }
            _ => {}
        }
    }

    /// Serves a request of a legacy server, in the session of this `era`, beside everything else.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) fn serve(&self, request: ServerRequest, era: &Arc<Era>) {
        let (connection, era) = (self.clone(), Arc::clone(era));
        let served = Arc::clone(&self.listening().served).try_acquire_owned();
        let permit = served
            .map(Ok)
            .or_else(|_| Arc::clone(&self.listening().refusals).try_acquire_owned().map(Err));
        let Ok(permit) = permit else {
            tracing::warn!(
                method = request.method,
                "ignored a request of the server: it sends too many"
            );
            return;
        };
        let serving = Arc::clone(&self.listening().serving);
        let (id, digest) = (request.id.clone(), digest(&request));
        let task = related_task(&request);
        // Held until the entry is made, so that it is not made after the request was served.
        let mut entries = serving.lock();
        match entries.get(&id) {
            Some(served) if served.digest == digest => {
                tracing::debug!(id, "ignored a request of the server that came twice");
                return;
            }
            Some(served) => served.running.abort(),
            None => {}
        }
        let sent_before = self.listening().sent_responses.lock().find(&id, &digest);
        // The user is being asked the same under another id.
        let open_answer = match task.is_some() && is_question(&request.method) {
            true => entries.values().find(|open| open.task == task && open.digest == digest),
            false => None,
        };
        let open_answer = open_answer.map(|open| open.answer.clone());
        let (answer_sender, answer) = watch::channel(None);
        let served = tokio::spawn({
            let serving = Arc::clone(&serving);
            async move {
                let (response, held) = match (sent_before, &permit) {
                    (Some(response), _) => (response, None),
                    (None, Ok(_)) => {
                        let (outcome, held) = match answer_of(open_answer).await {
                            Some(outcome) => (outcome, None),
                            None => connection.answer_request(&request).await,
                        };
                        answer_sender.send_replace(Some(outcome.clone()));
                        (request.respond(outcome), held)
                    }
                    (None, Err(_)) => {
                        let refusal = RpcFailure {
                            code: -32603,
                            message: format!("This client serves {MAX_SERVED} requests already").into(),
                            data: None,
                        };
                        (request.respond(Err(refusal)), None)
                    }
                };
                serving.lock().remove(&request.id);
                if permit.is_ok() && is_question(&request.method) {
                    let mut sent = connection.listening().sent_responses.lock();
                    sent.keep(&request.id, digest, &response);
                }
                connection.send_response(&era, &request, response, held).await;
            }
        });
        let running = served.abort_handle();
        let served = ServedRequest {
            running,
            task,
            digest,
            answer,
        };
        entries.insert(id, served);
    }

    /// Sends a response to the server, again while it is not available. What becomes of a recorded answer depends on whether the server takes it.
    async fn send_response(&self, era: &Arc<Era>, request: &ServerRequest, response: String, held: Option<HeldAnswer>) {
        let mut failures = 0;
        let sent = loop {
            match self.send_message(era, response.clone()).await {
                Err(error) if error.is_transient() && failures < RETRIES && !self.transport().is_session() => {
                    failures += 1;
                    let wait = polling::next_retry(failures, error.retry_after(), self.jitter());
                    self.sleep(wait).await;
                }
                sent => break sent,
            }
        };
        if let Some(HeldAnswer { question, is_unique }) = held {
            match &sent {
                Ok(true) if is_unique => question.accepted().await,
                Ok(true) => question.discarded().await,
                // It is sent when the question comes again: the server, or its session, was gone.
                Ok(false) => {}
                Err(error) if error.is_transient() || matches!(error, RequestError::Http { status: 404, .. }) => {}
                Err(_) => question.discarded().await,
            }
        }
        match (&sent, &self.options().inputs) {
            (Ok(true), Some(inputs)) => inputs.delivered(&asked_by(request)),
            (Ok(true), None) => {}
            (Ok(false), _) => tracing::debug!(
                method = request.method,
                "a request of the server was not answered: its session has ended"
            ),
            (Err(error), _) => {
                tracing::warn!(%error, method = request.method, "the server did not get the answer to its request");
            }
        }
    }

    async fn answer_request(&self, request: &ServerRequest) -> (Result<Value, RpcFailure>, Option<HeldAnswer>) {
        let method = request.method.as_str();
        if method == Method::Ping.as_str() {
            return (Ok(json!({})), None);
        }
        let hosted = self.hosted_tasks();
        match method {
            _ if !self.options().hosts_tasks => {}
            "tasks/get" => return (hosted.get(&request.params), None),
            "tasks/list" => return (hosted.list(&request.params), None),
            "tasks/cancel" => return (hosted.cancel(&request.params), None),
            "tasks/result" => return (hosted.result(&request.params).await, None),
            _ => {}
        }
        let Some(inputs) = self.options().inputs.clone() else {
            return (Err(not_offered(method)), None);
        };
        let task = related_task(request);
        let asked = asked_by(request);
        let recorded = match &task {
            Some(task) => {
                let record = self.legacy_tasks().record_of(task).await;
                record.map(|record| (record, QuestionName::of(request, task)))
            }
            None => None,
        };
        if request.params["task"].is_object() && self.options().hosts(method) {
            return (self.answer_as_task(request, inputs.answer(asked)), None);
        }
        let ask = || inputs.answer(asked.clone()).map_err(Unanswered).boxed();
        let (record, name) = match &recorded {
            Some((record, QuestionName { name, .. })) => (Some(record), name.as_str()),
            None => (None, ""),
        };
        let Answered { response, held } = match self.ask_recorded(record, name, &ask).await {
            Ok(Some(answered)) => answered,
            // The server has an answer, and withdraws this request.
            Ok(None) => return std::future::pending().await,
            Err(Unanswered(failure)) => return (Err(failure), None),
        };
        let mut result = response.into_value();
        let related = &request.params["_meta"][meta::RELATED_TASK];
        if related.is_object() && result.is_object() {
            // G1-41.
            result["_meta"][meta::RELATED_TASK] = related.clone();
        }
        let is_unique = recorded.is_some_and(|(_, name)| name.is_unique);
        let held = held.map(|question| HeldAnswer { question, is_unique });
        (Ok(result), held)
    }
}

/// A recorded answer that is being sent.
struct HeldAnswer {
    question: HeldQuestion,
    is_unique: bool,
}

/// The answer to another request, if it gets one.
async fn answer_of(other: Option<watch::Receiver<Option<ServedAnswer>>>) -> Option<ServedAnswer> {
    let mut other = other?;
    let answer = other.wait_for(Option::is_some).await.ok()?;
    answer.clone()
}

/// Why a question has no answer.
struct Unanswered(RpcFailure);

impl From<RequestError> for Unanswered {
    fn from(error: RequestError) -> Self {
        Self(RpcFailure {
            code: -32603,
            message: error.to_string().into(),
            data: None,
        })
    }
}

fn is_question(method: &str) -> bool {
    matches!(method, "elicitation/create" | "sampling/createMessage" | "roots/list")
}

impl Connection {
    /// Answers a request with a task of this client, which ends with `answer` or with its time.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn answer_as_task(
        &self,
        request: &ServerRequest,
        answer: BoxFuture<'static, Result<InputResponse, RpcFailure>>,
    ) -> Result<Value, RpcFailure> {
        let created = self.hosted_tasks().create(&request.method, &request.params)?;
        let (hosted, clock) = (Arc::downgrade(self.hosted_tasks()), Arc::clone(&self.options().clock));
        let id = created.id.clone();
        let running = tokio::spawn(async move {
            let outcome = tokio::select! {
                answer = answer => match answer {
                    Ok(answer) => Outcome::result(Json::from(answer.into_value())),
                    Err(failure) => Outcome::RpcError(failure),
                },
                () = clock.sleep(Duration::from_millis(created.ttl)) => return,
            };
            if let Some(hosted) = hosted.upgrade() {
                hosted.finish(&id, outcome);
            }
        });
        self.hosted_tasks().started(&created.id, running.abort_handle());
        Ok(created.result)
    }
}

fn asked_by(request: &ServerRequest) -> InputRequest {
    InputRequest {
        key: None,
        task: related_task(request),
        method: request.method.clone(),
        params: request.params.clone(),
    }
}

/// The task that a request of the server belongs to, if it says so.
fn related_task(request: &ServerRequest) -> Option<String> {
    let related = &request.params["_meta"][meta::RELATED_TASK];
    related["taskId"].as_str().map(str::to_owned)
}
