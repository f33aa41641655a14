//! The domain of Longhaul, pure: no executor, no I/O.
//!
//! A long tool call is a [`Task`]. It is worked on by at most one [`Attempt`] at a time and ends once, in an [`Outcome`].
//! Everything that may happen to it is an [`Event`], and [`transition()`] alone decides which event is legal when.
//! A [`Store`] loads a task, runs `transition`, and writes the answer inside its own transaction; so the same rule holds for
//! every database, every worker and every front.
//!
//! Time, randomness and identity come in from outside ([`Clock`], [`Entropy`]), so that a simulation can own them.

mod client;
mod entropy;
mod event_store;
mod id;
mod journal;
mod json;
mod log;
mod outcome;
pub mod store;
mod store_layer;
mod task;
mod text;
mod time;
mod tool;

pub use client::{
    capability::{Capability, ClientCapabilities, MISSING_CAPABILITY},
    principal::{Owner, Principal, Scope, SessionKey},
    quota::{Quota, QuotaExceeded, QuotaScope, Usage},
};
pub use entropy::Entropy;
pub use event_store::{EventLimits, EventStore, EventStream, KeptEvent};
pub use id::{InvalidTaskId, TaskId};
pub use journal::{Entry, EntryKey, EntryKind, Lineage, MAX_ENTRY_BYTES};
pub use json::{
    InvalidJson, Json, JsonMembers, ParsedJson,
    canonical::canonical_digest,
    depth::{MAX_DEPTH, MAX_RESULT_DEPTH, nests_deeper},
};
pub use log::{FailureCount, FailureLine, FailureStreak, LogLevel};
pub use outcome::{EndedBy, Failure, Outcome, RpcFailure, Verdict, failed_attempt::FailedAttempt, text_result};
pub use store::Store;
pub use store_layer::StoreLayer;
pub use task::{
    Origin, Progress, State, Stop, StopReason, Task, TaskHeader,
    attempt::{Attempt, AttemptState, Fence, HostId, NodeId},
    attempt_outcome::AttemptOutcome,
    blocked::{Block, BlockReason, Blocked, CodeFingerprint},
    child_entry::ChildEntry,
    concurrency_group::ConcurrencyGroup,
    confirmation::{ConfirmBy, Confirmation},
    event::{AttemptEnd, CancelMode, Event},
    input::{AnsweredBy, Input, InputKey, InputState},
    labels::{InvalidLabel, Label, Labels},
    priority::Priority,
    transition::{IllegalEvent, Reason, transition},
};
pub use text::{
    excerpt::{MAX_STATUS_BYTES, shorten, truncate},
    masking::{MASK, Masking, is_secret, is_secret_name, masked_session, masked_words},
    media_type::media_type,
    plain_text::{is_hidden, is_reordering, plain_line, plain_text},
    terminal_text::{BYTE_ORDER_MARK, skip_partial, terminal_text},
    uri_path::uri_path,
};
pub use time::{
    BoxFuture, Clock, Millis, Now, UnixMillis,
    duration::{InvalidDuration, approximate_duration, format_duration, parse_duration, whole_millis},
    timestamp::push_timestamp,
};
pub use tool::{
    InvalidStartRate, InvalidToolPattern, OnNonDeterminism, Retry, RetryOn, SpecId, StartRate, TaskPolicy, ToolPattern,
    ToolSpec,
};
