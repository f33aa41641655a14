//! The domain of Longhaul, pure: no executor, no I/O.
//!
//! A long tool call is a [`Task`]. It is worked on by at most one [`Attempt`] at a time and ends once, in an [`Outcome`].
//! Everything that may happen to it is an [`Event`], and [`transition()`] alone decides which event is legal when.
//! A [`Store`] loads a task, runs `transition`, and writes the answer inside its own transaction; so the same rule holds for
//! every database, every worker and every front.
//!
//! Time, randomness and identity come in from outside ([`Clock`], [`Entropy`]), so that a simulation can own them.

mod attempt;
mod attempt_outcome;
mod blocked;
mod canonical;
mod capability;
mod child_entry;
mod depth;
mod duration;
mod entropy;
mod event;
mod event_store;
mod excerpt;
mod failed_attempt;
mod failure_streak;
mod id;
mod input;
mod journal;
mod json;
mod log_level;
mod masking;
mod outcome;
mod plain_text;
mod policy;
mod principal;
mod quota;
mod spec;
pub mod store;
mod store_layer;
mod task;
mod terminal_text;
mod time;
mod timer;
mod timestamp;
mod tool_pattern;
mod transition;

pub use attempt::{Attempt, AttemptState, Fence, HostId, NodeId};
pub use attempt_outcome::AttemptOutcome;
pub use blocked::{Block, BlockReason, Blocked, CodeFingerprint};
pub use canonical::canonical_digest;
pub use capability::{Capability, ClientCapabilities, MISSING_CAPABILITY};
pub use child_entry::ChildEntry;
pub use depth::{MAX_DEPTH, MAX_RESULT_DEPTH, nests_deeper};
pub use duration::{InvalidDuration, approximate_duration, format_duration, parse_duration, whole_millis};
pub use entropy::Entropy;
pub use event::{AttemptEnd, CancelMode, Event};
pub use event_store::{EventLimits, EventStore, EventStream, KeptEvent};
pub use excerpt::{MAX_STATUS_BYTES, shorten, truncate};
pub use failed_attempt::{EndedBy, FailedAttempt};
pub use failure_streak::{FailureCount, FailureLine, FailureStreak};
pub use id::{InvalidTaskId, TaskId};
pub use input::{AnsweredBy, Input, InputKey, InputState};
pub use journal::{Entry, EntryKey, EntryKind, Lineage, MAX_ENTRY_BYTES};
pub use json::{InvalidJson, Json, JsonMembers, ParsedJson};
pub use log_level::LogLevel;
pub use masking::{MASK, Masking, is_secret, is_secret_name, masked_session, masked_words};
pub use outcome::{Failure, Outcome, RpcFailure, Verdict, text_result};
pub use plain_text::{is_hidden, is_reordering, plain_line, plain_text};
pub use policy::{OnNonDeterminism, Retry, RetryOn, TaskPolicy};
pub use principal::{Owner, Principal, Scope, SessionKey};
pub use quota::{Quota, QuotaExceeded, QuotaScope, Usage};
pub use spec::{SpecId, ToolSpec};
pub use store::Store;
pub use store_layer::StoreLayer;
pub use task::{Origin, Progress, State, Stop, StopReason, Task, TaskHeader};
pub use terminal_text::{BYTE_ORDER_MARK, skip_partial, terminal_text};
pub use time::{BoxFuture, Clock, Millis, Now, UnixMillis};
pub use timestamp::push_timestamp;
pub use tool_pattern::{InvalidToolPattern, ToolPattern};
pub use transition::{IllegalEvent, Reason, transition};
