//! The error of calls of other tools.

use longhaul_core::TaskId;
use longhaul_runtime::JournalError;
use std::sync::Arc;

/// A call has no result. `?` ends the tool with it: the client reads which call it was, and why.
///
/// ```
/// use longhaul::{CallError, TaskContext, ToolResult};
/// async fn release(cx: TaskContext) -> ToolResult<String> {
///     match cx.call("smoke_tests", ()).await {
///         Ok(report) => Ok(report.text()),
///         Err(CallError::Failed { why, .. }) => Ok(format!("Not released: {why}")),
///         // It could not be called, was cancelled, or this task is to stop.
///         Err(error) => Err(error.into()),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The call could not be made.
    #[error("the tool {tool:?} could not be called: {why}")]
    Refused {
        /// The tool.
        tool: Arc<str>,
        /// Why not.
        why: Arc<str>,
    },
    /// The tool failed.
    #[error("the tool {tool:?} failed: {why}")]
    Failed {
        /// The tool.
        tool: Arc<str>,
        /// The call's task.
        task_id: TaskId,
        /// The tool's error text, or the server's about it.
        why: String,
    },
    /// The child task was cancelled by a client or an operator.
    #[error("the call of the tool {tool:?} was cancelled")]
    Cancelled {
        /// The tool.
        tool: Arc<str>,
        /// The call's task.
        task_id: TaskId,
    },
    /// The journal failed, or the task is to stop.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
