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
//! Servers are reached over HTTP and HTTPS, as a child process ([`ChildProcess`]), or over a [`Transport`] of your own. What servers ask the user
//! is answered by the [`InputHandler`] in [`Options::inputs`], in whatever way they ask it. Without one the client declares that it cannot be asked.
//!
//! TLS is that of `rustls` with *ring*. A program that builds a `reqwest::Client` of its own before its first connection calls [`install_tls_provider`] first.

mod access_token;
mod address;
mod asking;
mod batch_run;
mod call;
mod call_error;
mod call_record;
mod cancellation;
mod challenge;
mod client;
mod client_changes;
mod clock;
mod completion;
mod connection;
#[cfg(test)]
mod crash_tests;
mod earlier_requests;
mod era;
mod era_cache;
mod error;
mod event;
mod finished_pages;
mod forwarding;
mod history;
mod hosted_tasks;
mod idempotency_key;
mod input;
mod input_request;
mod jitter;
mod journal;
mod legacy_questions;
mod legacy_tasks;
mod listening;
mod listing;
mod logging;
#[cfg(feature = "login")]
mod login;
mod open_questions;
mod options;
mod other_login;
mod output_schema;
mod param_headers;
mod pending_call;
mod polling;
mod probe;
mod proxy;
mod push_stream;
mod recorded_call;
mod recorded_questions;
mod request;
mod request_ref;
mod required_pages;
mod response;
mod response_cache;
mod result_request;
mod resumed_session;
mod rounds;
mod rpc_failure;
mod running_call;
mod server_change;
mod server_description;
mod serving;
mod session_check;
mod snapshot;
mod stale_era;
mod stream_losses;
mod subscription;
mod task;
mod task_log;
mod task_progress;
mod task_pushes;
mod task_questions;
mod task_streams;
mod task_wait;
mod tool_listing;
mod tools;
mod transport;
mod warm_session;
mod watch;
mod wire_observer;

/// The headers of [`Transport`] and [`Options`].
pub use ::http::{HeaderMap, HeaderValue};
pub use access_token::{AccessToken, InvalidToken, Refusal, TokenError, TokenProvider};
pub use address::{Address, InvalidAddress};
pub use batch_run::{BatchRun, BatchStep};
pub use call::{CallOptions, CallResponse};
pub use call_error::CallError;
pub use client::Client;
pub use clock::SystemClock;
pub use completion::Completion;
pub use connection::Connection;
pub use earlier_requests::EarlierRequest;
pub use era_cache::EraCache;
pub use error::{OpenError, RequestError};
pub use event::{Event, Observer, Progress};
pub use history::{FailedStepAttempt, FailedStepAttempts, HistoryEntry};
pub use input::{InputHandler, InputResponse, Inputs};
pub use input_request::InputRequest;
pub use journal::{Asked, CallCancellation, ClientJournal, JournalError, JournalWatch};
pub use logging::{LogMessage, Logging};
#[cfg(feature = "login")]
pub use login::{
    ClientIdentity, Consent, InvalidMetadataUrl, LoggedIn, Login, LoginOptions, Loopback, RegisteredByHand, TokenFile,
    TokenFileError,
};
pub use longhaul_core::{
    BoxFuture, ClientCapabilities, Clock, Json, LogLevel, Millis, Outcome, RpcFailure, UnixMillis, Verdict,
};
pub use longhaul_wire::{Generation, TaskStatus};
pub use options::{EraChoice, Options};
pub use other_login::OtherLogin;
pub use pending_call::PendingCall;
pub use polling::LONGEST_POLL_INTERVAL;
pub use proxy::Proxy;
pub use recorded_call::{
    BatchLine, CallFilter, CallId, CallState, Finished, NewCall, RecordedCall, SessionRef, TakenOver, TaskRef,
};
pub use request_ref::RequestRef;
/// The URLs of [`Consent`].
#[cfg(feature = "login")]
pub use reqwest::Url;
pub use running_call::{CallStatus, RunningCall};
pub use server_change::ServerChange;
pub use server_description::ServerDescription;
pub use snapshot::TaskSnapshot;
pub use task::TaskHandle;
pub use task_log::LogChunk;
pub use tools::{TaskSupport, Tool};
pub use transport::{ChildOptions, ChildProcess, Outgoing, Reply, StreamTransport, Transport, install_tls_provider};
pub use watch::{Watch, WatchFilter};
pub use wire_observer::{WireEvent, WireObserver};
