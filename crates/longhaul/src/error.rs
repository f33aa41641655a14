//! What a handler fails with: what the client reads, and what only the log says.

use crate::{AskError, CallError};
use longhaul_core::{Json, RpcFailure, StopReason};
use longhaul_runtime::{AskError as Unasked, JournalError};
use serde::Serialize;
use std::fmt;

/// What clients read of an error whose details are not for them.
const HIDDEN: &str = "The server failed inside; its log says why";

/// Why a handler could not do what it was asked to.
///
/// Any error becomes one by `?`, and so does a text: the client reads its own text, and the errors behind it (`source`) go to the server's log. From a tool
/// it is a result with `isError`, which the model can act on; from a prompt or a resource it is a JSON-RPC error.
///
/// Like other types that take in every error, it does not implement [`std::error::Error`] itself.
///
/// ```
/// use longhaul::{Error, TaskContext};
/// async fn count(path: String) -> Result<String, Error> {
///     let text = std::fs::read_to_string(&path)?;
///     if text.is_empty() {
///         return Err(Error::new("The file is empty: name one that has lines"));
///     }
///     Ok(format!("{} lines", text.lines().count()))
/// }
/// ```
pub struct Error(pub(crate) Fault);

pub(crate) enum Fault {
    /// In the author's words.
    Said(String),
    /// A JSON-RPC error.
    Rpc(RpcFailure),
    /// There is nothing of that name.
    NotFound,
    /// A question that could not be asked, or was not answered.
    Asked(AskError),
    /// The work is asked to stop.
    Stopped(StopReason),
    /// The journal cannot be gone along.
    Journal(JournalError),
}

/// The result of a tool's function; see [`ToolOutput`](crate::ToolOutput) and [`IntoToolOutput`](crate::IntoToolOutput).
pub type ToolResult<T = crate::ToolOutput> = Result<T, Error>;

impl Error {
    /// An error in words that the client, and behind it the model, shall read. Say what would be right.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Fault::Said(text.into()))
    }

    /// An error whose details are for the server's log only.
    ///
    /// ```
    /// # fn connect() -> Result<(), std::io::Error> { Ok(()) }
    /// # fn f() -> Result<(), longhaul::Error> {
    /// connect().map_err(longhaul::Error::internal)?;
    /// # Ok(()) }
    /// ```
    pub fn internal(details: impl fmt::Display) -> Self {
        tracing::error!(%details, "a handler failed");
        Self(Fault::Said(HIDDEN.to_owned()))
    }

    /// A JSON-RPC error of your own, for programs rather than models. −32768..=−32000 belong to the protocol: a code from there is
    /// logged as a mistake and goes out as −32603 (X-15). For bad arguments see [`invalid_params`](Self::invalid_params).
    pub fn rpc(code: i32, message: impl Into<String>) -> Self {
        let code = match code {
            -32768..=-32000 => {
                tracing::error!(code, "error codes -32768..=-32000 are reserved; choose one outside");
                -32603
            }
            free => free,
        };
        Self::failure(code, message.into())
    }

    /// JSON-RPC's −32602: what the client asked for makes no sense.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::failure(-32602, message.into())
    }

    /// JSON-RPC's −32603: it is the server's fault. The message is for the outside.
    pub fn server_fault(message: impl Into<String>) -> Self {
        Self::failure(-32603, message.into())
    }

    /// There is nothing of that name: a resource answers so for a URI it does not know (X-14).
    pub fn not_found() -> Self {
        Self(Fault::NotFound)
    }

    /// With `data` for programs. Only JSON-RPC errors carry any; of others nothing changes. What cannot be written as JSON is left out.
    #[must_use]
    pub fn with_data(mut self, data: impl Serialize) -> Self {
        if let Fault::Rpc(failure) = &mut self.0 {
            failure.data = serde_json::to_value(data).ok().map(Json::from);
        }
        self
    }

    fn failure(code: i32, message: String) -> Self {
        Self(Fault::Rpc(RpcFailure {
            code,
            message: message.into(),
            data: None,
        }))
    }
}

/// One error type for `?`, whatever fails: any error, a boxed one, or a text in the author's words.
impl<E: Into<AnyError>> From<E> for Error {
    fn from(error: E) -> Self {
        // Some are told apart, since they mean something to the protocol or to the runtime.
        let error = match Fault::of(error.into()) {
            Ok(fault) => return Self(fault),
            Err(error) => error,
        };
        let mut behind = error.source();
        while let Some(cause) = behind {
            tracing::warn!(%error, %cause, "a handler failed");
            behind = cause.source();
        }
        Self(Fault::Said(error.to_string()))
    }
}

pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

impl Fault {
    /// What more than a text is to be made of an error; or the error itself.
    fn of(error: AnyError) -> Result<Self, AnyError> {
        if let Some(journal) = journal_error(&*error) {
            return Ok(match journal.clone() {
                JournalError::Stopped(reason) => Self::Stopped(reason),
                other => Self::Journal(other),
            });
        }
        match *error.downcast::<AskError>()? {
            AskError::Stopped(reason) => Ok(Self::Stopped(reason)),
            other => Ok(Self::Asked(other)),
        }
    }
}

/// What is behind an error of an operation of the journal, if it is the journal.
fn journal_error<'e>(error: &'e (dyn std::error::Error + Send + Sync + 'static)) -> Option<&'e JournalError> {
    match (error.downcast_ref::<CallError>(), error.downcast_ref::<AskError>()) {
        (Some(CallError::Journal(error)), _) | (_, Some(AskError::Journal(error))) => Some(error),
        _ => error.downcast_ref(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Fault::Said(text) => f.write_str(text),
            Fault::Rpc(failure) => write!(f, "{} ({})", failure.message, failure.code),
            Fault::NotFound => f.write_str("not found"),
            Fault::Asked(error) => error.fmt(f),
            Fault::Stopped(_) => f.write_str("the work is to stop"),
            Fault::Journal(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

/// What a request's handler answers instead of a result.
impl From<Error> for longhaul_runtime::HandlerError {
    fn from(error: Error) -> Self {
        let rpc = |message: String| {
            Self::Rpc(RpcFailure {
                code: -32603,
                message: message.into(),
                data: None,
            })
        };
        match error.0 {
            Fault::Said(text) => rpc(text),
            Fault::Rpc(failure) => Self::Rpc(failure),
            Fault::NotFound => Self::NotFound,
            Fault::Asked(AskError::Unasked(unasked @ Unasked::Unsupported(_))) => unasked.into(),
            Fault::Asked(other) => rpc(other.to_string()),
            Fault::Stopped(_) => rpc("the work is to stop".to_owned()),
            Fault::Journal(error) => rpc(error.to_string()),
        }
    }
}
