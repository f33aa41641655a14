//! A client for long tool calls of either generation.
//!
//! A [`Connection`] finds out by itself which era a server speaks (L-16) and hides the difference: [`Connection::call_tool`]
//! ends in [`Called::Done`] or in a [`TaskHandle`], and [`TaskHandle::wait`] ends in one [`Outcome`], however the server
//! spells its statuses. A server that goes away while a task is waited for is waited for too: the task is its business, the
//! connection is ours.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::{Called, Connection, Options};
//!
//! let connection = Connection::open("http://127.0.0.1:7411/mcp", Options::named("example", "1.0")).await?;
//! let tools = connection.list_tools().await?;
//! let tool = tools.iter().find(|tool| tool.name == "hash_tree").ok_or("no such tool")?;
//! let arguments = serde_json::Map::from_iter([("path".to_owned(), "/etc".into())]);
//! let outcome = match connection.call_tool(tool, &arguments, &mut |_| {}).await? {
//!     Called::Done(outcome) => outcome,
//!     Called::Task(task) => task.wait(&mut |event| eprintln!("{event:?}")).await?,
//! };
//! # Ok(()) }
//! ```
//!
//! Only plain HTTP is spoken so far, and servers' requests for input are declined: no capability for them is declared.

mod address;
mod call;
mod connection;
mod era;
mod error;
mod event;
mod history;
mod http;
mod log;
mod mirror;
mod pace;
mod ports;
mod probe;
mod snapshot;
mod task;
mod tools;

pub use address::{Address, InvalidAddress};
pub use call::Called;
pub use connection::{Connection, OpenError, Options};
pub use error::RequestError;
pub use event::{Event, Observer, Progress};
pub use history::{FailedTries, FailedTry, HistoryEntry};
pub use longhaul_core::{Json, Outcome, RpcFailure};
pub use ports::SystemClock;
pub use snapshot::{Status, TaskSnapshot};
pub use task::TaskHandle;
pub use tools::{TaskSupport, Tool};
