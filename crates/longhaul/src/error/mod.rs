//! The errors of handlers, and the errors that become one.

mod ask;
mod call;
mod definition;

pub use ask::AskError;
pub use call::CallError;
pub use definition::{ChangeError, DefinitionError, DefinitionErrors};

use longhaul_core::{Json, RpcFailure, StopReason};
use longhaul_runtime::{HandlerError, JournalError};
use serde::Serialize;
use std::fmt;

/// What clients read instead of internal details.
const INTERNAL_ERROR: &str = "Internal error; the server's log has the details";

/// The error of a handler.
///
/// Any error becomes one by `?`, and so does a text. The client reads its `Display` text; its sources go to the server's log only. A tool's error
/// is a result with `isError`, which the model can act on; the error of a prompt or a resource is a JSON-RPC error.
///
/// Like `anyhow::Error` it does not implement [`std::error::Error`].
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
pub struct Error(pub(crate) ErrorKind);

pub(crate) enum ErrorKind {
    /// The author's text.
    Text(String),
    /// A JSON-RPC error.
    Rpc(RpcFailure),
    /// There is no such resource.
    NotFound,
    /// A question failed.
    Ask(AskError),
    /// The task is to stop.
    Stopped(StopReason),
    /// The journal failed.
    Journal(JournalError),
}

impl Error {
    /// An error with a text for the client and its model. Say what to do instead.
    pub fn new(text: impl Into<String>) -> Self {
        Self(ErrorKind::Text(text.into()))
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
        Self(ErrorKind::Text(INTERNAL_ERROR.to_owned()))
    }

    /// A JSON-RPC error with a code of your own, or one of JSON-RPC's (−32600 to −32603), for programs rather than models. The other codes from −32768 to −32000
    /// are those of MCP, and a server may send none of them by itself: one of them is logged as a mistake and sent as −32603. For bad arguments see
    /// [`invalid_params`](Self::invalid_params), and [`method_not_found`](Self::method_not_found) in a function for unknown methods.
    ///
    /// ```
    /// use longhaul::Error;
    /// use serde_json::json;
    /// async fn build(branch: String) -> Result<String, Error> {
    ///     Err(Error::rpc(1, format!("branch {branch:?} is locked")).with_data(json!({"branch": branch})))
    /// }
    /// ```
    pub fn rpc(code: i32, message: impl Into<String>) -> Self {
        let code = match code {
            -32603..=-32600 => code,
            -32768..=-32000 => {
                tracing::error!(
                    code,
                    "the error code is one of MCP's; choose one outside of -32768..=-32000"
                );
                -32603
            }
            code => code,
        };
        Self::failure(code, message.into())
    }

    /// JSON-RPC error −32601: there is no such method.
    pub fn method_not_found() -> Self {
        Self::failure(-32601, "Method not found".to_owned())
    }

    /// JSON-RPC error −32602: the request's parameters are wrong.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::failure(-32602, message.into())
    }

    /// JSON-RPC error −32603: the server is at fault. The client reads the message.
    pub fn server_fault(message: impl Into<String>) -> Self {
        Self::failure(-32603, message.into())
    }

    /// There is no such resource: for a resource template, if the URI names nothing.
    pub fn not_found() -> Self {
        Self(ErrorKind::NotFound)
    }

    /// With `data` for programs, if it is a JSON-RPC error (an example is at [`rpc`](Self::rpc)); others have none. Data that cannot be written as
    /// JSON is left out.
    #[must_use]
    pub fn with_data(mut self, data: impl Serialize) -> Self {
        if let ErrorKind::Rpc(failure) = &mut self.0 {
            failure.data = serde_json::to_value(data).ok().map(Json::from);
        }
        self
    }

    fn failure(code: i32, message: String) -> Self {
        Self(ErrorKind::Rpc(RpcFailure {
            code,
            message: message.into(),
            data: None,
        }))
    }
}

/// Any error, a boxed one, or a text.
impl<E: Into<AnyError>> From<E> for Error {
    fn from(error: E) -> Self {
        // The protocol and the runtime treat some errors specially.
        let error = match ErrorKind::of(error.into()) {
            Ok(kind) => return Self(kind),
            Err(error) => error,
        };
        let mut source = error.source();
        while let Some(cause) = source {
            tracing::warn!(%error, %cause, "a handler failed");
            source = cause.source();
        }
        Self(ErrorKind::Text(error.to_string()))
    }
}

pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

impl ErrorKind {
    /// The kind of an error that is more than a text; or the error itself.
    fn of(error: AnyError) -> Result<Self, AnyError> {
        if let Some(journal) = journal_error(&*error) {
            return Ok(match journal.clone() {
                JournalError::Stopped(reason) => Self::Stopped(reason),
                other => Self::Journal(other),
            });
        }
        match *error.downcast::<AskError>()? {
            AskError::Stopped(reason) => Ok(Self::Stopped(reason)),
            other => Ok(Self::Ask(other)),
        }
    }
}

/// The journal's error inside an error of an operation.
fn journal_error<'e>(error: &'e (dyn std::error::Error + Send + Sync + 'static)) -> Option<&'e JournalError> {
    match (error.downcast_ref::<CallError>(), error.downcast_ref::<AskError>()) {
        (Some(CallError::Journal(error)), _) | (_, Some(AskError::Journal(error))) => Some(error),
        _ => error.downcast_ref(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ErrorKind::Text(text) => f.write_str(text),
            ErrorKind::Rpc(failure) => write!(f, "{} ({})", failure.message, failure.code),
            ErrorKind::NotFound => f.write_str("not found"),
            ErrorKind::Ask(error) => error.fmt(f),
            ErrorKind::Stopped(_) => f.write_str("the task is to stop"),
            ErrorKind::Journal(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

/// The error as the runtime sends it for a prompt, a resource or a method.
impl From<Error> for HandlerError {
    fn from(error: Error) -> Self {
        let rpc = |message: String| {
            Self::Rpc(RpcFailure {
                code: -32603,
                message: message.into(),
                data: None,
            })
        };
        match error.0 {
            ErrorKind::Text(text) => rpc(text),
            ErrorKind::Rpc(failure) => Self::Rpc(failure),
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Ask(AskError::Unsupported(capability)) => Self::Lacks(capability),
            ErrorKind::Ask(other) => rpc(other.to_string()),
            ErrorKind::Stopped(_) => rpc("the task is to stop".to_owned()),
            ErrorKind::Journal(error) => rpc(error.to_string()),
        }
    }
}
