//! A request and its response, whatever the server has become meanwhile.

use super::Connection;
use crate::{
    RequestError,
    connect::{
        era::{self, Era},
        listening::PlainCall,
        request::{Request, call_progress::CallProgress},
        response::{IncomingMessage, OnNotification, RpcResponse, read_message, result_shape, result_type},
        stale_era::{self, Doubt},
    },
    error::rpc_failure::error_of,
    journal::call_record::CallRecord,
    offer::response_cache::{Key, Lookup},
    transport::{Outgoing, Reply},
};
use longhaul_core::Json;
use serde_json::Map;
use std::sync::Arc;

impl Connection {
    /// Sends the request that `build` returns for the server's era, and returns the result with that era. If the server has lost the session, or was
    /// replaced by a legacy server, the request is sent once more, unless it is a call that may have run. The record of a call says in which session
    /// it is sent.
    pub(crate) async fn exchange(
        &self,
        build: impl Fn(&Era) -> Request,
        on_notification: OnNotification<'_>,
        record: Option<&CallRecord>,
    ) -> Result<(Json, Arc<Era>), RequestError> {
        let mut era = self.era_of_call(record).await?;
        if self.0.transport.has_ended() {
            // A child that has exited is started again, and the new one knows of no handshake.
            self.forget(&era).await;
            era = self.era_of_call(record).await?;
        }
        let request = build(&era);
        let may_run_twice = stale_era::may_run_twice(&era, &request);
        let is_own = request.written.is_empty() && request.meta.is_empty();
        let key = Key::of(&request.method, &request.params).filter(|_| is_own && era.legacy().is_none());
        let lookup = key.map(|key| (self.0.cache.get(&key, self.0.options.clock.monotonic()), key));
        if let Some((Lookup::Found(result), _)) = lookup {
            return Ok((result, era));
        }
        self.listening().until_open().await;
        let first = self.attempt(&era, request, on_notification, record).await;
        if let (
            Some((Lookup::Missing(forgotten), key)),
            Ok(RpcResponse {
                outcome: Ok(result), ..
            }),
        ) = (lookup, &first)
        {
            self.0
                .cache
                .insert(key, result, self.0.options.clock.monotonic(), forgotten);
        }
        if self.0.transport.is_session() && matches!(first, Err(RequestError::Unreachable { .. })) {
            // The next request gets a new child, and a new handshake.
            self.forget(&era).await;
        }
        let doubt = stale_era::doubt(&era, &first);
        let is_stale = match doubt {
            Doubt::None => false,
            Doubt::SessionEnded => true,
            Doubt::SessionLost => self.has_lost_session(&era).await,
            Doubt::EraChanged if !may_run_twice && stale_era::is_answered(&first) => false,
            Doubt::EraChanged => self.has_become_legacy(&era).await?,
        };
        if is_stale {
            tracing::debug!("the server has lost the session or changed its era");
            self.forget(&era).await;
        }
        let has_not_run = doubt.has_not_run(&first, is_stale);
        // The server may have been at another address than the one that it has redirected to.
        let has_moved = doubt == Doubt::EraChanged && may_run_twice && !stale_era::is_answered(&first);
        if !(may_run_twice || has_not_run) {
            return self.finish(stale_era::unrepeated(first), era);
        }
        if !(is_stale || has_moved) {
            return self.finish(first, era);
        }
        let now = self.era_of_call(record).await?;
        let again = build(&now);
        // Another server may not take the key.
        if !has_not_run && !stale_era::may_run_twice(&now, &again) {
            return self.finish(stale_era::unrepeated(first), era);
        }
        self.listening().until_open().await;
        let second = self.attempt(&now, again, on_notification, record).await;
        self.finish(second, now)
    }

    fn finish(
        &self,
        response: Result<RpcResponse, RequestError>,
        era: Arc<Era>,
    ) -> Result<(Json, Arc<Era>), RequestError> {
        let outcome = response?.outcome;
        Ok((outcome.map_err(|failure| error_of(failure, self.address()))?, era))
    }

    /// Sends a request in this era, whatever becomes of it. With `record` it is a recorded call.
    pub(crate) async fn attempt(
        &self,
        era: &Arc<Era>,
        mut request: Request,
        on_notification: OnNotification<'_>,
        record: Option<&CallRecord>,
    ) -> Result<RpcResponse, RequestError> {
        let record = record.filter(|_| era.legacy().is_some() && !request.params.contains_key("task"));
        let plain_call = PlainCall::begin(self.listening(), record);
        let id = request.id.unwrap_or_else(|| self.next_id());
        let source = request.source;
        if request.wants_progress {
            // The token is the request's id, which says where its progress belongs on a pipe.
            let meta = request.params.entry("_meta").or_insert_with(|| Map::new().into());
            meta["progressToken"] = id.into();
        }
        let mut cancellation = Cancellation {
            connection: self,
            era,
            id: Some(id).filter(|_| self.is_cancelled_by_message(era, &request)),
            call: request.call.take(),
        };
        if let (Some(id), Some(call)) = (cancellation.id, &cancellation.call) {
            call.begin(era, id);
        }
        era.add_meta(&mut request.meta, &self.0.options, !request.without_task);
        let mut headers = era.headers(&request.method, &request.params);
        if era.legacy().is_none() {
            headers.extend(request.headers);
        }
        let outgoing = Outgoing {
            body: era::build_written(
                &request.method,
                Some(id),
                request.params,
                &request.written,
                &request.meta,
            ),
            id: Some(id),
            headers,
            timeout: request.timeout,
        };
        let response = async {
            let mut reply = self.0.transport.send(outgoing).await?;
            let origin = (source, plain_call.record);
            self.read_response(&mut reply, era, id, origin, on_notification).await
        }
        .await;
        cancellation.id = None;
        let response = response?;
        if let Ok(result) = &response.outcome {
            if era.legacy().is_none() {
                result_type::check(&request.method, result)?;
            }
            result_shape::check(&request.method, result)?;
        }
        Ok(response)
    }

    /// Whether a request that is no longer waited for is cancelled by a message. A call that asked for a task is not, and over
    /// HTTP a modern one is cancelled by its disconnection.
    fn is_cancelled_by_message(&self, era: &Era, request: &Request) -> bool {
        request.wants_progress
            && !request.params.contains_key("task")
            && (era.legacy().is_some() || self.0.transport.is_session())
    }

    /// Reads a reply up to the response. Requests of a legacy server on the stream are served beside it.
    async fn read_response(
        &self,
        reply: &mut Reply,
        era: &Arc<Era>,
        id: u64,
        (source, call): (Option<u64>, Option<&CallRecord>),
        on_notification: OnNotification<'_>,
    ) -> Result<RpcResponse, RequestError> {
        loop {
            match read_message(reply, id, &mut |notification| {
                self.notified(&notification, source);
                self.task_progress(&notification, false);
                on_notification(notification);
            })
            .await?
            {
                IncomingMessage::Response(response) => return Ok(response),
                IncomingMessage::Request(request) => self.serve(request, era, source, call),
            }
        }
    }
}

/// Tells the server, when it is dropped, that a request is no longer waited for.
struct Cancellation<'a> {
    connection: &'a Connection,
    era: &'a Arc<Era>,
    /// `None` once there is a response.
    id: Option<u64>,
    /// The call that the request makes.
    call: Option<CallProgress>,
}

impl Drop for Cancellation<'_> {
    fn drop(&mut self) {
        let is_to_be_told = self.call.as_ref().is_none_or(CallProgress::end);
        if let Some(id) = self.id.filter(|_| is_to_be_told) {
            self.connection.cancel_by_message(self.era, id, None);
        }
    }
}
