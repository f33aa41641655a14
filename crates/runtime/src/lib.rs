//! Runs tasks: slots, claims, attempts, retries, timers, cancellation, retention.
//!
//! The [`Engine`] stands between the server and a [`Store`](longhaul_core::Store). A call ([`Engine::create`], [`Engine::begin`]) gets a slot or
//! is queued, an [`Executor`] runs it, and its end is written. The store decides about tasks (by `longhaul_core::transition`); what the engine
//! holds in memory is rebuilt from the store at the next start.

mod attempt;
mod call;
mod catalog;
mod context;
mod engine;
mod execution_end;
mod executor;
mod journal;
mod node;
mod nodes;
mod operator;
mod ports;
mod question;
mod queue;
mod start;

pub use attempt::{AttemptFilesError, HOST_LOST_AFTER, KEPT_FOR_CLIENT, Recovered};
pub use call::{
    Call, CallHandle, CancelError, DeleteError, EntrySummary, JournalPage, PlainCall, PlainCallState, Promotion,
    QuestionLookup, QueueWait, ScheduleStatus, TriggerError,
};
pub use catalog::{
    ArgumentError, Audience, AuthorHandlers, BLOCKED_TIMEOUT, CallAnswer, CallHandler, CallRequest, CallValue, Catalog,
    Completeness, Completer, ConcurrencyKey, ConfirmSettings, CustomMethod, DEFAULT_HANDOFF, Duplicate, FOLLOW_TOOLS,
    FallbackHandler, FollowError, Followed, HandlerError, Handoff, INPUT_TIMEOUT, Intake, InvalidMethodName,
    InvalidTemplate, LabelsOf, ListClient, MethodHandler, NotificationHandler, PendingTools, Prompt, PromptHandler,
    Resource, ResourceFollower, ResourceHandler, ResourceTemplate, ResourceUpdate, SessionChange, SessionLog,
    SessionLogs, Snapshot, Subscriber, Tool, ToolError, ToolSettings, ToolVisibility, Unavailable, UriTemplate,
    UriVariables, Versions, executor_definition,
};
pub use context::{
    ChildEnd, ChildError, Fork, PollPolicy, Polled, Race, StepError, StepFailure, StepPolicy, TaskContext,
    handler_context::HandlerContext, step_is_settled,
};
pub use engine::{Engine, EngineOptions, MayBegin, build_id::BuildId};
pub use execution_end::ExecutionEnd;
pub use executor::{
    Executor, ExecutorAttempt, STOP_GRACE,
    artifact::{Artifact, ArtifactChunk, ArtifactList, MAX_ARTIFACT_READ},
    provider::{AttemptExit, LogChunk, LogError, LogRange, PastAttempt, Provider},
};
pub use journal::{
    Divergence, EntryStatus, FailedStepAttempt, FailedStepAttempts, JournalError, MAX_ENTRIES, MAX_ENTRY_BYTES,
};
pub use node::{EngineStop, ProgressStream, SUSPEND_AFTER, StepObserver, StoreTrouble, TaskWatch, ToolMessage};
pub use operator::{Cordon, CordonError, OperatorError};
pub use ports::{
    Ports, Spawner,
    argument_cipher::{ArgumentCipher, DecryptError},
    backoff::Backoff,
};
pub use question::{
    AskError, Question, QuestionReply, RequestChannel, RequestContext, Requestor, Trace, Unreachable, read_answer,
    why_not_asked,
};
pub use queue::{
    schedules::{CatchUp, Cron, CronError, Overlap, Recurrence, SCHEDULE_GRACE, Schedule},
    slots::SlotUse,
};
pub use start::StartError;
