//! JSON-RPC methods that the author answers.

use crate::{DefinitionError, Error, RequestContext, ServerHandle};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{CustomMethod, HandlerError, MethodHandler};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The function that answers a method.
type Function = Arc<dyn Fn(RequestContext, Map<String, Value>) -> FunctionFuture + Send + Sync>;
type FunctionFuture = BoxFuture<'static, Result<Map<String, Value>, Error>>;

/// A method that is not checked yet.
pub(crate) struct Method {
    pub(crate) name: Arc<str>,
    function: Function,
}

impl Method {
    pub(crate) fn new<F, W>(name: impl Into<Arc<str>>, function: F) -> Self
    where
        F: Fn(RequestContext, Map<String, Value>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Map<String, Value>, Error>> + Send + 'static,
    {
        Self {
            name: name.into(),
            function: Arc::new(move |cx, params| Box::pin(function(cx, params))),
        }
    }

    /// Checks its name and binds it to `server`.
    pub(crate) fn build(self, server: &ServerHandle) -> Result<CustomMethod, DefinitionError> {
        let handler = FunctionHandler {
            function: self.function,
            server: server.clone(),
        };
        CustomMethod::new(Arc::clone(&self.name), Arc::new(handler)).map_err(|error| DefinitionError {
            what: format!("method `{}`", self.name),
            why: error.to_string(),
        })
    }
}

struct FunctionHandler {
    function: Function,
    server: ServerHandle,
}

impl MethodHandler for FunctionHandler {
    fn call(
        self: Arc<Self>,
        params: Json,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        let cx = RequestContext::of_request(cx, self.server.clone());
        // Params are an object, or there are none.
        let params = serde_json::from_str(params.as_str()).unwrap_or_default();
        let result = (self.function)(cx, params);
        Box::pin(async move { Ok(Json::from(Value::Object(result.await?))) })
    }
}
