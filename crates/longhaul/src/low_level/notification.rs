//! Notifications that the author handles.

use super::{FunctionFuture, MethodParams, method::without_task};
use crate::{Error, RequestContext, ServerHandle};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::NotificationHandler;
use std::sync::Arc;
use tracing::warn;

/// The function that handles a notification of this method, with its params.
pub(crate) type Function = Arc<dyn Fn(RequestContext, String, Json) -> FunctionFuture<()> + Send + Sync>;

/// A notification with a handler.
pub(crate) struct Notification {
    pub(crate) name: Arc<str>,
    pub(crate) function: Function,
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
