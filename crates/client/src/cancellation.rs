//! Telling a server that a request is no longer waited for.

use crate::{
    Connection, RequestError,
    call_record::CallRecord,
    era::{self, Era},
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
                (Ok(()), Some(record)) => record.result_request_ended(request),
                (Ok(()), None) => {}
            }
        });
        self.listening().sends(sending);
    }

    /// Tells the server that a request is no longer waited for.
    pub(crate) async fn send_cancellation(&self, era: &Arc<Era>, request: u64) -> Result<(), RequestError> {
        let params = Map::from_iter([("requestId".to_owned(), request.into())]);
        let message = era::build_message(Method::Cancelled.as_str(), None, params);
        self.send_message(era, message).await.map(drop)
    }
}
