//! The errors of requests.

pub(crate) mod rpc_failure;

use crate::{InputRequest, InvalidAddress, InvalidAnswer, RpcFailure, TaskStatus, TokenError};
use longhaul_core::{Json, Millis};
use std::borrow::Cow;

/// A request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server could not be reached, or closed the connection.
    #[error("{address} cannot be reached: {reason}{}", describe_stderr(.stderr.as_deref()))]
    Unreachable {
        /// The server's address.
        address: String,
        /// The innermost cause.
        reason: String,
        /// The last that a child process has written to its standard error, if it has ended. It may be secret.
        stderr: Option<String>,
        /// Whether there was a connection, so that the server may have received the request.
        connected: bool,
    },
    /// The server has not answered within the time of the request ([`Options::request_timeout`](crate::Options::request_timeout) or
    /// [`Options::call_timeout`](crate::Options::call_timeout)). It may still be working on it; a session or a child process is kept.
    #[error("the request to {address} timed out")]
    TimedOut {
        /// The server's address.
        address: String,
    },
    /// The server's command could not be started.
    #[error("`{command}` could not be started: {reason}")]
    NotStarted {
        /// The command line.
        command: String,
        /// What the system says.
        reason: String,
    },
    /// The connection broke before a call was answered, and the server that is there now takes no idempotency keys. So the call, which may have run, was not sent again.
    #[error(
        "{address} takes no idempotency keys any more, since the connection broke; the call may have run, and was not sent again"
    )]
    NoKeysAnyMore {
        /// The server's address.
        address: String,
    },
    /// The server's certificate cannot be trusted, so nothing was sent.
    #[error("{address} cannot be trusted: {reason}")]
    Certificate {
        /// The server's address.
        address: String,
        /// What is wrong with the certificate.
        reason: String,
    },
    /// The server does not accept the caller, who showed no token, or one that it does not know or that has ended. Nothing was started.
    #[error("{address} requires a login or a key, and what was sent is not accepted (HTTP status 401){}", describe_body(.reason.as_deref().unwrap_or_default()))]
    Unauthorized {
        /// The server's address.
        address: String,
        /// Why, if the server says so.
        reason: Option<String>,
    },
    /// There is no token for the server, so nothing was sent, or a refused request was not sent again.
    #[error("{address}: {error}")]
    Token {
        /// The server's address.
        address: String,
        /// Why there is none.
        error: TokenError,
    },
    /// This client cannot be set up as its options and its system say: the proxy, or the certificates of authorities.
    #[error("this client cannot speak HTTP: {0}")]
    Setup(String),
    /// An HTTP status without a JSON-RPC response.
    #[error("the server answered with HTTP status {status}{}", describe_body(.body))]
    Http {
        /// The status.
        status: u16,
        /// The beginning of the body, if it was text.
        body: String,
        /// The server's `Retry-After`, in milliseconds.
        retry_after: Option<Millis>,
    },
    /// A JSON-RPC error.
    #[error("the server answered: {} (error {})", .0.message, .0.code)]
    Rpc(RpcFailure),
    /// A JSON-RPC error with a transient HTTP status: the server is busy, out of memory or stopping.
    #[error("the server is not available now: {} (HTTP status {status})", .failure.message)]
    Unavailable {
        /// The status.
        status: u16,
        /// The JSON-RPC error.
        failure: RpcFailure,
        /// The server's `Retry-After`, in milliseconds.
        retry_after: Option<Millis>,
    },
    /// The server accepted no handshake that this client may make, so it is probably no MCP server. The text says how it answered.
    #[error("cannot talk MCP with the server: {0}")]
    HandshakeFailed(String),
    /// The server has agreed to a revision of MCP that this client does not know.
    #[error("the server's response is invalid: it negotiates the unknown revision {revision:?}")]
    UnknownRevision {
        /// The beginning of what the server calls it.
        revision: String,
    },
    /// The server supports only revisions of MCP that this client does not know.
    #[error("cannot talk MCP with the server: it supports only revisions unknown to this client: {supported}")]
    UnsupportedRevisions {
        /// The beginning of the server's list, as JSON.
        supported: String,
    },
    /// The server asked for something that the client could not answer, so the call was given up, or the task cancelled.
    #[error("the server asked for {method}, and there is no answer: {reason}")]
    Unanswered {
        /// What it asked.
        method: String,
        /// Why there is no answer.
        reason: String,
    },
    /// A legacy server refuses the call until the user has been to a page (2025-11-25, error −32042), and the user has not. The tool has not run.
    #[error("{reason}; the call has not run: the server refuses it until a page was opened: {page}")]
    PageRequired {
        /// What the server says of the page, and its address as a browser opens it; or why that is not opened.
        page: String,
        /// Why it was not opened.
        reason: String,
    },
    /// The task that is waited for asks something, and this client has no handler ([`Options::inputs`](crate::Options::inputs)). Nothing was answered, and the task
    /// goes on asking: answer it by [`TaskHandle::answer`](crate::TaskHandle::answer), in this process or, if it is recorded, in another one, and wait for it
    /// again. With [`Inputs::deferred`](crate::Inputs::deferred) it can be answered while it is waited for.
    #[error(
        "the task {task} asks {}, and this client has no handler for questions (Options::inputs); the task still waits for the answer: give it with TaskHandle::answer, and wait for the task again",
        describe_questions(.questions, .message.as_deref())
    )]
    InputRequired {
        /// The task.
        task: String,
        /// What it asks. Empty for a legacy task: its server tells questions only to a client that has a handler.
        questions: Vec<InputRequest>,
        /// What the server says of the status of the task.
        message: Option<String>,
    },
    /// Another program of this user has cancelled the call (in the [journal](crate::CallJournal::is_cancel_requested)) before the server had answered. It may
    /// have run, and with an idempotency key it may go on at the server.
    #[error("another program has cancelled the call before the server had answered")]
    CancelledElsewhere,
    /// A response that breaks the protocol.
    #[error("the server's response is invalid: {0}")]
    Invalid(String),
    /// A call was answered with a task where none may be. The task may be running.
    #[error("the server's response is invalid: it answers the call of {tool:?} with the task {task:?}, but {reason}")]
    UnexpectedTask {
        /// The tool.
        tool: String,
        /// The task's id, as a whole: whoever called can cancel it.
        task: String,
        /// Why it may not be.
        reason: &'static str,
    },
    /// The result of a tool does not fit the output schema that the server declares for it.
    #[error("the tool's result does not fit its output schema: {reason}")]
    InvalidOutput {
        /// What does not fit, and where.
        reason: String,
        /// The result, as it came.
        result: Json,
    },
    /// A legacy server has ended the session of the task, and answers with HTTP status 404 in a new one, too.
    #[error("the server has ended the session of the task, and does not know the task in a new one (HTTP status 404)")]
    LostWithSession,
    /// The server does not know the task of a call any more: its result cannot be fetched, and it may have run. Servers do not say why, so as not to tell whether
    /// another principal has it. A recorded one is recorded as [lost](crate::CallState::Lost).
    #[error(
        "the server does not know the task {task} any more: its retention is over, it was deleted, or it belongs to another principal ({error})"
    )]
    LostTask {
        /// The beginning of the task's id.
        task: String,
        /// How the server has answered.
        error: Box<RequestError>,
    },
    /// The task has ended, and its server does not give its result: it has none, or keeps it no longer. A recorded one is recorded as
    /// [lost](crate::CallState::Lost).
    #[error("the task {task} is over ({}), and its server gives no result of it: {error}", .status.as_str())]
    NoResult {
        /// The beginning of the task's id.
        task: String,
        /// How it has ended.
        status: TaskStatus,
        /// How the server has answered.
        error: Box<RequestError>,
    },
    /// The answer does not fit what the task asks. Nothing was sent, and the task goes on asking.
    #[error("the answer to {key:?} of the task {task} was not sent: {error}")]
    InvalidAnswer {
        /// The beginning of the task's id.
        task: String,
        /// The key of the question.
        key: String,
        /// What does not fit, and what would.
        error: InvalidAnswer,
    },
    /// The id has a form that no task of a Longhaul server has, so there is no log and no history.
    #[error("only Longhaul servers keep logs and histories, and this task id is not from one")]
    InvalidTaskId,
    /// The task does not ask this question: it was answered already, perhaps by another process, or withdrawn, or there was none with this key. Nothing was sent.
    #[error(
        "the task {task} does not ask {key:?} now: it is already answered, or withdrawn, or the key of no question"
    )]
    NotAsked {
        /// The task.
        task: String,
        /// The key of the question.
        key: String,
    },
    /// The task asks under a key again to which the server has acknowledged the answer, which MCP forbids, and does not stop. Each key is answered once, so nobody
    /// was asked again, and nothing was sent. The task goes on at the server, and can be cancelled.
    #[error(
        "the server has acknowledged the answer to {key:?} of the task {task}, and still asks it after {polls} polls; a key must not be used again, and is answered once"
    )]
    AsksAgain {
        /// The task.
        task: String,
        /// The beginning of the key.
        key: String,
        /// How many polls have shown the question since.
        polls: u32,
    },
    /// The server does not declare that its clients may delete tasks, so nothing was sent.
    #[error("the server does not let its clients delete tasks: only Longhaul servers do")]
    NoDeletion,
    /// The server does not declare that it cancels calls by their idempotency keys, so nothing was sent.
    #[error("the server does not cancel calls by their idempotency keys: only Longhaul servers do")]
    NoCancellationByKey,
    /// A response beyond [`Options::max_response`](crate::Options::max_response).
    #[error("the server's response is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

impl RequestError {
    /// Whether the same request may succeed later: the server could not be reached, did not answer in time, or answered with HTTP status 408, 429 or 5xx.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Unavailable { .. } => true,
            Self::Token { error, .. } => matches!(error, TokenError::Unavailable { .. }),
            Self::Http { status, .. } => is_transient_status(*status),
            _ => false,
        }
    }

    /// Whether the error of a call says that the tool has not run. Any other error may come after it has: also a JSON-RPC error such as −32603, which many servers
    /// send when a tool fails. Some let a tool fail with −32602 or another code of JSON-RPC: see [`PendingCall::may_have_run`](crate::PendingCall::may_have_run).
    ///
    /// These say it: −32700, −32600, −32601, −32602, −32020, −32021, −32022, −32042, the error 429 of Longhaul, and any JSON-RPC error with HTTP status 408, 429 or 503.
    /// So do HTTP statuses 403, 413 and 429, whatever comes with them.
    /// With status 502 or 504 none does: a proxy answers so, which does not know what the server has done.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Rpc(failure) => is_refusal_code(failure.code),
            Self::Unavailable { status, failure, .. } => {
                matches!(status, 408 | 429 | 503) || (!matches!(status, 502 | 504) && is_refusal_code(failure.code))
            }
            Self::Http { status, .. } => matches!(status, 403 | 413 | 429),
            Self::NotStarted { .. }
            | Self::Certificate { .. }
            | Self::Unauthorized { .. }
            | Self::Token { .. }
            | Self::Setup(_)
            | Self::PageRequired { .. } => true,
            _ => false,
        }
    }

    /// Whether nothing of the request has reached the server.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Unreachable { connected, .. } => !connected,
            Self::NotStarted { .. } | Self::Certificate { .. } | Self::Setup(_) => true,
            _ => false,
        }
    }

    /// Whether the server has refused the request, and done nothing, because it is too busy.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Unavailable { status, .. } => matches!(status, 429 | 503),
            Self::Http { status, .. } => *status == 429,
            Self::Rpc(failure) => failure.code == LIMIT_REACHED,
            _ => false,
        }
    }

    /// Whether the server does not know the task: it never existed, its retention is over, it was deleted, or it belongs to another principal. Only meaningful for
    /// `tasks/get` and `tasks/result`, since servers use −32602 for every invalid parameter.
    pub fn is_unknown_task(&self) -> bool {
        match self {
            Self::Rpc(failure) => failure.code == INVALID_PARAMS,
            Self::LostWithSession | Self::LostTask { .. } => true,
            _ => false,
        }
    }

    /// How long the server asks to wait before the request is sent again, in milliseconds: its `Retry-After`, or `retryAfterMs` in the data of its error.
    pub fn retry_after(&self) -> Option<Millis> {
        let in_data = |failure: &RpcFailure| {
            let data: RetryData = serde_json::from_str(failure.data.as_ref()?.as_str()).ok()?;
            data.retry_after_ms
        };
        match self {
            Self::Http { retry_after, .. } => *retry_after,
            Self::Unavailable {
                retry_after, failure, ..
            } => in_data(failure).or(*retry_after),
            Self::Rpc(failure) => in_data(failure),
            _ => None,
        }
    }
}

/// The data of an error of a server that is busy.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryData {
    retry_after_ms: Option<Millis>,
}

/// A connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be used.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The server did not answer, or is not an MCP server.
    #[error(transparent)]
    Request(#[from] RequestError),
}

pub(crate) const INVALID_PARAMS: i32 = -32602;

/// Whether a server that answers a call with this code has not started it: the message, its method, its parameters or its headers are not accepted, or the
/// server is busy.
fn is_refusal_code(code: i32) -> bool {
    matches!(code, -32022..=-32020 | PAGES_REQUIRED | LIMIT_REACHED) || is_json_rpc_code(code)
}

/// Whether it is the code of a request that a server cannot read, or whose method or parameters it does not take (JSON-RPC 2.0, 5.1).
pub(crate) fn is_json_rpc_code(code: i32) -> bool {
    matches!(code, -32700 | -32602..=-32600)
}

/// The code of a legacy server that refuses a call until the user has been to a page.
pub(crate) const PAGES_REQUIRED: i32 = -32042;

/// Longhaul's code for a limit that was reached, outside the ranges that the protocol reserves.
const LIMIT_REACHED: i32 = 429;

/// Whether a request with this status may succeed later.
pub(crate) fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

fn describe_stderr(stderr: Option<&str>) -> String {
    match stderr {
        None => String::new(),
        Some(stderr) => format!("; its last words on standard error: {stderr}"),
    }
}

fn describe_body(body: &str) -> String {
    match body.is_empty() {
        true => String::new(),
        false => format!(": {body}"),
    }
}

/// The first question, with its key, and how many there are; or what is known instead.
fn describe_questions(questions: &[InputRequest], status: Option<&str>) -> String {
    let Some(first) = questions.first() else {
        return match status {
            Some(status) => format!("for input ({:?})", excerpt(status)),
            None => "for input".to_owned(),
        };
    };
    let key = excerpt(first.key.as_deref().unwrap_or_default());
    let asked = match first.message() {
        "" => excerpt(&first.method),
        message => excerpt(message),
    };
    let others = match questions.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    format!("{asked:?} (key {key:?}){others}")
}

/// Cuts a server's text to a length that fits an error message.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}
