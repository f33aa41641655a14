//! An MCP client for long tool calls: it speaks with any server of any protocol era, and loses no call.
//!
//! - [`Client`] is where most programs begin: [`call`](Client::call) returns the outcome of a tool, whether it comes at once, after questions, or as a task that ran
//!   for a day while the server was restarted.
//! - [`ClientJournal`] is one file for all programs of a user. With it, calls and tasks also outlive the program: after a `kill -9` the next process finds them.
//! - [`RunningCall`] is a call in progress: its status, its result, `cancel`, `answer`, `detach`.
//! - [`TaskHandle`] is a task on a server, also one of an earlier process. [`Connection`] is the protocol below: everything else that a server offers.
//!
//! # Call a tool
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::{Client, ClientJournal, Connection, Options, Outcome};
//! use serde_json::json;
//!
//! let connection = Connection::open("http://127.0.0.1:7411/mcp", Options::named("my-agent", "1.0")).await?;
//! let journal = ClientJournal::open(&ClientJournal::default_path()?).await?;
//! let client = Client::recorded(connection, journal);
//! match client.call("build", json!({"target": "release"})).await? {
//!     Outcome::Result { json, is_error: false } => println!("{}", json.as_str()),
//!     other => println!("it failed: {other:?}"),
//! }
//! # Ok(()) }
//! ```
//!
//! [`Client::new`] is the same without a journal. A server that is a program of its own is a [`ChildProcess`]:
//!
//! ```no_run
//! # fn example() {
//! use longhaul_client::{ChildOptions, ChildProcess, Client, Connection, Options};
//!
//! let child = ChildProcess::new(ChildOptions::new("npx", ["-y", "@modelcontextprotocol/server-everything"]));
//! let client = Client::new(Connection::over(child, Options::named("my-agent", "1.0")));
//! # }
//! ```
//!
//! # After a crash
//!
//! Each call is on disk before it is sent, and so is its task once the server has named it. So a program begins with what an earlier one has left:
//!
//! ```no_run
//! # async fn example(client: longhaul_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::CallState;
//!
//! for task in client.tasks().await? {
//!     match task.wait(&mut |_| {}).await {
//!         Ok(outcome) => {
//!             println!("{}: {outcome:?}", task.id());
//!             // From now on it is no task of yours any more.
//!             task.finish(&outcome).await?;
//!         }
//!         // Its server may not have it any more. The other tasks are still there.
//!         Err(error) => eprintln!("{}: {error}", task.id()),
//!     }
//! }
//! for call in client.calls().await? {
//!     match call.state {
//!         CallState::Interrupted => println!("make the same call of {} again: it is continued", call.tool),
//!         CallState::Unknown { reason } => println!("{} may have run: {reason}", call.tool),
//!         _ => {}
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Questions
//!
//! Servers ask the user while a tool runs. An [`InputHandler`] in [`Options::inputs`] answers, in whatever way the server asks; [`Inputs`] makes one from closures:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::{Client, Connection, InputResponse, Inputs, Options};
//!
//! let mut options = Options::named("my-agent", "1.0");
//! options.inputs = Some(Inputs::new().elicit(|question| async move {
//!     println!("{}", question.message());
//!     Ok(InputResponse::accept(question.defaults()))
//! }).into());
//! let client = Client::new(Connection::open("http://127.0.0.1:7411/mcp", options).await?);
//! # Ok(()) }
//! ```
//!
//! With [`Inputs::deferred`] the program answers when it likes: [`RunningCall::status`] shows the questions of the task, and [`RunningCall::answer`] or
//! [`TaskHandle::answer`] answers them, also from another process that has the same journal. Without a handler a wait for a task that asks ends with
//! [`RequestError::InputRequired`], and the task goes on asking. Many servers, Longhaul's among them, look at what a client has declared and let such a call fail
//! instead: so set [`Options::inputs`] for tools that may ask.
//!
//! # Detach, and come back
//!
//! ```no_run
//! # async fn example(client: longhaul_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::CallResponse;
//! use serde_json::json;
//!
//! let call = client.start("build", json!({"target": "release"})).await?;
//! match call.detach().await? {
//!     CallResponse::Task(task) => println!("started {}", task.id()),
//!     CallResponse::Done(outcome) => println!("it was done at once: {outcome:?}"),
//! }
//! // Later, in this process or another one:
//! for task in client.tasks().await? {
//!     println!("{} is {:?}", task.id(), task.get().await?.status);
//! }
//! # Ok(()) }
//! ```
//!
//! # Cancel
//!
//! Dropping a call or a wait leaves the task alone. To end the work at the server, cancel it. A call that is cancelled before its server has answered may still
//! become a task there, which goes on; the journal has it as of unknown outcome.
//!
//! ```no_run
//! # async fn example(client: longhaul_client::Client) -> Result<(), longhaul_client::CallError> {
//! use longhaul_client::{CallError, Outcome};
//! use serde_json::json;
//! use std::time::Duration;
//!
//! let call = client.start("build", json!({"target": "release"})).await?;
//! tokio::time::sleep(Duration::from_secs(60)).await;
//! call.cancel().await?;
//! match call.result().await {
//!     Ok(Outcome::Cancelled) | Err(CallError::Cancelled) => println!("cancelled"),
//!     // A task may end before the cancellation arrives.
//!     other => println!("{:?}", other?),
//! }
//! # Ok(()) }
//! ```
//!
//! # Logging in, and TLS
//!
//! [`Options::tokens`] shows a server who calls: an [`AccessToken`], a `Login` with OAuth (feature `login`, on by default), or a [`TokenProvider`] of your own.
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

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
