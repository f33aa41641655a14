//! Runs tasks: slots, claims, attempts, retries, timers, cancellation, retention.
//!
//! The [`Engine`] stands between the server and a [`Store`](longhaul_core::Store). A call ([`Engine::create`], [`Engine::begin`]) gets a slot or
//! is queued, an [`Executor`] runs it, and its end is written. The store decides about tasks (by `longhaul_core::transition`); what the engine
//! holds in memory is rebuilt from the store at the next start.

mod active_attempts;
mod alarm;
mod answer;
mod attempt;
mod backoff;
mod blocked;
mod build_id;
mod call;
mod catalog;
mod change_feed;
mod context;
mod deletion;
mod engine;
mod engine_clock;
mod execution_end;
mod executor;
mod executor_elsewhere;
mod failed_starts;
mod handler_context;
mod history;
mod intake;
mod isolated_retry;
mod journal;
mod lease;
mod node;
mod operator;
mod past_attempts;
mod paused_tools;
mod pending_report;
mod permits;
mod plain_call;
mod ports;
mod progress_stream;
mod provider;
mod question;
mod queue_wait;
mod queues;
mod recovery;
mod remote_files;
mod reply;
mod request;
mod requestor;
mod reset;
mod resync;
mod retention;
mod scheduler;
mod server_messages;
mod slots;
mod start;
mod step_observer;
mod store_trouble;
mod suspension;
mod task_log;
mod timers;
mod tools;
mod withdrawn_questions;

pub use answer::QuestionLookup;
pub use backoff::Backoff;
pub use build_id::BuildId;
pub use call::{Call, CancelError};
pub use catalog::{
    ArgumentError, Audience, AuthorHandlers, BLOCKED_TIMEOUT, CallAnswer, CallHandler, CallRequest, Catalog,
    Completeness, Completer, CustomMethod, DEFAULT_HANDOFF, Duplicate, FOLLOW_TOOLS, FallbackHandler, FollowError,
    Followed, HandlerError, Handoff, INPUT_TIMEOUT, Intake, InvalidMethodName, InvalidTemplate, ListClient,
    MethodHandler, NotificationHandler, PendingTools, Prompt, PromptHandler, Resource, ResourceFollower,
    ResourceHandler, ResourceTemplate, ResourceUpdate, SessionChange, SessionLog, SessionLogs, Snapshot, Subscriber,
    Tool, ToolError, ToolSettings, ToolVisibility, Unavailable, UriTemplate, Versions, executor_definition,
};
pub use change_feed::TaskWatch;
pub use context::{
    ChildEnd, ChildError, Fork, PollPolicy, Polled, Race, StepError, StepFailure, StepPolicy, TaskContext,
    step_is_settled,
};
pub use deletion::DeleteError;
pub use engine::{Engine, EngineOptions, MayBegin};
pub use execution_end::ExecutionEnd;
pub use executor::{Executor, ExecutorAttempt, STOP_GRACE};
pub use handler_context::HandlerContext;
pub use history::{EntrySummary, JournalPage};
pub use journal::{
    Divergence, EntryStatus, FailedStepAttempt, FailedStepAttempts, JournalError, MAX_ENTRIES, MAX_ENTRY_BYTES,
};
pub use node::EngineStop;
pub use operator::{Cordon, CordonError, OperatorError};
pub use plain_call::{CallHandle, PlainCall, PlainCallState, Promotion};
pub use ports::{Ports, Spawner};
pub use progress_stream::{ProgressStream, ToolMessage};
pub use provider::{AttemptExit, LogChunk, LogError, LogRange, PastAttempt, Provider};
pub use question::{AskError, Question};
pub use queue_wait::QueueWait;
pub use recovery::{HOST_LOST_AFTER, KEPT_FOR_CLIENT, Recovered};
pub use remote_files::AttemptFilesError;
pub use reply::{QuestionReply, read_answer};
pub use request::{RequestChannel, RequestContext};
pub use requestor::{Requestor, Trace, Unreachable, why_not_asked};
pub use slots::SlotUse;
pub use start::StartError;
pub use step_observer::StepObserver;
pub use store_trouble::StoreTrouble;
pub use suspension::SUSPEND_AFTER;
