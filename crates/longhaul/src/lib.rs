#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod ask;
mod content;
mod context;
mod durable;
mod error;
#[doc = include_str!("guide.md")]
pub mod guide {
    #[doc = include_str!("running_guide.md")]
    pub mod running {}
}
mod handler;
mod parts;
mod prompt;
mod resource;
mod server;
mod serving;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
mod tool;

pub use ask::{
    Ask, CreateMessageResult, ElicitResult, Field, Form, IntoMessages, Root, SampleTool, ToolChoice, UrlElicitation,
};
#[doc(hidden)]
pub use ask::{Elicitation, RootsQuestion, Sampling, UrlQuestion};
pub use content::{Content, Icon, ResourceContents, Role, message::Message};
pub use context::{CancellationCheck, ClientInfo, Era, ProgressValue, RequestContext, TaskContext};
#[doc(hidden)]
pub use durable::{BranchFutures, JoinBranches, SelectBranches, StepResult, TryJoinBranches};
pub use durable::{Call, CallOutcome, CallResult, Join, NonRetryable, Poll, PollUntil, Random, Step, StepError};
pub use error::{AskError, CallError, ChangeError, DefinitionError, DefinitionErrors, Error};
pub use handler::{Arguments, CompletionRequest, IntoCompletions, NoArguments, RequestHandler};
#[cfg(feature = "admin")]
pub use parts::admin;
#[cfg(feature = "postgres")]
pub use parts::postgres;
pub use parts::{auth, internals};
pub use prompt::{IntoPromptOutput, Prompt, PromptOutput};
pub use resource::{IntoResourceOutput, Resource, ResourceOutput, ResourceTemplate};
pub use server::{CallAnswer, MethodParams, MethodResult, Server, ToolCall};
pub use serving::{
    handle::ServerHandle,
    serve::{HttpListener, ServeError, ToAddress},
};
pub use tool::{IntoToolOutput, Json, Tool, ToolHandler, ToolOutput, ToolResult};

pub use longhaul_core::{
    BoxFuture, Capability, ClientCapabilities as Capabilities, ConfirmBy, EventLimits, EventStore, EventStream,
    InvalidStartRate, Json as RawJson, KeptEvent, LogLevel, OnNonDeterminism, Outcome, Principal, Quota, RetryOn,
    SessionKey, StartRate, StopReason, TaskId, TaskPolicy, UnixMillis,
};
pub use longhaul_runtime::{JournalError, Question};
pub use longhaul_server::{
    Limits, Received, Transport, audit,
    http::{AllowedOrigin, HostName, HttpOptions, PublicUrl, Tls, TlsError, TrustedProxy},
};
pub use longhaul_store::{MemoryEventStore, OpenEventStoreError, SqliteEventStore};
pub use schemars;
pub use serde;
