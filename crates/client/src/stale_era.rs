//! Whether the answer to a request shows that the server has lost the session, or that another server is in its place.

use crate::{RequestError, era::Era, probe, response::RpcResponse};
use longhaul_wire::{Method, meta};
use serde_json::{Map, Value};

/// What the answer to a request calls into question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Doubt {
    None,
    /// The server has ended the legacy session (T-13).
    SessionEnded,
    /// The server does not know the legacy session, or something else is wrong.
    SessionLost,
    /// A legacy server has taken the place of a modern one, or something else is wrong.
    EraChanged,
}

impl Doubt {
    /// Whether the request was refused because of what is in doubt, so that no tool has run: nothing has answered the request itself.
    pub(crate) fn has_not_run(self, response: &Result<RpcResponse, RequestError>) -> bool {
        let is_answered = matches!(response, Ok(response) if response.names_request);
        matches!(self, Self::SessionEnded | Self::EraChanged) && !is_answered
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

/// The codes a modern server may send with status 400 or 404 (T-28).
fn is_modern(code: i32) -> bool {
    probe::MODERN_CODES.contains(&code) || matches!(code, -32700 | -32603..=-32600)
}

/// Whether the request does no harm if the server processes it twice: it runs no tool, or carries an idempotency key that the server knows.
pub(crate) fn may_run_twice(era: &Era, method: &str, params: &Map<String, Value>) -> bool {
    let has_key = || {
        params
            .get("_meta")
            .is_some_and(|given| given[meta::IDEMPOTENCY_KEY].is_string())
    };
    method != Method::ToolsCall.as_str() || (era.server().takes_idempotency_keys() && has_key())
}
