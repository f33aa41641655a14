//! The MCP server of both eras, over HTTP and over byte streams.
//!
//! A request passes the layers from the top down: `transport` reads it, `admission` finds its sender and checks the limits, `session` finds the legacy session it
//! belongs to, `dispatch` decides its era and its method, one file under `methods` answers it. `call` is the life of a `tools/call`, and `interaction`
//! is everything that is sent to a client besides the answer. All state that must last is in the [`Engine`](longhaul_runtime::Engine): nothing here
//! outlives a connection, since session ids carry their sessions and the store has the tasks.

mod admission;
#[doc(hidden)]
pub mod bench_api;
mod call;
mod capabilities;
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

pub use admission::limits::Limits;
pub use call::follow_tools::FOLLOW_TOOLS;
pub use longhaul_wire::ServerInfo;
pub use transport::{
    front::{Front, FrontError, FrontOptions},
    http, stdio,
};
