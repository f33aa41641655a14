//! The front: MCP of both eras, over HTTP and over streams of bytes.
//!
//! A message comes in through [`http`], which checks where it comes from and how large it is; `dispatch` decides its era and finds
//! its method; one file under `method` answers it, asking the [`Engine`](longhaul_runtime::Engine) for what it needs. Nothing here
//! outlives a connection: sessions are carried by their ids, tasks by the store.

mod answer;
mod batch;
mod caller;
mod conversation;
mod cursor;
mod dispatch;
mod duplex;
mod front;
mod handler;
#[doc(hidden)]
pub mod hook;
pub mod http;
mod inflight;
mod legacy;
mod limits;
mod mail;
mod method;
mod presence;
mod replies;
mod rounds;
mod seal;
mod session;
pub mod stdio;
mod stream;
mod subscription;
mod task_updates;
mod telling;
mod waiting;

pub use front::{Front, FrontError, FrontOptions};
pub use limits::Limits;
pub use method::handoff::FOLLOW_TOOLS;
