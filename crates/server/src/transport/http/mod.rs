//! MCP over HTTP: one endpoint, `/mcp`.
//!
//! [`router`] can be mounted into any axum application; [`Listener`] is what the `longhaul` command serves it with: it has the
//! limits that a port open to every local process needs.

mod allowed_hosts;
mod body;
mod connection;
mod context;
mod cors;
mod endpoint;
mod legacy;
mod listener;
mod public_url;
mod response;
mod trusted_proxies;

pub use allowed_hosts::{AllowedOrigin, HostName, InvalidHost, InvalidOrigin, is_local_request, is_loopback};
pub(crate) use context::HttpContext;
pub(crate) use endpoint::incoming_message;
pub use endpoint::router;
pub(crate) use legacy::replay::ReplayBuffers;
pub use listener::{Exposure, ListenError, Listener, SocketListener, Tls, TlsError, UnixSocketError};
pub use public_url::{InvalidPublicUrl, PublicUrl};
pub use trusted_proxies::{InvalidProxy, TrustedProxy};

/// Where the endpoint is.
pub const PATH: &str = "/mcp";
/// Where the metadata of the server as a protected resource is (RFC 9728); also with the path of an endpoint behind it, and with that of the public URL, which
/// a proxy in front may map to the endpoint.
const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
/// Where the stream of the old pair of endpoints is.
const SSE_PATH: &str = "/sse";
/// Where clients of the old pair post to.
const MESSAGES_PATH: &str = "/messages";

/// How the server is reached over HTTP. The default accepts requests of this machine only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// Web pages that may speak to this server, besides those of this machine.
    pub allowed_origins: Vec<AllowedOrigin>,
    /// Names under which clients reach this server, besides those of this machine: a proxy's, for example.
    pub allowed_hosts: Vec<HostName>,
    /// The URL under which clients reach the endpoint. Its host is one of the allowed hosts.
    pub public_url: Option<PublicUrl>,
    /// Whether requests may cross a network without encryption, so that the server may listen beyond this machine; `false` by default. Whoever
    /// is on the way can then read and use the credentials of clients, so a proxy should add TLS.
    pub plain_http: bool,
    /// Proxies in front of the server. Of a request that comes from one of them, the headers `Forwarded` and `X-Forwarded-For` say whose it is, for limits of
    /// one address and the audit log. They are not read of any other, and decide nothing else: who sends a request, and under which URL the server is reached.
    ///
    /// TLS may end at them: then a listener without it serves them, and nobody else beyond this machine.
    pub trusted_proxies: Vec<TrustedProxy>,
    /// Serve the pair of endpoints of revision 2024-11-05, too, at `/sse` and `/messages`. Each of its streams is a session by itself, so the two
    /// options below do not apply to it.
    pub legacy_sse: bool,
    /// Whether clients of revisions up to 2025-11-25 get a session; `true` by default. Modern clients never have one.
    ///
    /// Without sessions nothing is remembered between two requests of such a client, so any process on the same store can answer the next one.
    /// Then it has no push stream (GET is refused), cannot resume a stream, and cannot cancel a request, subscribe to resources
    /// or list its tasks. `logging/setLevel` is accepted and has no effect. What it can be asked is not known, so a tool that asks it gets the
    /// error of a client that cannot be asked. It can still create tasks, and follow and cancel them by id.
    pub stateful_mode: bool,
    /// Whether requests are answered with `application/json` only, never with a stream of events; `false` by default.
    ///
    /// Then progress and log messages of a running call are not sent, and nobody is notified of anything: clients poll. A tool cannot ask a client of
    /// revisions up to 2025-11-25. A modern client is still asked in rounds, and tasks of both eras work.
    pub json_response: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            public_url: None,
            plain_http: false,
            trusted_proxies: Vec::new(),
            legacy_sse: false,
            stateful_mode: true,
            json_response: false,
        }
    }
}
