//! What makes tasks happen: slots, claims, attempts, retries, timers, cancellation, retention.
//!
//! The [`Engine`] stands between the fronts and a [`Store`](longhaul_core::Store). A call comes in ([`Engine::create`],
//! [`Engine::begin`]), gets a slot or a place in its tool's queue, is run by an [`Executor`], and its end is written. Decisions
//! about a task are the store's (through `longhaul_core::transition`); what is kept here can be lost at any moment and is found
//! again from the store at the next start.

mod active;
mod attempt;
mod blocked;
mod build_id;
mod call;
mod canonical;
mod catalog;
mod change_feed;
mod context;
mod dispatch;
mod engine;
mod executor;
mod intake;
mod isolated_retry;
mod journal;
mod lineage;
mod pending_report;
mod ports;
mod progress_stream;
mod provider;
mod question;
mod queues;
mod recovery;
mod reply;
mod request;
mod requestor;
mod retention;
mod slots;
mod step_observer;
mod store_retry;
mod suspension;
mod task_log;
mod timeline;
mod timers;

pub use blocked::BLOCKED_TIMEOUT;
pub use build_id::BuildId;
pub use call::{Begun, Call, CancelError, Promotion, Step, Waiting};
pub use canonical::digest as canonical_digest;
pub use catalog::{
    ArgumentError, Catalog, Completer, CustomMethod, Duplicate, HandlerError, Intake, InvalidMethodName,
    InvalidTemplate, MethodHandler, Prompt, PromptHandler, Resource, ResourceHandler, ResourceTemplate, Snapshot, Tool,
    ToolError, ToolSettings, UriTemplate, Versions,
};
pub use change_feed::Watch;
pub use context::TaskContext;
pub use engine::{Engine, EngineOptions, INPUT_TIMEOUT, StartError};
pub use executor::{Attempt, End, Executor};
pub use journal::{
    Backoff, ChildEnd, ChildError, Divergence, EntryStatus, EntrySummary, Fork, JournalError, JournalPage, MAX_ENTRIES,
    MAX_ENTRY_BYTES, Pace, Polled, Race, StepError, StepFailure, StepPolicy, StepTry, Trail, step_is_settled,
};
pub use ports::{Ports, Spawner};
pub use progress_stream::{ProgressStream, ToolMessage};
pub use provider::{AttemptExit, LogChunk, LogError, LogRange, PastAttempt, Provider};
pub use question::{AskError, Question};
pub use recovery::Recovered;
pub use reply::{Reply, read_answer};
pub use request::{RequestContext, Requesting};
pub use requestor::{Abilities, Ability, Requestor, Trace};
pub use step_observer::StepObserver;
pub use suspension::SUSPEND_AFTER;
