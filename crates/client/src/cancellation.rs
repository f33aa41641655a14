//! Telling a server that a request is no longer waited for.

use crate::{
    Connection, RequestError,
    call_record::CallRecord,
    era::{self, Era},
    sent_call::SentCall,
};
use longhaul_wire::Method;
use serde_json::Map;
use std::sync::Arc;

impl Connection {
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
    pub(crate) async fn cancel_sent(&self, call: &SentCall) {
        let Some((era, request)) = call.cancel() else { return };
        match self.send_cancellation(&era, request).await {
            Ok(is_accepted) => call.note_accepted(is_accepted),
            Err(error) => tracing::debug!(%error, "a call was not cancelled"),
        }
    }

    /// Tells the server that a request is no longer waited for. False if the connection has another session by now.
    pub(crate) async fn send_cancellation(&self, era: &Arc<Era>, request: u64) -> Result<bool, RequestError> {
        let params = Map::from_iter([("requestId".to_owned(), request.into())]);
        let message = era::build_message(Method::Cancelled.as_str(), None, params);
        self.send_message(era, message).await
    }
}
