//! What is recorded of a call.

use longhaul_core::{Json, Millis, Outcome, UnixMillis, masked_session};
use longhaul_wire::{Generation, TaskStatus};
use std::fmt;

/// The number of a call in the journal. It is never used again, also not after the call was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(i64);

impl CallId {
    /// The call with this number, for example one that was shown to a person.
    pub fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> i64 {
        self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}", self.0)
    }
}

/// A call that is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCall {
    /// The server: its URL, or its command line and its folder as JSON. It is recorded and listed, so it should have no credentials in it.
    pub server: String,
    /// The server's name in the user's configuration. Calls of one server under two names are those of two callers, who may have different credentials.
    pub server_name: Option<String>,
    /// The tool.
    pub tool: String,
    /// A SHA-256 digest of the arguments, by which a repeated call is recognized. The arguments themselves are not recorded.
    pub arguments_digest: [u8; 32],
    /// The idempotency key that the call is sent with.
    pub idempotency_key: Option<String>,
    /// The legacy session that it is sent in, if it is open already. It counts as in use from now on.
    pub session: Option<SessionRef>,
    /// Who it is made as, as [`TokenProvider::login`](crate::TokenProvider::login) says. It is recorded and listed.
    pub login: Option<String>,
    /// The line of a run that it is made for.
    pub batch_line: Option<BatchLine>,
}

/// A line of a run over many calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchLine {
    /// The number of the run.
    pub batch: i64,
    /// Also the idempotency key of its call.
    pub name: String,
}

/// A call that this process has taken over from one that has ended; see [`CallJournal::take_over`](crate::CallJournal::take_over).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOver {
    /// The call.
    pub call: CallId,
    /// The idempotency key to send it with.
    pub idempotency_key: String,
    /// When it was begun.
    pub begun_at: UnixMillis,
}

/// A task that a server has created for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRef {
    /// The server's id for it.
    pub task_id: String,
    /// The generation of MCP Tasks that it belongs to.
    pub generation: Generation,
    /// The legacy session in which it can be reached.
    pub session: Option<SessionRef>,
    /// When the server created it, as the server wrote it (ISO 8601).
    pub created_at: Option<String>,
    /// How long the server keeps it, in milliseconds from its creation; `None` if unlimited or unknown.
    pub ttl: Option<Millis>,
}

/// A legacy session, with all that is needed to use it from another process. A debug print shows the beginning of its id alone.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionRef {
    /// The value of `Mcp-Session-Id`.
    pub id: String,
    /// The negotiated protocol revision, such as `2025-11-25`.
    pub revision: String,
    /// The capabilities that the client declared when it opened the session.
    pub capabilities: Json,
}

impl fmt::Debug for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRef")
            .field("id", &masked_session(&self.id))
            .field("revision", &self.revision)
            .field("capabilities", &self.capabilities.as_str())
            .finish()
    }
}

/// How a call finished. The result itself is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finished {
    /// The server answered the call directly with a result, without a task.
    Answered,
    /// The task completed, and its result was fetched.
    Completed,
    /// The call was answered with a JSON-RPC error after the tool may have run, or the task failed with one.
    Failed,
    /// The tool returned an error, with or without a task.
    ToolError,
    /// The tool returned a result that does not fit its output schema.
    InvalidOutput,
    /// The call or its task was cancelled.
    Cancelled,
    /// The tool asked before there was a task, or its task would have ended with the client, nobody answered, and the call was given up. The tool has run as far as to its
    /// question.
    Unanswered,
    /// The server refused the call, or it was never sent.
    Refused,
}

impl Finished {
    const ALL: [Self; 8] = [
        Self::Answered,
        Self::Completed,
        Self::Failed,
        Self::ToolError,
        Self::InvalidOutput,
        Self::Cancelled,
        Self::Unanswered,
        Self::Refused,
    ];

    /// How a call finished that this was the answer to.
    pub(crate) fn of_call(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Result { is_error: false, .. } => Self::Answered,
            other => Self::of_task(other),
        }
    }

    /// How a task with this outcome finished.
    pub(crate) fn of_task(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Result { is_error: false, .. } => Self::Completed,
            Outcome::Result { .. } => Self::ToolError,
            Outcome::RpcError(_) => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
        }
    }

    /// A number for it in files, which no later release changes.
    pub fn code(self) -> i64 {
        match self {
            Self::Answered => 1,
            Self::Completed => 2,
            Self::Failed => 3,
            Self::Cancelled => 4,
            Self::Refused => 5,
            Self::ToolError => 6,
            Self::Unanswered => 7,
            Self::InvalidOutput => 8,
        }
    }

    /// What has this [number](Self::code).
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|finished| finished.code() == code)
    }
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallState {
    /// A process that lives is sending it, or waits for its answer.
    InFlight,
    /// The process that sent it, or was about to, has ended without recording an answer. See [`CallJournal::take_over`](crate::CallJournal::take_over) and
    /// [`CallJournal::settle_abandoned`](crate::CallJournal::settle_abandoned).
    Interrupted,
    /// The server has made it a task, and its end was not fetched yet.
    Task,
    /// It may or may not have been carried out, and it must not be repeated without asking the user.
    Unknown {
        /// Why, for people.
        reason: String,
    },
    /// The server has created a task for it that can no longer be reached.
    Lost {
        /// Why, for people.
        reason: String,
    },
    /// Nothing more is to be done.
    Finished(Finished),
}

/// A call as the journal knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// Its number.
    pub id: CallId,
    /// The server: its URL, or its command line and its folder as JSON.
    pub server: String,
    /// The server's name in the user's configuration, when the call was made.
    pub server_name: Option<String>,
    /// The tool.
    pub tool: String,
    /// The SHA-256 digest of the arguments.
    pub arguments_digest: [u8; 32],
    /// The idempotency key.
    pub idempotency_key: Option<String>,
    /// Who it was made as; `None` if there was no login, or an earlier release has made it.
    pub login: Option<String>,
    /// Where it stands.
    pub state: CallState,
    /// Whether its task ends with the process that made the call, which lives: its server is a child of that process, or its session a connection of it. Only that
    /// process reaches the task. Others answer and cancel it as a call that is no task: by the journal, which tells that process.
    pub ends_with_process: bool,
    /// Its task, if the server has created one.
    pub task: Option<TaskRef>,
    /// The task's status when it was last noted.
    pub status: Option<TaskStatus>,
    /// Whether it waits for an answer of the user, as far as the journal knows.
    pub asks: bool,
    /// When it was begun.
    pub begun_at: UnixMillis,
    /// When its record last changed.
    pub changed_at: UnixMillis,
}

/// Which calls to list. The default lists all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Only those of this server.
    pub server: Option<String>,
    /// Only those that are neither finished nor lost.
    pub unfinished: bool,
    /// At most so many, the latest ones.
    pub limit: Option<u32>,
}
