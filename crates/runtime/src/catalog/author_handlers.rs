//! What a server's author answers below tools, prompts and resources: every call of a tool, requests of unknown methods, notifications.

use super::HandlerError;
use crate::question::RequestContext;
use longhaul_core::{BoxFuture, Json};
use std::{collections::HashMap, sync::Arc};

/// A `tools/call` as it came.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The params, an object with a `name`. If it has `arguments`, they are an object.
    pub params: Json,
    /// Whether its client can be answered with a task: it asks for one (legacy), or has declared that it takes them (modern).
    pub takes_task: bool,
}

/// The answer to a [`CallRequest`].
#[derive(Debug, Clone)]
pub enum CallAnswer {
    /// This result, an object. It is no task, and nothing of it is stored.
    Result(Json),
    /// Whatever a call of this tool of the catalog is answered with, which may be a task.
    CallOf {
        /// The name of the tool.
        tool: Arc<str>,
        /// Its arguments.
        arguments: Json,
    },
}

/// Answers every call of a tool, in both generations.
pub trait CallHandler: Send + Sync + 'static {
    /// The answer to a call. [`HandlerError::NotFound`] means that there is no such tool. A modern client may be asked: then this runs again.
    fn call(
        self: Arc<Self>,
        request: CallRequest,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<CallAnswer, HandlerError>>;
}

/// Answers requests of methods that neither MCP nor the author's other handlers know.
pub trait FallbackHandler: Send + Sync + 'static {
    /// The result, an object, of a request of this method with these params, `{}` if it has none. [`HandlerError::NotFound`] means that there is no
    /// such method. A modern client cannot be asked.
    fn call(
        self: Arc<Self>,
        method: String,
        params: Json,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>>;
}

/// Is told of notifications that clients send.
pub trait NotificationHandler: Send + Sync + 'static {
    /// Handles a notification of this method with these params, `{}` if it has none. The server has handled it before, if it knows it.
    fn handle(self: Arc<Self>, method: String, params: Json, cx: RequestContext) -> BoxFuture<'static, ()>;
}

/// What else the author answers and declares: handlers of what is no method with a name (see also [`CustomMethod`](super::CustomMethod)), and extensions.
#[derive(Clone, Default)]
pub struct AuthorHandlers {
    /// Answers every `tools/call`, but for those of the tools that follow handed-off calls.
    pub calls: Option<Arc<dyn CallHandler>>,
    /// Answers requests of unknown methods.
    pub fallback_method: Option<Arc<dyn FallbackHandler>>,
    /// By the method of the notification.
    pub notifications: HashMap<Arc<str>, Arc<dyn NotificationHandler>>,
    /// Is told of the notifications that have no handler in `notifications` and that MCP does not know.
    pub fallback_notification: Option<Arc<dyn NotificationHandler>>,
    /// Extensions that the server declares, by name, each with its settings, an object.
    pub extensions: Arc<[(Arc<str>, Json)]>,
}
