//! Asking before there is a task.

use crate::{Arguments, Error, RequestContext, ServerHandle};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{HandlerError, Intake};
use serde::Serialize;
use std::{marker::PhantomData, sync::Arc};

/// A function from the arguments a client gives to those the work runs with.
struct Asks<F, Wish> {
    ask: F,
    server: ServerHandle,
    wish: PhantomData<fn(Wish)>,
}

pub(crate) fn of<Wish, Ready, F, W>(ask: F, server: ServerHandle) -> Arc<dyn Intake>
where
    Wish: Arguments,
    Ready: Serialize + 'static,
    F: Fn(RequestContext, Wish) -> W + Send + Sync + 'static,
    W: Future<Output = Result<Ready, Error>> + Send + 'static,
{
    Arc::new(Asks {
        ask,
        server,
        wish: PhantomData,
    })
}

impl<Wish, Ready, F, W> Intake for Asks<F, Wish>
where
    Wish: Arguments,
    Ready: Serialize + 'static,
    F: Fn(RequestContext, Wish) -> W + Send + Sync + 'static,
    W: Future<Output = Result<Ready, Error>> + Send + 'static,
{
    fn take(
        self: Arc<Self>,
        arguments: Json,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move {
            let wish = serde_json::from_str(arguments.as_str()).map_err(Error::internal)?;
            let cx = RequestContext::of_request(cx, self.server.clone());
            let ready = (self.ask)(cx, wish).await?;
            let ready = serde_json::to_value(ready).map_err(Error::internal)?;
            Ok(Json::from(ready))
        })
    }
}
