//! Jobs that run on another server: how their states are read, and how one is followed to its end and cancelled.

mod cancel;
mod follow;
pub(crate) mod states;

pub(crate) use follow::follow;

use longhaul_core::{BoxFuture, Json, Millis, StopReason};
use longhaul_runtime::{ExecutionEnd, Ports, TaskContext};

/// What came of asking about a job.
pub(crate) enum JobAnswer<T> {
    /// This.
    Known(T),
    /// It was refused. That is the end of the task if it happens too often in a row.
    Refused(ExecutionEnd),
    /// This task is to stop.
    Stopped(StopReason),
    /// The server cannot be asked now, for this reason, and perhaps says when to ask again, in milliseconds.
    Away { why: String, retry_after: Option<Millis> },
}

impl<T> JobAnswer<T> {
    /// What is known, made into something else.
    pub(crate) fn and_then<U>(self, next: impl FnOnce(T) -> JobAnswer<U>) -> JobAnswer<U> {
        match self {
            Self::Known(known) => next(known),
            Self::Refused(end) => JobAnswer::Refused(end),
            Self::Stopped(reason) => JobAnswer::Stopped(reason),
            Self::Away { why, retry_after } => JobAnswer::Away { why, retry_after },
        }
    }
}

/// Where a job is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobPhase {
    Running,
    Done,
    Failed,
}

/// What a server says of a job.
pub(crate) struct JobStatus {
    pub(crate) phase: JobPhase,
    /// The state in its own words.
    pub(crate) state: String,
    /// The status message of its task.
    pub(crate) message: String,
    pub(crate) progress: Option<(f64, Option<f64>)>,
    /// The whole answer.
    pub(crate) answer: Json,
    /// The shortest pause before the server wants to be asked again, in milliseconds.
    pub(crate) retry_after: Option<Millis>,
}

/// Why a job is not known to be cancelled.
pub(crate) struct NotCancelled {
    pub(crate) why: String,
    /// Whether another request may have more success.
    pub(crate) is_transient: bool,
}

impl From<String> for NotCancelled {
    fn from(why: String) -> Self {
        Self {
            why,
            is_transient: false,
        }
    }
}

/// A job that was submitted.
pub(crate) trait RemoteJob: Send + Sync + 'static {
    /// The server, for people.
    fn server(&self) -> String;

    /// The job, for people.
    fn shown(&self) -> String;

    fn ports(&self) -> &Ports;

    /// The pause between two questions for the state, in milliseconds.
    fn poll(&self) -> Millis;

    /// Asks for the state.
    fn status<'a>(&'a self, cx: &'a TaskContext) -> BoxFuture<'a, JobAnswer<JobStatus>>;

    /// The end of a job that is done.
    fn result<'a>(&'a self, status: JobStatus, cx: &'a TaskContext) -> BoxFuture<'a, JobAnswer<ExecutionEnd>>;

    /// The end of a job that has failed.
    fn failure(&self, status: &JobStatus) -> ExecutionEnd;

    /// Why nobody can cancel it, if that is so.
    fn cannot_cancel(&self) -> Option<String>;

    /// Cancels it, once.
    fn cancel<'a>(&'a self, cx: &'a TaskContext) -> BoxFuture<'a, Result<(), NotCancelled>>;
}
