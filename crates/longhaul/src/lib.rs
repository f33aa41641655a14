#![doc = include_str!("../README.md")]

mod ask;
mod completion;
mod content;
mod context;
mod durable;
mod error;
#[doc = include_str!("../../../docs/durable-tools.md")]
pub mod guide {}
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
    Call, CallError, CallResult, Ended, Final, Join, Joining, Poll, PollUntil, Racing, Random, Step, StepError,
    StepFault, TryJoining,
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

pub use longhaul_core::{LogLevel, Outcome, Principal, Quota, RetryOn, Store, StoreLayer, TaskId, TaskPolicy};
pub use longhaul_runtime::{
    Abilities, Ability, Divergence, JournalError, Question, Recovered, StepTry, Trace, Witness,
};
pub use longhaul_server::{
    Limits,
    http::{HostName, HttpOptions, ListenError, Origin},
};
pub use longhaul_store::OpenError;
pub use schemars;
pub use serde;
