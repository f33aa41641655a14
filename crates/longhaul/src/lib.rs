#![doc = include_str!("../README.md")]

mod ask;
mod build_id;
mod completion;
mod content;
mod context;
mod durable;
mod error;
#[doc = include_str!("../../../docs/durable-tools.md")]
pub mod guide {}
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
mod handle;
mod intake;
mod message;
mod method;
mod prompt;
mod request;
mod resource;
mod schema;
mod serve;
mod server;
pub mod testing;
pub mod time;
mod tool;

pub use ask::{
    Ask, AskError, Elicitation, Elicited, Field, Form, IntoMessages, Page, PageQuestion, Root, RootsQuestion,
    SampleTool, Sampled, Sampling, ToolChoice,
};
pub use completion::{IntoCompletions, Typed};
pub use content::{Audience, Content, Icon, ResourceContents};
pub use context::{Checkpoint, Client, Era, Figure, RequestContext, TaskContext};
pub use durable::{
    Call, CallError, CallResult, Ended, Join, Joining, NonRetryable, Poll, PollUntil, Racing, Random, Step, StepError,
    TryJoining,
};
pub use error::{Error, ToolResult};
pub use handle::{ChangeError, ServerHandle};
pub use message::Message;
pub use prompt::{IntoPromptOutput, Prompt, PromptOutput};
pub use request::RequestHandler;
pub use resource::{Contents, IntoContents, Resource, ResourceTemplate};
pub use serve::{Listening, ServeError};
pub use server::{DefinitionError, DefinitionErrors, Server, ToAddress};
pub use tool::{Arguments, IntoToolOutput, Json, NoArguments, Tool, ToolHandler, ToolOutput};

/// What is below this crate, whole: for executors, providers and stores of your own, and for what an error holds within another.
///
/// ```
/// use longhaul::{AskError, JournalError, Unasked, below::core::store::ApplyError};
///
/// /// Whether another attempt would do better.
/// fn is_the_store_s(error: &AskError) -> bool {
///     use ApplyError::Store;
///     matches!(
///         error,
///         AskError::Unasked(Unasked::Task(Store(_))) | AskError::Journal(JournalError::Task(Store(_)))
///     )
/// }
/// ```
pub mod below {
    pub use longhaul_core as core;
    pub use longhaul_runtime as runtime;
    pub use longhaul_server as server;
    pub use longhaul_store as store;
}

pub use longhaul_core::{
    BoxFuture, Json as RawJson, LogLevel, OnNonDeterminism, Outcome, Principal, Quota, RetryOn, StopReason, Store,
    StoreLayer, TaskId, TaskPolicy, store::StoreError,
};
pub use longhaul_runtime::{
    Abilities, Ability, AskError as Unasked, Divergence, Engine, Executor, JournalError, Provider, Question, Recovered,
    StartError, StepTry, Trace, Witness,
};
pub use longhaul_server::{
    Front, FrontError, Limits,
    http::{HostName, HttpOptions, ListenError, Origin},
};
pub use longhaul_store::OpenError;
pub use schemars;
pub use serde;
