//! Why one try of a step failed, and whether another one makes sense.

use crate::{Error, error::AnyError};
use longhaul_runtime::StepFailure;
use std::fmt;

/// Why a try of a step, or a look of [`poll_until`](crate::TaskContext::poll_until), failed. Any error becomes one by `?`, as does a text, and is
/// then worth another try; wrapped in [`Final`] it is not.
///
/// ```
/// use longhaul::{Final, StepFault};
/// async fn charge(cents: u64) -> Result<String, StepFault> {
///     let answer = std::fs::read_to_string("answer")?; // worth another try
///     match answer.as_str() {
///         "busy" => Err(StepFault::new("the bank is busy")), // this too
///         "no card" => Err(Final("there is no card").into()), // this not
///         id => Ok(id.parse().map_err(Final)?), // and neither is this
///     }
/// }
/// ```
///
/// Like other types that take in every error, it does not implement [`std::error::Error`] itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFault {
    message: String,
    retriable: bool,
}

/// An error after which there is no point in trying again: `?` makes a [`StepFault`] of it. Also of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Final<E>(pub E);

impl StepFault {
    /// A failure that another try may mend, in words that the client may read.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retriable: true,
        }
    }

    /// A failure that no other try would mend.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retriable: false,
        }
    }

    /// Whether another try may do better.
    pub fn is_retriable(&self) -> bool {
        self.retriable
    }
}

impl fmt::Display for StepFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Worth another try: any error, a boxed one, or a text.
impl<E: Into<AnyError>> From<E> for StepFault {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut behind = error.source();
        while let Some(cause) = behind {
            tracing::warn!(%error, %cause, "a step failed");
            behind = cause.source();
        }
        Self::new(error.to_string())
    }
}

impl<E: fmt::Display> From<Final<E>> for StepFault {
    fn from(Final(error): Final<E>) -> Self {
        Self::fatal(error.to_string())
    }
}

impl From<Error> for StepFault {
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<StepFault> for StepFailure {
    fn from(fault: StepFault) -> Self {
        Self {
            message: fault.message,
            retriable: fault.retriable,
        }
    }
}
