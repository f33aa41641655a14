//! Questions to the client, why they fail, and the requests that carry them.

mod reply;
mod request_context;
mod requestor;

pub use reply::{QuestionReply, read_answer};
pub use request_context::{RequestChannel, RequestContext};
pub use requestor::{Requestor, Trace, Unreachable, why_not_asked};

use crate::{execution_end::ExecutionEnd, journal::JournalError};
use longhaul_core::{
    Capability, ClientCapabilities, InputKey, Json, Millis, Outcome, RpcFailure, StopReason, UnixMillis,
    store::{ApplyError, StoreError},
    whole_millis,
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// A question to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its author's name for it. Rounds use it as the key; a task's own keys are generated.
    pub name: Option<Arc<str>>,
    /// `{"method": …, "params": …}` as MCP embeds it.
    pub request: Json,
    /// What the client must have declared to be asked this.
    pub needs: Option<Capability>,
    /// How long to wait for an answer; `None` for the tool's timeout.
    pub within: Option<Duration>,
}

impl Question {
    /// How long to wait for an answer, in milliseconds.
    pub(crate) fn waits(&self, otherwise: Millis) -> Millis {
        self.within.map_or(otherwise, whole_millis)
    }

    /// A question that any client may be asked.
    pub fn new(request: Json) -> Self {
        Self {
            name: None,
            request,
            needs: None,
            within: None,
        }
    }

    /// Whether a client that has declared these can be asked.
    ///
    /// # Errors
    /// [`AskError::Unsupported`].
    pub fn fits(&self, declared: &ClientCapabilities) -> Result<(), AskError> {
        match self.needs {
            Some(capability) if !declared.has(capability) => Err(AskError::Unsupported(capability)),
            _ => Ok(()),
        }
    }
}

impl From<Json> for Question {
    /// A question that any client may be asked.
    fn from(request: Json) -> Self {
        Self::new(request)
    }
}

/// A question could not be asked, or will not be answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The client has not declared that it can be asked this, or there is no way to ask it.
    #[error("the client has not declared {0}, or this server has no way to ask it")]
    Unsupported(Capability),
    /// The task was started by another one, and the client knows only that one.
    #[error(
        "a task that another one has started cannot ask the client: ask before it is called, and hand the answer down"
    )]
    Child,
    /// The work was asked to stop.
    #[error("the work is to stop")]
    Stopped(StopReason),
    /// The question was withdrawn: the task has ended, or its client cannot be reached any more.
    #[error("the question was withdrawn")]
    Withdrawn,
    /// Nobody answered in time; the question was withdrawn.
    #[error("nobody answered in time")]
    Unanswered,
    /// The client answered with an error.
    #[error("the client refused: {}", .0.message)]
    Refused(RpcFailure),
    /// The tool's code has diverged from its journal, or the journal is full.
    #[error(transparent)]
    Journal(JournalError),
    /// The task could not be changed, or the store failed.
    #[error(transparent)]
    Task(#[from] ApplyError),
}

impl AskError {
    /// The end of an attempt that cannot continue without the answer. A client that cannot be asked gets the error of its
    /// generation; anything else is the tool's own error.
    pub fn into_end(self, requestor: &Requestor) -> ExecutionEnd {
        match self {
            Self::Unsupported(capability) => ExecutionEnd::Finished(requestor.missing_capability(capability)),
            Self::Stopped(reason) => ExecutionEnd::Stopped(reason),
            other => ExecutionEnd::Errored(Outcome::tool_error(&other.to_string())),
        }
    }
}

impl From<StoreError> for AskError {
    fn from(error: StoreError) -> Self {
        Self::Task(error.into())
    }
}

impl From<JournalError> for AskError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Stopped(reason) => Self::Stopped(reason),
            JournalError::Task(error) => Self::Task(error),
            other => Self::Journal(other),
        }
    }
}

/// Why no answer is waited for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NoAnswerReason {
    /// None came in time.
    Unanswered,
    /// Nobody wanted it any more.
    Withdrawn,
}

impl From<NoAnswerReason> for AskError {
    fn from(gone: NoAnswerReason) -> Self {
        match gone {
            NoAnswerReason::Unanswered => Self::Unanswered,
            NoAnswerReason::Withdrawn => Self::Withdrawn,
        }
    }
}

/// The value of a question's journal entry.
pub(crate) struct QuestionEntry {
    pub(crate) key: InputKey,
    /// When the wait for an answer times out.
    pub(crate) until: UnixMillis,
    /// Why no answer is waited for any more.
    pub(crate) gone: Option<NoAnswerReason>,
}

#[derive(Serialize, Deserialize)]
struct Layout<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    /// In unix milliseconds.
    until: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone: Option<NoAnswerReason>,
}

impl QuestionEntry {
    /// Of a question whose answer is waited for.
    pub(crate) fn open(key: InputKey, until: UnixMillis) -> Self {
        Self { key, until, gone: None }
    }

    /// # Errors
    /// The parser's, if another version of Longhaul has written the entry.
    pub(crate) fn from_json(value: &Json) -> Result<Self, serde_json::Error> {
        let Layout { key, until, gone } = serde_json::from_str(value.as_str())?;
        Ok(Self {
            key: InputKey::named(key),
            until: UnixMillis(until),
            gone,
        })
    }

    pub(crate) fn to_json(&self) -> Json {
        let layout = Layout {
            key: self.key.as_str().into(),
            until: self.until.0,
            gone: self.gone,
        };
        Json::trusted(serde_json::to_string(&layout).unwrap_or_default())
    }
}
