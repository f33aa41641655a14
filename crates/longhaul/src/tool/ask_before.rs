//! Questions before a task is created: [`Tool::ask_before`](super::Tool::ask_before).

use crate::{Arguments, Error, RequestContext, ServerHandle};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{HandlerError, Intake};
use serde::Serialize;
use std::{marker::PhantomData, sync::Arc};

/// A function from the arguments of the client to those that the tool runs with.
struct AskBefore<F, Given> {
    ask: F,
    server: ServerHandle,
    given: PhantomData<fn(Given)>,
}

pub(super) fn intake<Given, Complete, F, W>(ask: F, server: ServerHandle) -> Arc<dyn Intake>
where
    Given: Arguments,
    Complete: Serialize + 'static,
    F: Fn(RequestContext, Given) -> W + Send + Sync + 'static,
    W: Future<Output = Result<Complete, Error>> + Send + 'static,
{
    Arc::new(AskBefore {
        ask,
        server,
        given: PhantomData,
    })
}

impl<Given, Complete, F, W> Intake for AskBefore<F, Given>
where
    Given: Arguments,
    Complete: Serialize + 'static,
    F: Fn(RequestContext, Given) -> W + Send + Sync + 'static,
    W: Future<Output = Result<Complete, Error>> + Send + 'static,
{
    fn take(
        self: Arc<Self>,
        arguments: Json,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move {
            let given = serde_json::from_str(arguments.as_str()).map_err(Error::internal)?;
            let cx = RequestContext::of_request(cx, self.server.clone());
            let complete = (self.ask)(cx, given).await?;
            let complete = serde_json::to_value(complete).map_err(Error::internal)?;
            Ok(Json::from(complete))
        })
    }
}
