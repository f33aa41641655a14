//! Messages of a server that belong to no request of ours, and serving its requests.

use crate::{
    Connection, ServerChange, TaskSnapshot,
    era::{Era, LegacySession},
    input::{InputRequest, InputResponse, not_offered},
    listening::{MAX_SERVED, ServedRequest},
    polling,
    response::ServerRequest,
};
use longhaul_core::{BoxFuture, Json, Millis, Outcome, RpcFailure};
use longhaul_wire::{Message, Method, jsonrpc::Notification, meta};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The first and the longest wait before the push stream is opened again, in milliseconds.
const OPEN_AGAIN: (Millis, Millis) = (1_000, 30_000);

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
        let id = request.id.clone();
        let task = related_task(&request);
        // Held until the entry is made, so that it is not made after the request was served.
        let mut entries = serving.lock();
        let served = tokio::spawn({
            let serving = Arc::clone(&serving);
            async move {
                let outcome = match permit {
                    Ok(_permit) => connection.answer_request(&request).await,
                    Err(_) => Err(RpcFailure {
                        code: -32603,
                        message: format!("This client serves {MAX_SERVED} requests already").into(),
                        data: None,
                    }),
                };
                serving.lock().remove(&request.id);
                match (
                    connection.send_message(&era, request.respond(outcome)).await,
                    &connection.options().inputs,
                ) {
                    (Ok(true), Some(inputs)) => inputs.delivered(&asked_by(&request)),
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
        });
        let running = served.abort_handle();
        entries.insert(id, ServedRequest { running, task });
    }

    async fn answer_request(&self, request: &ServerRequest) -> Result<Value, RpcFailure> {
        let method = request.method.as_str();
        if method == Method::Ping.as_str() {
            return Ok(json!({}));
        }
        let hosted = self.hosted_tasks();
        match method {
            _ if !self.options().hosts_tasks => {}
            "tasks/get" => return hosted.get(&request.params),
            "tasks/list" => return hosted.list(&request.params),
            "tasks/cancel" => return hosted.cancel(&request.params),
            "tasks/result" => return hosted.result(&request.params).await,
            _ => {}
        }
        let Some(inputs) = &self.options().inputs else {
            return Err(not_offered(method));
        };
        let related = &request.params["_meta"][meta::RELATED_TASK];
        let answer = inputs.answer(asked_by(request));
        if request.params["task"].is_object() && self.options().hosts(method) {
            return self.answer_as_task(request, answer);
        }
        let mut result = answer.await?.into_value();
        if related.is_object() && result.is_object() {
            // G1-41.
            result["_meta"][meta::RELATED_TASK] = related.clone();
        }
        Ok(result)
    }
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
