//! The words of `--json` for the causes of failures, where more than one module needs them.

/// There is no connection to the server.
pub(crate) const UNREACHABLE: &str = "unreachable";
/// A result does not fit the output schema of its tool.
pub(crate) const INVALID_OUTPUT: &str = "invalid_output";
/// A task has failed without a result.
pub(crate) const FAILED: &str = "failed";
/// The server does not know the task any more, and its result was not fetched.
pub(crate) const LOST: &str = "lost";
/// What was asked has no answer.
pub(crate) const UNANSWERED: &str = "unanswered";
/// A call may have run, and there is no answer.
pub(crate) const OUTCOME_UNKNOWN: &str = "outcome_unknown";
