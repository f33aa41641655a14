//! The messages on the stream of a request, up to its response.

use crate::{RequestError, RpcFailure, error::excerpt, http::Reply, rpc_failure::read_failure};
use http::HeaderValue;
use longhaul_core::Json;
use longhaul_wire::{Message, Method, json as wire_json, jsonrpc::Notification};

/// The response to a request.
pub(crate) struct RpcResponse {
    pub(crate) outcome: Result<Json, RpcFailure>,
    pub(crate) status: u16,
    pub(crate) session: Option<HeaderValue>,
}

/// Receives the notifications on the stream of a request.
pub(crate) type OnNotification<'a> = &'a mut (dyn FnMut(Notification<'_>) + Send);

pub(crate) enum Incoming {
    Response(RpcResponse),
    /// A request of the server: the response that declines it.
    Declined(String),
}

/// Reads a reply up to the response to request `id`. Requests of the server are ignored.
pub(crate) async fn read_response(
    reply: &mut Reply,
    id: u64,
    on_notification: OnNotification<'_>,
) -> Result<RpcResponse, RequestError> {
    loop {
        if let Incoming::Response(response) = read_message(reply, id, on_notification).await? {
            return Ok(response);
        }
    }
}

/// Reads the next response to request `id`, or the next request of the server.
pub(crate) async fn read_message(
    reply: &mut Reply,
    id: u64,
    on_notification: OnNotification<'_>,
) -> Result<Incoming, RequestError> {
    while let Some(bytes) = reply.next().await? {
        let message = Message::parse(&bytes).map_err(|rejection| {
            let shown = String::from_utf8_lossy(&bytes);
            RequestError::Invalid(format!(
                "{} (HTTP status {}): {}",
                rejection.error,
                reply.status,
                excerpt(&shown)
            ))
        })?;
        match message {
            Message::Response(response) if response.id.is_none_or(|given| given.as_json() == id.to_string()) => {
                let outcome = match response.outcome {
                    Ok(result) => Ok(Json::from(result)),
                    Err(error) => Err(read_failure(error)?),
                };
                return Ok(Incoming::Response(RpcResponse {
                    outcome,
                    status: reply.status,
                    session: reply.session.clone(),
                }));
            }
            Message::Response(_) => tracing::debug!("ignored a response to an unknown request"),
            Message::Notification(notification) => on_notification(notification),
            Message::Request(request) => {
                let id = request.id.as_json();
                return Ok(Incoming::Declined(decline(id, &request.method)));
            }
        }
    }
    match reply.status {
        // The server may have crashed, so this is an error that is retried.
        200 => Err(RequestError::Unreachable {
            address: "the server".to_owned(),
            reason: "it closed the connection before it answered".to_owned(),
        }),
        status => Err(RequestError::Http {
            status,
            body: "no response".to_owned(),
            retry_after: None,
        }),
    }
}

/// Builds the response to a server's request: `ping` is answered, everything else declined.
fn decline(id: &str, method: &str) -> String {
    if method == Method::Ping.as_str() {
        return format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    }
    let mut message = String::new();
    wire_json::push_string(&mut message, &format!("This client does not offer {method}"));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":{message}}}}}"#)
}
