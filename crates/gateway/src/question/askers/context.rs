//! The task or request that is asked.

use longhaul_core::{Json, Principal, SessionKey};
use longhaul_runtime::{AskError, Question, RequestContext, Requestor, TaskContext, ToolMessage};
use std::sync::Arc;

/// The context of what runs.
#[derive(Clone)]
pub(crate) enum Context {
    Task(TaskContext),
    Request(RequestContext),
}

impl Context {
    pub(crate) fn principal(&self) -> &Principal {
        match self {
            Self::Task(cx) => cx.principal(),
            Self::Request(cx) => cx.principal(),
        }
    }

    pub(crate) fn session(&self) -> Option<&SessionKey> {
        match self {
            Self::Task(cx) => cx.session(),
            Self::Request(cx) => cx.session(),
        }
    }

    pub(crate) fn requestor(&self) -> &Arc<Requestor> {
        match self {
            Self::Task(cx) => cx.requestor(),
            Self::Request(cx) => cx.requestor(),
        }
    }

    pub(super) fn send(&self, message: ToolMessage) {
        match self {
            Self::Task(cx) => cx.send(message),
            Self::Request(cx) => cx.send(message),
        }
    }

    pub(super) async fn ask(self, question: Question) -> Result<Json, AskError> {
        match self {
            Self::Task(cx) => cx.ask(question).await,
            Self::Request(cx) => cx.ask(question).await,
        }
    }
}
