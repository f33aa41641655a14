//! Notifications that the author handles.

use super::{FunctionFuture, MethodParams, definition_error, method::without_task, prefix_of};
use crate::{DefinitionError, Error, RequestContext, ServerHandle};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::NotificationHandler;
use longhaul_wire::Method;
use std::sync::Arc;
use tracing::warn;

/// The function that handles a notification of this method, with its params.
pub(crate) type Function = Arc<dyn Fn(RequestContext, String, Json) -> FunctionFuture<()> + Send + Sync>;

/// A notification with a handler.
pub(crate) struct Notification {
    pub(crate) name: Arc<str>,
    pub(crate) function: Function,
}

/// The notifications of MCP that clients send, in any revision.
const OF_CLIENTS: [Method; 5] = [
    Method::Cancelled,
    Method::Initialized,
    Method::Progress,
    Method::RootsListChanged,
    Method::TaskStatus,
];

/// Those that servers send.
const OF_SERVERS: [&str; 8] = [
    "notifications/elicitation/complete",
    "notifications/message",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/subscriptions/acknowledged",
    "notifications/tasks",
    "notifications/tools/list_changed",
];

impl Notification {
    /// Refuses names of what no client sends as a notification.
    pub(crate) fn check(&self) -> Result<(), DefinitionError> {
        let name = &*self.name;
        let mistake = |why: &str| Err(definition_error("notification", name, why));
        if OF_SERVERS.contains(&name) {
            return mistake("servers send it, clients do not");
        }
        if Method::is_known(name) && !name.starts_with("notifications/") {
            return mistake("it is a method, which clients request: see `Server::method`");
        }
        let whole = format!("notifications/{name}");
        if OF_CLIENTS.iter().any(|known| known.as_str() == whole) {
            return mistake(&format!("MCP names it `{whole}`"));
        }
        if prefix_of(name).is_none() {
            return mistake("one of your own needs a prefix and a slash, as in `notifications/com.example/saved`");
        }
        Ok(())
    }
}

pub(crate) fn function<F, W, P>(function: F) -> Function
where
    F: Fn(RequestContext, String, P) -> W + Send + Sync + 'static,
    W: Future<Output = Result<(), Error>> + Send + 'static,
    P: MethodParams,
{
    Arc::new(move |cx, method, params| match P::read(without_task(params)) {
        Ok(params) => Box::pin(function(cx, method, params)),
        Err(error) => Box::pin(std::future::ready(Err(error))),
    })
}

/// Binds a function to `server`.
pub(super) fn handler(function: Function, server: &ServerHandle) -> Arc<dyn NotificationHandler> {
    let server = server.clone();
    Arc::new(FunctionHandler { function, server })
}

struct FunctionHandler {
    function: Function,
    server: ServerHandle,
}

impl NotificationHandler for FunctionHandler {
    fn handle(
        self: Arc<Self>,
        method: String,
        params: Json,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let cx = RequestContext::of_request(cx, self.server.clone());
            if let Err(error) = (self.function)(cx, method.clone(), params).await {
                warn!(method, %error, "a notification could not be handled");
            }
        })
    }
}
