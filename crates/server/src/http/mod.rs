//! MCP over HTTP: one endpoint, `/mcp`.
//!
//! [`router`] can be mounted into any axum application; [`Listener`] is what the `longhaul` command serves it with: it has the
//! limits that a port open to every local process needs.

mod body;
mod endpoint;
mod listener;
mod place;
mod stall;

pub(crate) use body::BodyRoom;
pub use endpoint::router;
pub use listener::{ListenError, Listener};
pub use place::is_loopback;

/// Where the endpoint is.
pub const PATH: &str = "/mcp";
