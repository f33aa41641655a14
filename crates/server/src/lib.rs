//! The MCP server of both eras, over HTTP and over byte streams.
//!
//! docs/design/server.md, "Layers", lists the modules in the order in which a request passes them. All state that must outlive the process
//! is in the [`Engine`](longhaul_runtime::Engine)'s store, or is carried by clients in signed ids.

mod admission;
pub mod audit;
#[doc(hidden)]
pub mod bench_api;
mod call;
mod catalog;
mod dispatch;
mod handler;
mod interaction;
mod methods;
mod response;
mod session;
mod shutdown;
mod signer;
mod transport;

pub mod auth {
    //! Who may use the server over HTTP.
    //!
    //! An [`Authenticator`] decides who sends a request, before its body is read. It gives an [`Identity`], with the principal that tasks belong to and
    //! the [`Permissions`] that each request is checked against.

    pub use crate::admission::{
        access::{ANYONE, Authentication},
        authenticator::{AuthDecision, Authenticator, Challenge, Denied, Peer, PeerUser, RequestHead},
        identity::{Identity, Revocation},
        permissions::{Grant, InvalidGrant, Permission, Permissions},
    };
    pub use longhaul_core::ToolPattern;
}

pub use admission::limits::{Limit, Limits, Refusals};
pub use longhaul_runtime::FOLLOW_TOOLS;
pub use longhaul_wire::ServerInfo;
pub use transport::{
    connection::{Received, Transport, serve},
    file_version::FileVersion,
    http,
    protocol_server::{ProtocolServer, ProtocolServerError, ProtocolServerOptions},
    stdio,
};
