//! What makes tasks happen: slots, claims, attempts, retries, timers, cancellation, retention.
//!
//! The [`Engine`] stands between the fronts and a [`Store`](longhaul_core::Store). A call comes in ([`Engine::create`],
//! [`Engine::begin`]), gets a slot or a place in its tool's queue, is run by an [`Executor`], and its end is written. Decisions
//! about a task are the store's (through `longhaul_core::transition`); what is kept here can be lost at any moment and is found
//! again from the store at the next start.

mod active;
mod alarm;
mod attempt;
mod build_id;
mod call;
mod canonical;
mod change_feed;
mod dispatch;
mod engine;
mod pending_report;
mod ports;
mod progress_stream;
mod queues;
mod recovery;
mod requestor;
mod retention;
mod slots;
mod start;
mod step_observer;
mod suspension;
mod task_log;
mod timeline;
mod timers;

pub use build_id::BuildId;
pub use call::{Begun, Call, CallState, CancelError, Promotion, Waiting};
pub use canonical::digest as canonical_digest;
pub use change_feed::Watch;
pub use engine::blocked::BLOCKED_TIMEOUT;
pub use engine::catalog::{
    ArgumentError, Catalog, Completer, CustomMethod, Duplicate, HandlerError, Intake, InvalidMethodName,
    InvalidTemplate, MethodHandler, Prompt, PromptHandler, Resource, ResourceHandler, ResourceTemplate, Snapshot, Tool,
    ToolError, ToolSettings, UriTemplate, Versions,
};
pub use engine::context::TaskContext;
pub use engine::executor::{Attempt, End, Executor};
pub use engine::journal::{
    Backoff, ChildEnd, ChildError, Divergence, EntryStatus, EntrySummary, Fork, JournalError, JournalPage, MAX_ENTRIES,
    MAX_ENTRY_BYTES, Pace, Polled, Race, StepError, StepFailure, StepPolicy, StepTry, Trail, step_is_settled,
};
pub use engine::provider::{AttemptExit, LogChunk, LogError, LogRange, PastAttempt, Provider};
pub use engine::question::{AskError, Question};
pub use engine::reply::{Reply, read_answer};
pub use engine::request::{RequestContext, Requesting};
pub use engine::{Engine, EngineOptions, INPUT_TIMEOUT};
pub use ports::{Ports, Spawner};
pub use progress_stream::{ProgressStream, ToolMessage};
pub use recovery::Recovered;
pub use requestor::{Abilities, Ability, Requestor, Trace};
pub use start::StartError;
pub use step_observer::StepObserver;
pub use suspension::SUSPEND_AFTER;
