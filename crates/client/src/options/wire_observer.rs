//! Seeing the messages of a connection.

use crate::RequestError;
use http::{HeaderMap, HeaderValue};

/// Sees every message of a connection as it is sent and received: see [`Options::wire`](crate::Options::wire). The messages hold whatever secrets the
/// caller and the server put into them.
pub trait WireObserver: Send + Sync + 'static {
    /// Called in the order of the wire. The connection waits for it, so it should return quickly.
    fn observe(&self, event: WireEvent<'_>);
}

/// What happens between the client and a server.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum WireEvent<'a> {
    /// A message is about to be sent.
    Sent {
        /// The JSON-RPC message.
        message: &'a str,
        /// The headers of MCP, over HTTP.
        headers: Option<&'a HeaderMap>,
    },
    /// The stream of messages that belong to no request is about to be opened: over HTTP with a GET request.
    Listening {
        /// The headers of MCP, over HTTP.
        headers: Option<&'a HeaderMap>,
    },
    /// The head of an HTTP response.
    Answered {
        /// Its status.
        status: u16,
        /// Its `Mcp-Session-Id`.
        session: Option<&'a HeaderValue>,
    },
    /// A message of the server.
    Received {
        /// As it came; it need not be valid JSON.
        message: &'a [u8],
    },
    /// A message could not be sent, or a reply could not be read.
    Failed {
        /// Why.
        error: &'a RequestError,
    },
    /// The session or the connection is about to be closed: over HTTP with a DELETE request, if there is a session.
    Closing {
        /// The headers of MCP, over HTTP.
        headers: Option<&'a HeaderMap>,
    },
}
