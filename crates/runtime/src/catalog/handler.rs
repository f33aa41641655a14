//! Handlers that answer a request while it lasts. Work that may outlast its request is a tool's ([`Executor`](crate::Executor)).

use crate::question::{AskError, RequestContext, Requestor};
use longhaul_core::{BoxFuture, Capability, Json, Outcome, RpcFailure};
use std::sync::Arc;

/// A handler could not answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HandlerError {
    /// This error is sent to the client.
    #[error("{}", .0.message)]
    Rpc(RpcFailure),
    /// The client cannot be asked what the handler needs to know.
    #[error("the client has not declared {0}, or this server has no way to ask it")]
    Lacks(Capability),
    /// There is nothing of this name; the server words the error for the client's generation.
    #[error("not found")]
    NotFound,
}

impl HandlerError {
    /// The outcome of a tool call whose intake failed with this.
    pub fn into_outcome(self, requestor: &Requestor) -> Outcome {
        match self {
            Self::Rpc(failure) => Outcome::RpcError(failure),
            Self::Lacks(capability) => requestor.missing_capability(capability),
            Self::NotFound => Outcome::tool_error("not found"),
        }
    }
}

impl From<AskError> for HandlerError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Unsupported(capability) => Self::Lacks(capability),
            other => Self::Rpc(RpcFailure {
                code: -32603,
                message: other.to_string().into(),
                data: None,
            }),
        }
    }
}

/// Asks for missing arguments before a call becomes a task, and returns the arguments that the tool runs with.
///
/// For a modern client it runs again from its start with each round of answers, so it must do nothing but ask. A legacy client
/// that asks for a task gets the task first, and the intake runs at the beginning of each attempt ([`Requestor::asks_first`](crate::Requestor::asks_first)).
pub trait Intake: Send + Sync + 'static {
    /// `arguments` have passed the tool's checks.
    fn take(self: Arc<Self>, arguments: Json, cx: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>>;
}

/// Completes what someone is typing.
pub trait Completer: Send + Sync + 'static {
    /// Values for `argument` that go with what has been typed, `value`, and with the arguments settled so far, `context`, a JSON
    /// object. At most 100 are shown.
    fn complete(
        self: Arc<Self>,
        argument: String,
        value: String,
        context: Json,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Vec<String>, HandlerError>>;
}
