//! What a tool can do while it runs.

use super::RequestContext;
use crate::{AskError, ServerHandle};
use longhaul_core::{StopReason, TaskId};
use std::{
    future::{IntoFuture, Ready, ready},
    ops::Deref,
};

/// A tool's door to its call: all of [`RequestContext`], and what only work has that may outlive its request. Cheap to clone.
///
/// Whether the call has become a task makes no difference to the tool.
#[derive(Clone)]
pub struct TaskContext {
    request: RequestContext,
    task: longhaul_runtime::TaskContext,
}

impl Deref for TaskContext {
    type Target = RequestContext;

    fn deref(&self) -> &RequestContext {
        &self.request
    }
}

impl TaskContext {
    pub(crate) fn new(task: longhaul_runtime::TaskContext, server: ServerHandle) -> Self {
        Self {
            request: RequestContext::of_task(task.clone(), server),
            task,
        }
    }

    /// What is below: the attempt's door in the runtime.
    pub(crate) fn journal(&self) -> &longhaul_runtime::TaskContext {
        &self.task
    }

    /// As this one, for a branch of the function.
    pub(crate) fn branch(&self, branch: longhaul_runtime::TaskContext) -> Self {
        Self::new(branch, self.server().clone())
    }

    /// The id of the call, the same in every attempt; that of the task if it has become one.
    pub fn task_id(&self) -> &TaskId {
        self.task.task()
    }

    /// A line for people, of which 1 KiB is kept: the latest one is the task's status message. Kept at most twice a second, so say what
    /// you like.
    /// A durable tool that is run again is not heard until it comes to something new.
    pub fn status(&self, line: impl AsRef<str>) -> Checkpoint {
        self.task.status(line.as_ref());
        Checkpoint::of(self.task.stop_requested())
    }

    /// Says that there will be nothing to say for a while: a legacy client's stream may be closed until then (T-06).
    pub fn quiet(&self) -> Checkpoint {
        self.task.quiet();
        Checkpoint::of(self.task.stop_requested())
    }

    /// Whether the work is asked to stop: it was cancelled, its deadline has passed, or its caller has gone.
    pub fn is_cancelled(&self) -> bool {
        self.task.stop_requested().is_some()
    }

    /// Completes when the work is asked to stop, with the error to leave by: the tool has 10 s to clean up, then its future is dropped.
    ///
    /// ```
    /// use longhaul::{Error, TaskContext};
    /// async fn watch(cx: TaskContext) -> Result<String, Error> {
    ///     tokio::select! {
    ///         line = next_line() => Ok(line),
    ///         stopped = cx.cancelled() => Err(stopped.into()),
    ///     }
    /// }
    /// # async fn next_line() -> String { String::new() }
    /// ```
    pub async fn cancelled(&self) -> AskError {
        AskError::Stopped(self.task.stopped().await)
    }
}

/// What reports return: a place to stop at, for those who want one. What was said is said already; awaiting this only tells whether the
/// work is asked to stop.
///
/// ```
/// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
/// cx.progress(1, 2); // said
/// cx.progress(2, 2).await?; // said, and the tool ends here if its call was cancelled
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint(Option<StopReason>);

impl Checkpoint {
    pub(super) fn of(stop: Option<StopReason>) -> Self {
        Self(stop)
    }
}

impl IntoFuture for Checkpoint {
    type Output = Result<(), AskError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(match self.0 {
            None => Ok(()),
            Some(reason) => Err(AskError::Stopped(reason)),
        })
    }
}
