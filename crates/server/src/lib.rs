//! The front: MCP of both eras, over HTTP.
//!
//! A message comes in through [`http`], which checks where it comes from and how large it is; `dispatch` decides its era and finds
//! its method; one file under `method` answers it, asking the [`Engine`](longhaul_runtime::Engine) for what it needs. Nothing here
//! outlives a connection: sessions are carried by their ids, tasks by the store.

mod answer;
mod caller;
mod cursor;
mod dispatch;
mod front;
pub mod http;
mod inflight;
mod method;
mod progress;
mod seal;
mod session;
mod stream;
mod waiting;

pub use front::{Front, FrontError, FrontOptions};
