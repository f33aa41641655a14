//! An MCP client for long tool calls, for servers of both protocol eras.
//!
//! A [`Connection`] detects the era of the server and hides the difference: [`Connection::call_tool`] returns
//! [`CallResponse::Done`] or a [`TaskHandle`], and [`TaskHandle::wait`] returns one [`Outcome`], whatever the server's status names.
//! While it waits for a task, it keeps polling through restarts and outages of the server.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::{CallResponse, Connection, Options};
//!
//! let connection = Connection::open("http://127.0.0.1:7411/mcp", Options::named("example", "1.0")).await?;
//! let tools = connection.list_tools().await?;
//! let tool = tools.iter().find(|tool| tool.name == "hash_tree").ok_or("no such tool")?;
//! let arguments = serde_json::Map::from_iter([("path".to_owned(), "/etc".into())]);
//! let outcome = match connection.call_tool(tool, &arguments, &mut |_| {}).await? {
//!     CallResponse::Done(outcome) => outcome,
//!     CallResponse::Task(task) => task.wait(&mut |event| eprintln!("{event:?}")).await?,
//! };
//! # Ok(()) }
//! ```
//!
//! The client supports plain HTTP only, and declares no capability for input requests, so it declines them.

mod address;
mod call;
mod clock;
mod connection;
mod era;
mod error;
mod event;
mod history;
mod http;
mod jitter;
mod options;
mod param_headers;
mod polling;
mod probe;
mod response;
mod rpc_failure;
mod snapshot;
mod task;
mod task_log;
mod tools;

pub use address::{Address, InvalidAddress};
pub use call::CallResponse;
pub use clock::SystemClock;
pub use connection::{Connection, OpenError};
pub use error::RequestError;
pub use event::{Event, Observer, Progress};
pub use history::{FailedStepAttempt, FailedStepAttempts, HistoryEntry};
pub use longhaul_core::{Json, Outcome, RpcFailure};
pub use longhaul_wire::TaskStatus;
pub use options::Options;
pub use snapshot::TaskSnapshot;
pub use task::TaskHandle;
pub use tools::{TaskSupport, Tool};
