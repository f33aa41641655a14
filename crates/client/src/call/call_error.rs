//! Why a call has no outcome.

use crate::{JournalError, RequestError, TaskHandle, error::excerpt};

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
    #[error("{}", name_task(.task, .error))]
    Task {
        /// The server's id of it.
        task: String,
        /// Why it is not waited for any more.
        error: RequestError,
    },
    /// There is no task that could be answered.
    #[error("the call has no task that asks")]
    AsksNothing,
    /// The call was cancelled before it was sent, or while the server waited for the answer to a question. So the server runs nothing of it any more.
    #[error("the call was cancelled before it had an answer")]
    Cancelled,
    /// The call was cancelled, and the server has neither answered nor named a task since. So nobody knows whether the tool has run, or runs on. A journal has the call
    /// as of [unknown outcome](crate::CallState::Unknown).
    #[error(
        "the call was cancelled, and the server has not answered since, so its outcome is unknown: {}",
        describe_unknown(.idempotency_key.as_deref())
    )]
    OutcomeUnknown {
        /// The key that it was sent with. Under it the server goes on with the call, and [the same call](crate::CallOptions::idempotency_key) gets its result.
        idempotency_key: Option<String>,
    },
}

impl CallError {
    /// Waiting for the task has failed.
    pub(crate) fn of_task(task: &TaskHandle, error: RequestError) -> Self {
        Self::Task {
            task: task.id().to_owned(),
            error,
        }
    }
}

/// The error of a task, with the task.
fn name_task(task: &str, error: &RequestError) -> String {
    let (task, error) = (excerpt(task), error.to_string());
    match error.contains(&*task) {
        true => error,
        false => format!("task {task}: {error}"),
    }
}

fn describe_unknown(key: Option<&str>) -> String {
    match key {
        Some(key) => {
            format!("it may go on there, and the same call with the idempotency key {key:?} gets its result")
        }
        None => "it may have run, and was not sent again".to_owned(),
    }
}
