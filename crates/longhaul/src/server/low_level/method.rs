//! JSON-RPC methods that the author answers.

use super::{FunctionFuture, MethodParams, MethodResult, definition_error, tool_call};
use crate::{DefinitionError, Error, RequestContext, ServerHandle};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{
    CallAnswer, CallHandler, CallRequest, CustomMethod, FallbackHandler, HandlerError, MethodHandler,
};
use std::sync::Arc;

/// The function that answers a method.
type Function = Arc<dyn Fn(RequestContext, CallRequest) -> FunctionFuture<CallAnswer> + Send + Sync>;

/// The function that answers unknown methods.
pub(crate) type FallbackFunction =
    Arc<dyn Fn(RequestContext, String, Json) -> FunctionFuture<CallAnswer> + Send + Sync>;

/// A method that is not checked yet.
pub(crate) struct Method {
    pub(crate) name: Arc<str>,
    /// The only method that its function is for.
    only_for: Option<&'static str>,
    function: Function,
}

/// A method that was checked.
pub(crate) enum BuiltMethod {
    Named(CustomMethod),
    ToolCalls(Arc<dyn CallHandler>),
}

impl Method {
    pub(crate) fn new<F, W, P, R>(name: impl Into<Arc<str>>, function: F) -> Self
    where
        F: Fn(RequestContext, P) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Error>> + Send + 'static,
        P: MethodParams,
        R: MethodResult,
    {
        Self {
            name: name.into(),
            only_for: P::ONLY_FOR.or(R::ONLY_FOR),
            function: Arc::new(move |cx, request| answer(P::read(request).map(|params| function(cx, params)))),
        }
    }

    /// Checks its name and binds it to `server`.
    pub(crate) fn build(self, server: &ServerHandle) -> Result<BuiltMethod, DefinitionError> {
        if let Some(method) = self.only_for.filter(|method| *method != &*self.name) {
            let why = format!("its function takes or returns what is only for `{method}`: use a map or RawJson");
            return Err(definition_error("method", &self.name, why));
        }
        if self.name.starts_with("notifications/") {
            let why = "it names a notification: handle it with `Server::notification`";
            return Err(definition_error("method", &self.name, why));
        }
        let handler = Arc::new(FunctionHandler {
            function: self.function,
            server: server.clone(),
        });
        if &*self.name == tool_call::METHOD {
            return Ok(BuiltMethod::ToolCalls(handler));
        }
        CustomMethod::new(Arc::clone(&self.name), handler)
            .map(BuiltMethod::Named)
            .map_err(|error| definition_error("method", &self.name, error.to_string()))
    }
}

/// The future of a function, or the error of its params.
fn answer<R: MethodResult>(
    begun: Result<impl Future<Output = Result<R, Error>> + Send + 'static, Error>,
) -> FunctionFuture<CallAnswer> {
    match begun {
        Ok(work) => Box::pin(async move { work.await.map(R::into_answer) }),
        Err(error) => Box::pin(std::future::ready(Err(error))),
    }
}

pub(crate) fn fallback<F, W, P, R>(function: F) -> FallbackFunction
where
    F: Fn(RequestContext, String, P) -> W + Send + Sync + 'static,
    W: Future<Output = Result<R, Error>> + Send + 'static,
    P: MethodParams,
    R: MethodResult,
{
    Arc::new(move |cx, method, params| answer(P::read(without_task(params)).map(|params| function(cx, method, params))))
}

/// The params of a method that is never answered with a task.
pub(super) fn without_task(params: Json) -> CallRequest {
    let takes_task = false;
    CallRequest { params, takes_task }
}

struct FunctionHandler {
    function: Function,
    server: ServerHandle,
}

impl CallHandler for FunctionHandler {
    fn call(
        self: Arc<Self>,
        request: CallRequest,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<CallAnswer, HandlerError>> {
        let cx = RequestContext::of_request(cx, self.server.clone());
        let answer = (self.function)(cx, request);
        Box::pin(async move { Ok(answer.await?) })
    }
}

impl MethodHandler for FunctionHandler {
    fn call(
        self: Arc<Self>,
        params: Json,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        let answer = CallHandler::call(self, without_task(params), cx);
        Box::pin(async move { result(answer.await?) })
    }
}

/// The function that answers unknown methods, bound to a server.
pub(super) struct Fallback {
    pub(super) function: FallbackFunction,
    pub(super) server: ServerHandle,
}

impl FallbackHandler for Fallback {
    fn call(
        self: Arc<Self>,
        method: String,
        params: Json,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        let cx = RequestContext::of_request(cx, self.server.clone());
        let answer = (self.function)(cx, method, params);
        Box::pin(async move { result(answer.await?) })
    }
}

fn result(answer: CallAnswer) -> Result<Json, HandlerError> {
    match answer {
        CallAnswer::Result(result) => Ok(result),
        CallAnswer::CallOf { .. } => {
            Err(Error::rpc(-32603, "only tools/call is answered with a call of a tool").into())
        }
    }
}
