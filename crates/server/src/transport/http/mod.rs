//! MCP over HTTP: one endpoint, `/mcp`.
//!
//! [`router`] can be mounted into any axum application; [`Listener`] is what the `longhaul` command serves it with: it has the
//! limits that a port open to every local process needs.

mod allowed_hosts;
mod body;
mod context;
mod cors;
mod endpoint;
mod get_stream;
mod legacy_sse;
mod listener;
mod replay;
mod response;
mod stall;

pub use allowed_hosts::{HostName, InvalidHost, InvalidOrigin, Origin, is_loopback};
pub(crate) use context::HttpContext;
pub(crate) use endpoint::incoming_message;
pub use endpoint::router;
pub use listener::{ListenError, Listener};

/// Where the endpoint is.
pub const PATH: &str = "/mcp";
/// Where the stream of the old pair of endpoints is.
const SSE_PATH: &str = "/sse";
/// Where clients of the old pair post to.
const MESSAGES_PATH: &str = "/messages";

/// How the server is reached over HTTP. The default accepts requests of this machine only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpOptions {
    /// Web pages that may speak to this server, besides those of this machine.
    pub allowed_origins: Vec<Origin>,
    /// Names under which clients reach this server, besides those of this machine: a proxy's, for example.
    pub allowed_hosts: Vec<HostName>,
    /// Serve the pair of endpoints of revision 2024-11-05, too, at `/sse` and `/messages`.
    pub legacy_sse: bool,
}
