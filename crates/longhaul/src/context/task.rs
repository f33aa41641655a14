//! What a tool can do while it runs.

use super::RequestContext;
use crate::{AskError, ServerHandle};
use longhaul_core::{StopReason, TaskId};
use std::{
    future::{IntoFuture, Ready, ready},
    ops::Deref,
};

/// What a tool knows about its call, and what it can do: all of [`RequestContext`], and the journaled operations of [durable](crate::Tool::durable)
/// tools. Cheap to clone. It works the same whether or not the call has become a task.
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

    /// The runtime's context of this attempt.
    pub(crate) fn journal(&self) -> &longhaul_runtime::TaskContext {
        &self.task
    }

    /// The context of a branch of the function.
    pub(crate) fn branch(&self, branch: longhaul_runtime::TaskContext) -> Self {
        Self::new(branch, self.server().clone())
    }

    /// The id of the call: the same in every attempt, and the id of the task if the call has become one.
    pub fn task_id(&self) -> &TaskId {
        self.task.task()
    }

    /// Sets the task's status message, a line for people of at most 1 KiB. It is written at most twice a second, so it may be called often.
    /// Suppressed during replay.
    pub fn status(&self, line: impl AsRef<str>) -> CancellationCheck {
        self.task.status(line.as_ref());
        CancellationCheck::of(self.task.stop_requested())
    }

    /// Closes the stream of a legacy client that waits for this call over HTTP, since nothing will be reported for a while. The client reconnects to read
    /// the rest. Does nothing for other clients.
    pub fn close_stream(&self) -> CancellationCheck {
        self.task.close_stream();
        CancellationCheck::of(self.task.stop_requested())
    }

    /// Whether the task is to stop: it was cancelled, its deadline has passed, or its caller is gone.
    pub fn is_cancelled(&self) -> bool {
        self.task.stop_requested().is_some()
    }

    /// Completes when the task is to stop, with the error to return. The tool has 10 s to clean up, then its future is dropped.
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

/// What [`progress`](RequestContext::progress), [`status`](TaskContext::status) and other reports return. The report has been made already;
/// awaiting this returns an error if the task is to stop.
///
/// ```
/// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
/// cx.progress(1, 2); // reported
/// cx.progress(2, 2).await?; // reported; the tool ends here if its call was cancelled
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct CancellationCheck(Option<StopReason>);

impl CancellationCheck {
    pub(super) fn of(stop: Option<StopReason>) -> Self {
        Self(stop)
    }
}

impl IntoFuture for CancellationCheck {
    type Output = Result<(), AskError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(match self.0 {
            None => Ok(()),
            Some(reason) => Err(AskError::Stopped(reason)),
        })
    }
}
