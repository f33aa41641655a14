//! What a handler knows about its caller, whether its work is a task or not.

use crate::{AskError, Ports, Question, RequestContext, Requestor, TaskContext};
use longhaul_core::{Json, LogLevel, Principal, StopReason};
use std::sync::Arc;

/// The context of a request, or that of a task, which may outlive its request. Cheap to clone.
#[derive(Clone)]
pub enum HandlerContext {
    /// Of a request that is answered on its connection.
    Request(RequestContext),
    /// Of a task.
    Task(TaskContext),
}

impl HandlerContext {
    /// What is known about the client.
    pub fn requestor(&self) -> &Arc<Requestor> {
        match self {
            Self::Request(cx) => cx.requestor(),
            Self::Task(cx) => cx.requestor(),
        }
    }

    /// Who sent the request.
    pub fn principal(&self) -> &Principal {
        match self {
            Self::Request(cx) => cx.principal(),
            Self::Task(cx) => cx.principal(),
        }
    }

    /// Time, randomness, concurrency.
    pub fn ports(&self) -> &Ports {
        match self {
            Self::Request(cx) => cx.ports(),
            Self::Task(cx) => cx.ports(),
        }
    }

    /// Asks the client a question and waits for the answer: see [`RequestContext::ask`] and [`TaskContext::ask`].
    ///
    /// # Errors
    /// [`AskError`] if the client cannot be asked this, or there is no answer.
    pub async fn ask(&self, question: Question) -> Result<Json, AskError> {
        match self {
            Self::Request(cx) => cx.ask(question).await,
            Self::Task(cx) => cx.ask(question).await,
        }
    }

    /// Reports progress. NaN and infinities are ignored.
    pub fn report(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        match self {
            Self::Request(cx) => cx.progress(current, total, message),
            Self::Task(cx) => cx.report(current, total, message),
        }
    }

    /// Sends a log message to the client, if it wants those.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: Json) {
        match self {
            Self::Request(cx) => cx.log(level, logger, data),
            Self::Task(cx) => cx.log(level, logger, data),
        }
    }

    /// Reports that the user has finished with a page that a question sent them to: see [`RequestContext::elicitation_complete`].
    pub fn elicitation_complete(&self, id: &Arc<str>) {
        match self {
            Self::Request(cx) => cx.elicitation_complete(id),
            Self::Task(cx) => cx.elicitation_complete(id),
        }
    }

    /// Why the task is to stop, if it is. Never for a request: if its client has gone, its handler is dropped.
    pub fn stop_requested(&self) -> Option<StopReason> {
        match self {
            Self::Request(_) => None,
            Self::Task(cx) => cx.stop_requested(),
        }
    }

    /// Completes when the task is to stop; never for a request.
    pub async fn stopped(&self) -> StopReason {
        match self {
            Self::Request(_) => std::future::pending().await,
            Self::Task(cx) => cx.stopped().await,
        }
    }
}
