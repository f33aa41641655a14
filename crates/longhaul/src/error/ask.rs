//! The error of questions.

use longhaul_core::{Capability, RpcFailure, StopReason, store::ApplyError};
use longhaul_runtime::{AskError as RuntimeAskError, JournalError};

/// A question could not be asked, or has no answer that the function could use. `?` ends the tool with it: the client reads why.
///
/// ```
/// use longhaul::{AskError, NoArguments, TaskContext, ToolResult, time::minutes};
/// async fn confirm(cx: TaskContext) -> ToolResult<&'static str> {
///     match cx.elicit::<NoArguments>("Ready?").within(minutes(5)).await {
///         Ok(_) => Ok("confirmed"),
///         Err(AskError::Declined | AskError::Dismissed) => Ok("not confirmed"),
///         Err(AskError::Unanswered) => Ok("nobody answered"),
///         Err(other) => Err(other.into()),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The user declined.
    #[error("the user declined")]
    Declined,
    /// The user dismissed the question without an answer.
    #[error("the user dismissed the question")]
    Dismissed,
    /// No answer came within the time given; the question was withdrawn.
    #[error("{}", RuntimeAskError::Unanswered)]
    Unanswered,
    /// The client has not declared the capability that this question needs, or the server has no way to ask it: a client older than MCP 2026-07-28 is asked on
    /// the streams of a session.
    #[error("{}", RuntimeAskError::Unsupported(*.0))]
    Unsupported(Capability),
    /// The task was started by another task: the client does not know this one, only its root.
    #[error("{}", RuntimeAskError::Child)]
    Child,
    /// The client answered with an error.
    #[error("{}", RuntimeAskError::Refused(.0.clone()))]
    Refused(RpcFailure),
    /// The question was withdrawn: the task is over, or the client cannot be reached any more.
    #[error("{}", RuntimeAskError::Withdrawn)]
    Withdrawn,
    /// The question is invalid: a mistake in the handler.
    #[error("the question cannot be asked: {0}")]
    Invalid(String),
    /// No answer fitted the question; the text says what was wrong with the last one.
    #[error("the answers could not be used: {0}")]
    Unusable(String),
    /// The task is to stop.
    #[error("{}", RuntimeAskError::Stopped(*.0))]
    Stopped(StopReason),
    /// A non-determinism error, or the journal is full.
    #[error(transparent)]
    Journal(JournalError),
    /// The task could not be changed, or the store failed.
    #[error(transparent)]
    Task(ApplyError),
}

impl From<RuntimeAskError> for AskError {
    fn from(error: RuntimeAskError) -> Self {
        match error {
            RuntimeAskError::Unsupported(capability) => Self::Unsupported(capability),
            RuntimeAskError::Child => Self::Child,
            RuntimeAskError::Stopped(reason) => Self::Stopped(reason),
            RuntimeAskError::Withdrawn => Self::Withdrawn,
            RuntimeAskError::Unanswered => Self::Unanswered,
            RuntimeAskError::Refused(failure) => Self::Refused(failure),
            RuntimeAskError::Journal(error) => Self::Journal(error),
            RuntimeAskError::Task(error) => Self::Task(error),
        }
    }
}

/// Lets a branch that asks and one that sleeps have one error type.
impl From<JournalError> for AskError {
    fn from(error: JournalError) -> Self {
        RuntimeAskError::from(error).into()
    }
}
