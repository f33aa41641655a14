//! Why a call has no outcome.

use crate::{JournalError, RequestError};

/// A call was not sent, or has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server has no such tool. Nothing was sent.
    #[error("the server has no tool `{tool}`")]
    NoSuchTool {
        /// Its name.
        tool: String,
    },
    /// The arguments are no JSON object. Nothing was sent.
    #[error("the arguments of a tool must be a JSON object, and these are {found}")]
    InvalidArguments {
        /// What they are.
        found: &'static str,
    },
    /// The server does not take idempotency keys, so it would ignore the one in [`CallOptions`](crate::CallOptions). Nothing was sent.
    #[error("this server does not declare idempotency keys, so it would ignore the key")]
    NoIdempotencyKeys,
    /// The call could not be recorded. Nothing was sent.
    #[error("the call is not recorded, and was not sent: {0}")]
    Journal(#[from] JournalError),
    /// The call was not sent, or was not answered with a result or a task. It may have run, unless [`RequestError::is_refusal`] says that it has not.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The server has made the call a task, and waiting for that has failed. The tool may have run, and may run on, whatever the error says of the request that
    /// has failed: do not make the call again. With a journal [`Client::tasks`](crate::Client::tasks) returns the task, unless it is lost.
    #[error("{error}")]
    Task {
        /// The server's id of it.
        task: String,
        /// Why it is not waited for any more.
        error: RequestError,
    },
    /// There is no task that could be answered.
    #[error("the call has no task that asks")]
    AsksNothing,
    /// The call was cancelled before the server had answered.
    #[error("the call was cancelled before the server had answered")]
    Cancelled,
}
