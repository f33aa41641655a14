//! Whether the answer to a request shows that the server has lost the session, or that another server is in its place.

use crate::{
    RequestError,
    connect::{era::Era, probe, request::Request, response::RpcResponse},
    error::excerpt,
};
use longhaul_wire::{Method, meta};

/// What the answer to a request calls into question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Doubt {
    None,
    /// The server has ended the legacy session.
    SessionEnded,
    /// The server does not know the legacy session, or something else is wrong.
    SessionLost,
    /// A legacy server has taken the place of a modern one, or something else is wrong.
    EraChanged,
}

impl Doubt {
    /// Whether the request was refused because of what is in doubt, so that no tool has run. A server looks for the session before it reads the request, and what a
    /// tool answers has status 200. `is_stale` says that the session has ended, or that another server is there.
    pub(crate) fn has_not_run(self, response: &Result<RpcResponse, RequestError>, is_stale: bool) -> bool {
        match self {
            Self::None => false,
            Self::SessionEnded | Self::SessionLost => is_stale,
            // A proxy answers 404, too.
            Self::EraChanged => !is_answered(response) && status_of(response) != Some(404),
        }
    }
}

/// Whether something has answered the request itself.
pub(crate) fn is_answered(response: &Result<RpcResponse, RequestError>) -> bool {
    matches!(response, Ok(response) if response.names_request)
}

pub(crate) fn status_of(response: &Result<RpcResponse, RequestError>) -> Option<u16> {
    match response {
        Ok(response) => Some(response.status),
        Err(RequestError::Http { status, .. }) => Some(*status),
        Err(_) => None,
    }
}

pub(crate) fn doubt(era: &Era, response: &Result<RpcResponse, RequestError>) -> Doubt {
    let (status, code, names_request) = match response {
        Ok(response) => match &response.outcome {
            Ok(_) => return Doubt::None,
            Err(failure) => (response.status, Some(failure.code), response.names_request),
        },
        Err(RequestError::Http { status, .. }) => (*status, None, false),
        Err(_) => return Doubt::None,
    };
    match era {
        Era::Legacy(legacy) if legacy.session.is_none() => Doubt::None,
        Era::Legacy(_) => match (status, code) {
            (404, _) if !names_request => Doubt::SessionEnded,
            // `server-everything` 2026.8 refuses an unknown session with 400, and names the request.
            (404, _) | (400, None | Some(NO_SESSION)) => Doubt::SessionLost,
            _ => Doubt::None,
        },
        // A legacy server answers a request without a session in this way.
        Era::Modern(_) if matches!(status, 400 | 404 | 405) && !code.is_some_and(is_modern) => Doubt::EraChanged,
        Era::Modern(_) => Doubt::None,
    }
}

/// The TypeScript SDK's code for a request without a session, and what many servers send for any error.
const NO_SESSION: i32 = -32000;

/// The codes a modern server may send with status 400 or 404.
fn is_modern(code: i32) -> bool {
    probe::MODERN_CODES.contains(&code) || matches!(code, -32700 | -32603..=-32600)
}

/// Whether the request does no harm if the server processes it twice: it runs no tool, or one that may be run again, or carries an idempotency key that the
/// server knows.
pub(crate) fn may_run_twice(era: &Era, request: &Request) -> bool {
    let has_key = || {
        let given = request.params.get("_meta");
        given.is_some_and(|given| given[meta::IDEMPOTENCY_KEY].is_string())
    };
    request.is_repeatable
        || request.method != Method::ToolsCall.as_str()
        || (era.server().takes_idempotency_keys() && has_key())
}

/// What a caller is told of a call that was not sent again. Status 404 does not say whether the tool has run, whatever the error is that comes with it, unless that
/// is the server's own refusal of the call.
pub(crate) fn unrepeated(first: Result<RpcResponse, RequestError>) -> Result<RpcResponse, RequestError> {
    let is_named = is_answered(&first);
    match first {
        Ok(RpcResponse {
            outcome: Err(failure),
            status: 404,
            ..
        }) if !(is_named && RequestError::Rpc(failure.clone()).is_refusal()) => Err(RequestError::Http {
            status: 404,
            body: excerpt(&failure.message).into_owned(),
            retry_after: None,
        }),
        first => first,
    }
}
