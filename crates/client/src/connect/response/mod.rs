//! The messages on the stream of a request, up to its response.

pub(crate) mod result_shape;
pub(crate) mod result_type;

use crate::{
    RequestError, RpcFailure,
    error::{INVALID_PARAMS, excerpt, rpc_failure::read_failure},
    transport::Reply,
};
use http::HeaderValue;
use longhaul_core::{Json, ParsedJson};
use longhaul_wire::{Message, Rejection, jsonrpc::Notification};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

const INVALID_REQUEST: i32 = -32600;

/// The response to a request.
pub(crate) struct RpcResponse {
    pub(crate) outcome: Result<Json, RpcFailure>,
    pub(crate) status: u16,
    pub(crate) session: Option<HeaderValue>,
    /// Whether it has the id of the request: an error may come without one.
    pub(crate) names_request: bool,
}

/// Receives the notifications on the stream of a request.
pub(crate) type OnNotification<'a> = &'a mut (dyn FnMut(Notification<'_>) + Send);

pub(crate) enum IncomingMessage {
    Response(RpcResponse),
    /// A request of the server.
    Request(ServerRequest),
}

/// A request of a legacy server.
#[derive(Debug)]
pub(crate) struct ServerRequest {
    /// As JSON.
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) params: ParsedJson,
    /// Why it cannot be served, if it was no valid request. It has no method then.
    pub(crate) malformed: Option<RpcFailure>,
}

/// What a message that cannot be read is.
pub(crate) enum Unreadable {
    /// A request of the server, which gets an error.
    Request(ServerRequest),
    Notification,
    /// Nothing that can be told, or a response.
    Other,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

impl Unreadable {
    pub(crate) fn of(message: &[u8], rejection: &Rejection<'_>) -> Self {
        let envelope: Envelope<'_> = match serde_json::from_slice(message) {
            Ok(envelope) => envelope,
            Err(_) => return Self::Other,
        };
        if envelope.method.is_none() || envelope.result.is_some() || envelope.error.is_some() {
            return Self::Other;
        }
        let id = match (rejection.id, envelope.id) {
            (Some(id), _) => id.as_json().to_owned(),
            (None, None) => return Self::Notification,
            (None, Some(_)) => return Self::Other,
        };
        let has_wrong_params = envelope.params.is_some_and(|params| !params.get().starts_with('{'));
        let failure = match has_wrong_params {
            true => (INVALID_PARAMS, "params must be an object".into()),
            false => {
                let code = i32::try_from(rejection.error.code()).unwrap_or(INVALID_REQUEST);
                (code, rejection.error.message().into())
            }
        };
        Self::Request(ServerRequest {
            id,
            method: String::new(),
            params: ParsedJson::default(),
            malformed: Some(RpcFailure {
                code: failure.0,
                message: failure.1,
                data: None,
            }),
        })
    }
}

impl ServerRequest {
    pub(crate) fn read(request: &longhaul_wire::Request<'_>) -> Self {
        let params = request.raw_params();
        Self {
            id: request.id.as_json().to_owned(),
            method: request.method.clone().into_owned(),
            params: params.map(|params| ParsedJson::of(params.get())).unwrap_or_default(),
            malformed: None,
        }
    }

    /// The response, as a message.
    pub(crate) fn respond(&self, outcome: Result<Json, RpcFailure>) -> String {
        let id = &self.id;
        match outcome {
            Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, result.as_str()),
            Err(failure) => {
                let RpcFailure { code, message, data } = failure;
                let message = Value::from(&*message);
                let data = data.map_or_else(String::new, |data| format!(r#","data":{}"#, data.as_str()));
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
            }
        }
    }
}

/// Reads the next response to request `id`, or the next request of the server.
pub(crate) async fn read_message(
    reply: &mut Reply,
    id: u64,
    on_notification: OnNotification<'_>,
) -> Result<IncomingMessage, RequestError> {
    let mut other = None;
    while let Some(bytes) = reply.next().await? {
        let message = match Message::parse(&bytes) {
            Ok(message) => message,
            Err(rejection) => match Unreadable::of(&bytes, &rejection) {
                Unreadable::Request(request) => return Ok(IncomingMessage::Request(request)),
                Unreadable::Notification => {
                    tracing::warn!(error = %rejection.error, "ignored an unreadable notification of the server");
                    continue;
                }
                Unreadable::Other => {
                    let (shown, status) = (String::from_utf8_lossy(&bytes), reply.status);
                    let why = format!("{} (HTTP status {status}): {}", rejection.error, excerpt(&shown));
                    return Err(RequestError::Invalid(why));
                }
            },
        };
        match message {
            // Some servers make a string of the id.
            Message::Response(response)
                if (response.id).is_none_or(|given| given.as_json().trim_matches('"') == id.to_string()) =>
            {
                let names_request = response.id.is_some();
                let outcome = match response.outcome {
                    Ok(result) => Ok(Json::from(result)),
                    Err(error) => Err(read_failure(error)?),
                };
                return Ok(IncomingMessage::Response(RpcResponse {
                    outcome,
                    status: reply.status,
                    session: reply.session.clone(),
                    names_request,
                }));
            }
            Message::Response(response) => {
                tracing::debug!("ignored a response to an unknown request");
                other = response.id.map(|id| excerpt(id.as_json()).into_owned());
            }
            Message::Notification(notification) => on_notification(notification),
            Message::Request(request) => return Ok(IncomingMessage::Request(ServerRequest::read(&request))),
        }
    }
    match reply.status {
        200..=299 if reply.is_whole => Err(RequestError::Invalid(match other {
            Some(other) => format!("it answered another request: its id is {other}, and this one has {id}"),
            None => "its body is a message, and not the response to the request".to_owned(),
        })),
        // The server may have crashed, so this is an error that is retried.
        200 => Err(RequestError::Unreachable {
            address: "the server".to_owned(),
            reason: "it closed the connection before it answered".to_owned(),
            stderr: None,
            connected: true,
        }),
        status => Err(RequestError::Http {
            status,
            body: "no response".to_owned(),
            retry_after: None,
        }),
    }
}
