//! Why a step failed.

use crate::{Error, error::AnyError};
use longhaul_core::Json;
use longhaul_runtime::{
    FailedStepAttempt, FailedStepAttempts, JournalError, StepError as RuntimeStepError, StepFailure,
};
use serde::de::DeserializeOwned;
use std::{fmt, sync::Arc};

/// Why a [`step`](crate::TaskContext::step) or a [`poll_until`](crate::TaskContext::poll_until) failed: the error that its work returns, and
/// the error of the step itself once it has failed for good.
///
/// **In the work of a step** any error becomes one by `?`, and so does a text. It is then worth another attempt, if
/// [`max_attempts`](crate::Step::max_attempts) allows one; wrapped in [`NonRetryable`] it is not.
///
/// ```
/// use longhaul::{NonRetryable, StepError};
/// async fn charge(cents: u64) -> Result<u64, StepError> {
///     if cents == 0 {
///         return Err(NonRetryable("there is nothing to charge").into());
///     }
///     let answer = std::fs::read_to_string("answer")?; // worth another attempt
///     match answer.as_str() {
///         "busy" => Err("the bank is busy".into()), // this too
///         id => Ok(id.parse().map_err(NonRetryable)?), // this is not
///     }
/// }
/// ```
///
/// **From a step** it says which step failed, how often it was attempted and why each attempt failed. It is recorded: the function is given
/// the same error each time it is replayed. `?` ends the tool with it.
///
/// ```
/// use longhaul::{StepError, TaskContext, ToolResult};
/// async fn notify(cx: TaskContext) -> ToolResult<&'static str> {
///     let sent = cx.step("send", async || Err::<(), StepError>("the mailbox is full".into())).await;
///     match sent {
///         Ok(()) => Ok("sent"),
///         // The task is to stop, or its code no longer fits its journal: return that.
///         Err(error) if error.journal().is_some() => Err(error.into()),
///         Err(error) => {
///             cx.status(format!("not sent after {} attempts: {}", error.attempts(), error.message()));
///             Ok("not sent")
///         }
///     }
/// }
/// # longhaul::Tool::durable("notify", notify);
/// ```
///
/// Like [`Error`] and other types that take in every error, it does not implement [`std::error::Error`].
#[derive(Debug, Clone, PartialEq)]
pub struct StepError(Cause);

/// An error after which another attempt makes no sense. `?` and `into` make a [`StepError`] of it; it may also hold a text.
///
/// ```
/// use longhaul::{NonRetryable, StepError};
/// let error = StepError::from(NonRetryable("there is no such card"));
/// assert!(!error.is_retryable());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonRetryable<E>(pub E);

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Step,
    Poll,
}

#[derive(Debug, Clone, PartialEq)]
enum Cause {
    /// One attempt, as its work says.
    Attempt {
        message: String,
        retryable: bool,
    },
    /// The step, after all its attempts.
    Step(Operation, Arc<str>, FailedStepAttempts),
    /// The recorded result does not fit the type that the code has now.
    Unreadable(Operation, Arc<str>, String),
    Journal(Arc<str>, JournalError),
}

impl StepError {
    /// An error after which another attempt may succeed. Clients may read the text.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Cause::Attempt {
            message: message.into(),
            retryable: true,
        })
    }

    /// An error after which another attempt makes no sense; see [`NonRetryable`] for one that holds another error.
    pub fn non_retryable(message: impl Into<String>) -> Self {
        Self(Cause::Attempt {
            message: message.into(),
            retryable: false,
        })
    }

    /// Reads the recorded result of a step as the author's type.
    pub(super) fn read<T: DeserializeOwned>(
        operation: Operation,
        name: &Arc<str>,
        recorded: Result<Json, RuntimeStepError>,
    ) -> Result<T, Self> {
        let name = || Arc::clone(name);
        recorded
            .map_err(|error| match error {
                RuntimeStepError::Failed(trail) => Cause::Step(operation, name(), trail),
                RuntimeStepError::Journal(error) => Cause::Journal(name(), error),
            })
            .and_then(|value| {
                serde_json::from_str(value.as_str())
                    .map_err(|error| Cause::Unreadable(operation, name(), error.to_string()))
            })
            .map_err(Self)
    }

    /// Whether another attempt may succeed. A step that has failed for good is not retryable.
    pub fn is_retryable(&self) -> bool {
        matches!(self.0, Cause::Attempt { retryable: true, .. })
    }

    /// The name of the step that failed; `None` for an error that no step has returned yet.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Cause::Attempt { .. } => None,
            Cause::Step(_, name, _) | Cause::Unreadable(_, name, _) | Cause::Journal(name, _) => Some(name),
        }
    }

    /// How often the step was attempted; 0 if it is not the step that failed. Of a `poll_until` only the polls since the last one that
    /// succeeded count.
    pub fn attempts(&self) -> u32 {
        match &self.0 {
            Cause::Step(_, _, trail) => trail.tries,
            _ => 0,
        }
    }

    /// When and why the last 20 of its attempts failed, oldest first; empty if it is not the step that failed.
    ///
    /// ```
    /// use longhaul::StepError;
    /// fn summary(error: &StepError) -> String {
    ///     let reasons = error.failures().iter().map(|failed| failed.why.to_string());
    ///     format!("{} attempts: {}", error.attempts(), reasons.collect::<Vec<_>>().join("; "))
    /// }
    /// ```
    pub fn failures(&self) -> &[FailedStepAttempt] {
        match &self.0 {
            Cause::Step(_, _, trail) => &trail.last,
            _ => &[],
        }
    }

    /// Why the last attempt failed, or what else was wrong.
    pub fn message(&self) -> String {
        match &self.0 {
            Cause::Attempt { message, .. } => message.clone(),
            Cause::Step(_, _, trail) => trail.to_string(),
            Cause::Unreadable(_, _, why) => why.clone(),
            Cause::Journal(_, error) => error.to_string(),
        }
    }

    /// The journal's error, if it is not the step that failed: for example, the task is to stop. A tool should return it.
    pub fn journal(&self) -> Option<&JournalError> {
        match &self.0 {
            Cause::Journal(_, error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Step => "step",
            Self::Poll => "polling",
        })
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Attempt { message, .. } => f.write_str(message),
            Cause::Step(operation, name, trail) => {
                write!(f, "{operation} {name:?} failed")?;
                if trail.tries > 1 {
                    write!(f, " {} times, the last time", trail.tries)?;
                }
                write!(f, ": {trail}")
            }
            Cause::Unreadable(operation, name, why) => write!(
                f,
                "the recorded result of {operation} {name:?} cannot be read as the type that the code has now: {why}"
            ),
            Cause::Journal(_, error) => error.fmt(f),
        }
    }
}

/// Worth another attempt: any error, a boxed one, or a text.
impl<E: Into<AnyError>> From<E> for StepError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut source = error.source();
        while let Some(cause) = source {
            tracing::warn!(%error, %cause, "a step failed");
            source = cause.source();
        }
        Self::new(error.to_string())
    }
}

impl<E: fmt::Display> From<NonRetryable<E>> for StepError {
    fn from(NonRetryable(error): NonRetryable<E>) -> Self {
        Self::non_retryable(error.to_string())
    }
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<StepError> for Error {
    fn from(error: StepError) -> Self {
        match error.0 {
            Cause::Journal(_, error) => error.into(),
            _ => Self::new(error.to_string()),
        }
    }
}

/// What the runtime records of a failed attempt.
impl From<StepError> for StepFailure {
    fn from(error: StepError) -> Self {
        Self {
            message: error.to_string(),
            retriable: error.is_retryable(),
        }
    }
}
