//! Telling a server that a request, or a call, is no longer waited for.

use crate::{
    Connection, RequestError, TaskStatus,
    connect::{
        era::{self, Era},
        request::call_progress::CallProgress,
    },
    journal::call_record::CallRecord,
};
use longhaul_wire::{Method, meta};
use serde::Deserialize;
use serde_json::{Map, json};
use std::sync::Arc;

/// What has become of a [cancellation by key](Connection::cancel_by_key).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyCancellation {
    /// The status of the call now. One that had ended before was not cancelled.
    pub status: TaskStatus,
    /// The id of its task, if it has become one.
    pub task_id: Option<String>,
}

impl Connection {
    /// Cancels the call of a tool that this user has made under an idempotency key, or its task, whoever has made it (an extension of Longhaul). Such a call goes on when
    /// the process that made it has ended.
    ///
    /// ```no_run
    /// # async fn example(connection: &longhaul_client::Connection) -> Result<(), longhaul_client::RequestError> {
    /// let call = connection.cancel_by_key("build", "nightly-2026-11-27").await?;
    /// println!("{:?}", call.status);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RequestError::NoCancellationByKey`] if the server does not [declare](crate::ServerDescription::cancels_by_key) it, [`RequestError::Rpc`] if it knows no call
    /// under the key: none has arrived, or it is not kept any more. Any other [`RequestError`]: it may have been cancelled.
    pub async fn cancel_by_key(&self, tool: &str, key: &str) -> Result<KeyCancellation, RequestError> {
        if !self.server().await?.cancels_by_key() {
            return Err(RequestError::NoCancellationByKey);
        }
        let params = Map::from_iter([
            ("name".to_owned(), tool.into()),
            ("_meta".to_owned(), json!({meta::IDEMPOTENCY_KEY: key})),
        ]);
        let result = self.request(Method::CallsCancel, params).await?;
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CancellationResult {
            status: String,
            task_id: Option<String>,
        }
        let invalid = |error| RequestError::Invalid(format!("the status of a call: {error}"));
        let told: CancellationResult = serde_json::from_str(result.as_str()).map_err(invalid)?;
        Ok(KeyCancellation {
            // One that this client does not know has not ended.
            status: TaskStatus::parse(&told.status).unwrap_or(TaskStatus::Working),
            task_id: told.task_id,
        })
    }

    /// Tells the server that a request is no longer waited for, beside everything else. One that is recorded as a request for a result is not from then on.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) fn cancel_by_message(&self, era: &Arc<Era>, request: u64, record: Option<CallRecord>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (connection, era) = (self.clone(), Arc::clone(era));
        let sending = runtime.spawn(async move {
            match (connection.send_cancellation(&era, request).await, record) {
                (Err(error), _) => tracing::debug!(%error, "a request was not cancelled"),
                (Ok(_), Some(record)) => record.result_request_ended(request),
                (Ok(_), None) => {}
            }
        });
        self.listening().sends(sending);
    }

    /// Cancels the request of a call, if it is cancelled by message, and returns when the server has taken that.
    pub(crate) async fn cancel_sent(&self, call: &CallProgress) {
        let Some((era, request)) = call.cancel() else { return };
        match self.send_cancellation(&era, request).await {
            Ok(true) => call.note_accepted(),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "a call was not cancelled"),
        }
    }

    /// Cancels a call by its key, and returns whether the server has cancelled it.
    pub(crate) async fn cancel_sent_by_key(&self, call: &CallProgress, tool: &str, key: &str) -> bool {
        call.note_cancelled();
        match self.cancel_by_key(tool, key).await {
            Ok(cancelled) if cancelled.status == TaskStatus::Cancelled => call.note_ended(),
            Ok(cancelled) => tracing::debug!(?cancelled, "a call was not cancelled by its key"),
            Err(error) => tracing::debug!(%error, "a call was not cancelled by its key"),
        }
        call.has_ended()
    }

    /// Tells the server that a request is no longer waited for. False if the connection has another session by now.
    pub(crate) async fn send_cancellation(&self, era: &Arc<Era>, request: u64) -> Result<bool, RequestError> {
        let params = Map::from_iter([("requestId".to_owned(), request.into())]);
        let message = era::build_message(Method::Cancelled.as_str(), None, params);
        self.send_message(era, message).await
    }
}
