//! Messages of a server that belong to no request of ours.

use crate::{
    Connection, ServerChange, TaskSnapshot,
    connect::{
        era::Era,
        response::{ServerRequest, Unreadable},
    },
    transport::polling,
};
use http::HeaderMap;
use longhaul_core::{Json, Millis};
use longhaul_wire::{Message, Method, jsonrpc::Notification};
use serde_json::Value;
use std::sync::Arc;

/// The first and the longest wait before the push stream is opened again, in milliseconds.
const OPEN_AGAIN: (Millis, Millis) = (1_000, 30_000);

const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

impl Connection {
    /// Opens the push stream of a legacy session, or of a pipe, if it is not open.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) fn listen(&self) {
        self.listening()
            .read_stream(|| tokio::spawn(self.read_pushes()).abort_handle());
    }

    /// Reads the push stream, and opens it again when it ends.
    fn read_pushes(&self) -> impl Future<Output = ()> + Send + use<> {
        let connection = self.downgrade();
        let mut opening = Some(self.listening().open());
        let watched = self.listening().losses.push_stream();
        async move {
            let (mut wait, mut was_open) = (OPEN_AGAIN.0, false);
            loop {
                // The connection is held only while there is something to do, so that dropping it ends this.
                let Some(used) = connection.upgrade() else { return };
                let Ok(era) = used.era().await else { return };
                let transport = Arc::clone(used.transport());
                let headers = match era.legacy() {
                    Some(session) => session.headers(),
                    None if transport.is_session() => HeaderMap::new(),
                    None => return,
                };
                drop(used);
                let mut asked = 0;
                let opened = transport.listen(headers).await;
                drop(opening.take());
                match opened {
                    Ok(Some(mut reply)) => {
                        (wait, was_open) = (OPEN_AGAIN.0, true);
                        watched.opened();
                        loop {
                            match reply.next().await {
                                Ok(Some(message)) => {
                                    let Some(connection) = connection.upgrade() else { return };
                                    connection.receive(&message, &era);
                                }
                                // Some servers end it when nothing was sent for a while.
                                Ok(None) => break,
                                Err(error) => {
                                    if !transport.is_session() {
                                        watched.lost(&error);
                                    }
                                    break;
                                }
                            }
                        }
                    }
                    // The server has no push stream, or another process has it.
                    Ok(None) => return,
                    Err(error) => {
                        tracing::debug!(%error, "the push stream could not be opened");
                        if was_open {
                            watched.lost(&error);
                        }
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
        }
    }

    /// Handles a message that belongs to no request.
    fn receive(&self, message: &[u8], era: &Arc<Era>) {
        match Message::parse(message) {
            Ok(Message::Request(_)) if era.legacy().is_none() => {
                tracing::debug!("ignored a request: a modern server sends none");
            }
            Ok(Message::Request(request)) => self.serve(ServerRequest::read(&request), era, None, None),
            Ok(Message::Notification(notification)) => {
                self.notified(&notification, None);
                self.task_progress(&notification, true);
            }
            Ok(Message::Response(_)) => tracing::debug!("ignored a response to an unknown request"),
            Err(rejection) => match Unreadable::of(message, &rejection) {
                Unreadable::Request(request) if era.legacy().is_some() => self.serve(request, era, None, None),
                _ => {
                    let ignored = self.count_unreadable();
                    // Many messages, few lines of the log.
                    if ignored.is_power_of_two() {
                        tracing::warn!(error = %rejection.error, ignored, "ignored unreadable messages of the server");
                    }
                }
            },
        }
    }

    /// Handles progress, if it is that of a task: with `may_be_early` also of one whose call has no answer yet.
    pub(crate) fn task_progress(&self, notification: &Notification<'_>, may_be_early: bool) {
        if notification.method == Method::Progress.as_str() {
            self.legacy_tasks().progress.reported(notification, may_be_early);
        }
    }

    /// Handles a notification on any stream; that of a request may have a number of its caller's.
    pub(crate) fn notified(&self, notification: &Notification<'_>, source: Option<u64>) {
        if let Some(change) = ServerChange::read(notification) {
            return self.changed(change);
        }
        if let Some(logging) = &self.options().logging {
            logging.notify(notification, source);
        }
        let is_other = !Method::is_known(&notification.method) && notification.method != ELICITATION_COMPLETE;
        if let Some(others) = self.options().other_notifications.as_ref().filter(|_| is_other) {
            return others.hand_on(&notification.method, notification.raw_params().map(Json::from));
        }
        let Some(params) = notification.raw_params() else {
            return;
        };
        match &*notification.method {
            method if method == Method::TaskStatus.as_str() => {
                if let Ok(task) = TaskSnapshot::read(params.get()) {
                    match task.status.is_final() {
                        true => self.legacy_tasks().pushed_end(&task.id),
                        false => self.legacy_tasks().pushed(&task),
                    }
                    self.task_pushes().deliver(task);
                }
            }
            method if method == Method::Cancelled.as_str() => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                self.listening().withdraw_request(&params["requestId"].to_string());
            }
            ELICITATION_COMPLETE => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                if let (Some(inputs), Some(id)) = (&self.options().inputs, params["elicitationId"].as_str()) {
                    self.listening().finished_pages.note(id);
                    inputs.elicitation_complete(id);
                }
            }
            _ => {}
        }
    }
}
