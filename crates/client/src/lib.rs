//! An MCP client for long tool calls: it speaks with any server of any protocol era, and loses no call.
//!
//! - [`Client`] is where most programs begin: [`call`](Client::call) returns the outcome of a tool, whether it comes at once, after questions, or as a task that ran
//!   for a day while the server was restarted.
//! - `ClientJournal`, of the crate `longhaul-ledger`, is one file for all programs of a user. With it, calls and tasks also outlive the program: after a `kill -9` the next
//!   process finds them. It is a [`CallJournal`].
//! - [`RunningCall`] is a call in progress: its status, its result, `cancel`, `answer`, `detach`.
//! - [`TaskHandle`] is a task on a server, also one of an earlier process. [`Connection`] is the protocol below: everything else that a server offers.
//!
//! # In `Cargo.toml`
//!
//! The crate is not on crates.io yet: name the repository, or a copy of it, and the crates of the examples.
//!
//! ```toml
//! [dependencies]
//! longhaul-client = { path = "../longhaul/crates/client" }   # or git = "URL of the repository"
//! longhaul-ledger = { path = "../longhaul/crates/ledger" }   # for the journal
//! futures-util = "0.3"                                       # for the streams
//! serde_json = "1"
//! tokio = { version = "1", features = ["full"] }
//! ```
//!
//! Features, both on by default: `login` for `Login` and what it needs, and `aws-lc-rs` for the cryptography of TLS. `ring` is what to take instead of
//! `aws-lc-rs` in a program that has *ring* already.
//!
//! # List the tools, and call them
//!
//! An agent begins with the tools of a server ([`Connection::list_tools`]). It gives them to its model, makes the calls that the model wants, and gives it the results. Here
//! `ask_model` is the agent's own:
//!
//! ```no_run
//! # struct ToolUse { tool: String, arguments: serde_json::Value }
//! # async fn ask_model(_: &[serde_json::Value], _: &[String]) -> Option<ToolUse> { None }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::{Client, Connection, Options};
//! use longhaul_ledger::ClientJournal;
//! use serde_json::json;
//!
//! let connection = Connection::open("http://127.0.0.1:7411/mcp", Options::named("my-agent", "1.0")).await?;
//! let journal = ClientJournal::open(&ClientJournal::default_path()?).await?;
//! let client = Client::recorded(connection, journal);
//!
//! let mut tools = Vec::new();
//! for tool in client.connection().list_tools().await? {
//!     // As the model takes them.
//!     tools.push(json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}));
//! }
//! let mut messages = vec!["Which files below ./docs name a deadline?".to_owned()];
//! while let Some(wanted) = ask_model(&tools, &messages).await {
//!     messages.push(match client.call(&wanted.tool, wanted.arguments).await {
//!         // The text of the result, also if the tool says that it has failed.
//!         Ok(outcome) => outcome.text(),
//!         Err(error) => format!("the call has failed: {error}"),
//!     });
//! }
//! # Ok(()) }
//! ```
//!
//! [`Connection::tool`] is the tool of one name. [`Connection::watch`] says when the tools of the server have changed.
//!
//! [`Client::new`] is a client without a journal. A server that is a program of its own is a [`ChildProcess`]:
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
//! # The outcome of a call
//!
//! ```no_run
//! # async fn example(client: longhaul_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::{Outcome, RpcFailure};
//! use serde_json::json;
//!
//! match client.call("build", json!({"target": "release"})).await? {
//!     Outcome::Cancelled => println!("cancelled"),
//!     // JSON-RPC's way to fail: the server could not carry the call through.
//!     Outcome::RpcError(RpcFailure { code, message, .. }) => println!("it failed: {message} ({code})"),
//!     // The tool itself says that it has failed.
//!     failed @ Outcome::Result { is_error: true, .. } => println!("it failed: {}", failed.text()),
//!     done => {
//!         println!("{}", done.text());
//!         // What fits the output schema of the tool, and the whole result, as JSON.
//!         println!("{:?}", done.structured_content());
//!         if let Outcome::Result { json, .. } = &done {
//!             println!("{}", json.as_str());
//!         }
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # After a crash
//!
//! Each call is on disk before it is sent, and so is its task once the server has named it. So a program begins with what an earlier one has left:
//!
//! ```no_run
//! # async fn example(client: longhaul_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use futures_util::StreamExt;
//! use longhaul_client::CallState;
//!
//! // All of them together: a long one holds up no other.
//! let mut results = client.results().await?;
//! while let Some((task, outcome)) = results.next().await {
//!     match outcome {
//!         Ok(outcome) => {
//!             println!("{}: {}", task.id(), outcome.text());
//!             // From now on it is no task of yours any more.
//!             task.finish(&outcome).await?;
//!         }
//!         // Its server may not have it any more. The other tasks are still there.
//!         Err(error) => eprintln!("{error}"),
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
//! [`Client::tasks`] returns the handles themselves. To look at one ([`TaskHandle::get`], [`TaskHandle::questions`]) asks nobody. [`TaskHandle::follow`] makes it what
//! [`Client::start`] returns: with a stream of its statuses, `answer`, `cancel` and `result`.
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
//! [`TaskHandle::answer`] answers them, also from another process that has the same journal. A status shows a question until its answer was taken, and no key twice. An answer that does
//! not fit the form of its question is not sent: the error names the field and what would fit ([`InputRequest::check`]). Without a handler a wait for a task that asks ends with
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
//!     // It may be lost: the error says so.
//!     match task.get().await {
//!         Ok(now) => println!("{} is {}", task.id(), now.status.as_str()),
//!         Err(error) => println!("{error}"),
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Cancel
//!
//! Dropping a call or a wait leaves the task alone. To end the work at the server, cancel it. A server that has not answered has two seconds to name the task of the call, which is
//! cancelled then. If it says nothing, nobody knows whether the call runs on: the outcome is unknown, and is called so, here and in the journal.
//!
//! ```no_run
//! # async fn example(client: longhaul_client::Client) -> Result<(), longhaul_client::CallError> {
//! use longhaul_client::{CallError, Outcome};
//! use serde_json::json;
//! use std::time::Duration;
//!
//! let call = client.start("build", json!({"target": "release"})).await?;
//! tokio::time::sleep(Duration::from_secs(60)).await;
//! match call.cancel().await {
//!     // Its result says the same.
//!     Ok(()) | Err(CallError::OutcomeUnknown { .. }) => {}
//!     Err(error) => println!("the server does not cancel it: {error}"),
//! }
//! match call.result().await {
//!     Ok(Outcome::Cancelled) | Err(CallError::Cancelled) => println!("cancelled"),
//!     Err(error @ CallError::OutcomeUnknown { .. }) => println!("look at the server: {error}"),
//!     // A task may end before the cancellation arrives.
//!     other => println!("{}", other?.text()),
//! }
//! # Ok(()) }
//! ```
//!
//! # Logging in, and TLS
//!
//! [`Options::tokens`] shows a server who calls: an [`AccessToken`], a `Login` with OAuth (feature `login`, on by default), or a [`TokenProvider`] of your own.
//! TLS is that of `rustls`, with the provider of cryptography that the features choose. A program with `ring` and without `aws-lc-rs` that builds a
//! `reqwest::Client` of its own before its first connection calls [`install_tls_provider`] first, unless it has given `reqwest` another provider.
#![warn(missing_docs)]

mod access_token;
mod address;
mod call;
mod connect;
mod error;
mod input_request;
mod journal;
mod list;
#[cfg(feature = "login")]
mod login;
mod offer;
mod options;
mod question;
mod snapshot;
mod task;
mod transport;

/// The headers of [`Transport`] and [`Options`].
pub use ::http::{HeaderMap, HeaderValue};
pub use access_token::{AccessToken, InvalidToken, Refusal, TokenError, TokenProvider};
pub use address::{Address, InvalidAddress};
pub use call::{
    CallOptions, CallResponse,
    call_error::CallError,
    call_status::CallStatus,
    client::Client,
    pending_call::{PendingCall, StopWaiting},
    running_call::RunningCall,
};
pub use connect::{cancellation::KeyCancellation, connection::Connection};
pub use error::{OpenError, RequestError};
pub use input_request::{InputRequest, invalid_answer::InvalidAnswer, request_ref::RequestRef};
pub use journal::{
    CallJournal, LONGEST_TAKE_OVER,
    call_change::CallChange,
    error::JournalError,
    other_login::OtherLogin,
    questions::{Asked, JournalFuture, LEGACY_QUESTION, QUESTION_BY_TEXT, QuestionJournal},
    recorded_call::{
        BatchLine, CallFilter, CallId, CallState, Finished, NewCall, RecordedCall, SessionRef, TakenOver, TaskRef,
    },
    server_request::{NewServerRequest, RequestNumber, ServerRequestRecord},
    state_folder::state_folder,
    watch::JournalWatch,
};
pub use list::{
    listing::ListPage,
    watch::{Watch, WatchFilter},
};
#[cfg(feature = "login")]
pub use login::{
    ClientIdentity, Consent, InvalidMetadataUrl, LoggedIn, Login, LoginOptions, Loopback, RegisteredByHand, TokenFile,
    TokenFileError,
};
pub use longhaul_core::{
    BoxFuture, ClientCapabilities, Clock, Json, JsonMembers, LogLevel, Millis, Outcome, ParsedJson, RpcFailure,
    UnixMillis, Verdict,
};
pub use longhaul_wire::{FieldKind, Form, FormChoice, FormField, Generation, InvalidForm, TaskStatus, TextFormat};
pub use offer::{
    completion::Completion,
    era_cache::EraCache,
    server_change::ServerChange,
    server_description::ServerDescription,
    tools::{TaskSupport, Tool, UnusableTool},
};
pub use options::{
    EraChoice, Options,
    clock::SystemClock,
    http_headers::HttpHeaders,
    input::{InputHandler, InputResponse, Inputs},
    logging::{LogMessage, Logging},
    other_notifications::OtherNotifications,
    proxy::{Proxy, is_loopback},
    wire_observer::{WireEvent, WireObserver},
};
/// The URLs of [`HttpExchange`], and of `Consent`.
pub use reqwest::Url;
pub use snapshot::{TaskSnapshot, progress::Progress};
pub use task::{
    TaskHandle,
    artifact::{Artifact, ArtifactChunk, ArtifactList},
    earlier_requests::EarlierRequest,
    event::{Event, Observer},
    history::{FailedStepAttempt, FailedStepAttempts, HistoryEntry},
    log::LogChunk,
};
pub use transport::{
    ChildOptions, ChildProcess, ChildSupervisor, Http, HttpAnswer, HttpExchange, Outgoing, Reply, StreamTransport,
    Transport, install_tls_provider, polling::LONGEST_POLL_INTERVAL, stderr,
};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
