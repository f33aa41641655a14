//! Why a request came to nothing.

use crate::RpcFailure;
use longhaul_core::Millis;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server could not be reached, went away, or took too long. Whether it saw the request is not known.
    #[error("{address} cannot be reached: {reason}")]
    Unreachable {
        /// The server's address.
        address: String,
        /// The innermost cause, in words.
        reason: String,
    },
    /// An HTTP status without a usable answer in it.
    #[error("the server answered with HTTP status {status}{}", hint(*.status, .body))]
    Http {
        /// The status.
        status: u16,
        /// The beginning of the body, if it was text.
        body: String,
        /// How long the server wants to be left alone, in milliseconds.
        retry_after: Option<Millis>,
    },
    /// A JSON-RPC error.
    #[error("the server answered: {} (error {})", .0.message, .0.code)]
    Rpc(RpcFailure),
    /// A JSON-RPC error under a status that speaks of the moment: no room, too busy, stopping.
    #[error("the server cannot do it now: {} (HTTP status {status})", .failure.message)]
    NotNow {
        /// The status.
        status: u16,
        /// What the server says.
        failure: RpcFailure,
        /// How long the server wants to be left alone, in milliseconds.
        retry_after: Option<Millis>,
    },
    /// The server speaks neither era.
    #[error("no MCP server answers there: {0}")]
    NotMcp(String),
    /// An answer that breaks the protocol.
    #[error("the server's answer makes no sense: {0}")]
    Invalid(String),
    /// The task is not a Longhaul server's, and only those keep logs and histories.
    #[error("only Longhaul servers keep logs and histories, and this task id is not from one")]
    NoLog,
    /// An answer beyond [`Options::max_response`](crate::Options::max_response).
    #[error("the server's answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

impl RequestError {
    /// Whether the same request may succeed later without anybody changing anything: the server is down, overloaded, or
    /// stumbled over itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotNow { .. } => true,
            Self::Http { status, .. } => is_transient_status(*status),
            _ => false,
        }
    }

    /// Whether the server said that it does not know the task (G1-24, G2-30): it never did, it forgot it after its time, or
    /// it belongs to somebody else.
    pub fn is_unknown_task(&self) -> bool {
        matches!(self, Self::Rpc(failure) if failure.code == INVALID_PARAMS)
    }

    /// How long the server asked to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Millis> {
        match self {
            Self::Http { retry_after, .. } | Self::NotNow { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

pub(crate) const INVALID_PARAMS: i32 = -32602;

/// Statuses that speak of the moment and not of the request.
pub(crate) fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

fn hint(status: u16, body: &str) -> String {
    match status {
        401 | 403 => {
            ": it wants authentication or does not trust this client, which cannot authenticate yet".to_owned()
        }
        _ if body.is_empty() => String::new(),
        _ => format!(": {body}"),
    }
}
