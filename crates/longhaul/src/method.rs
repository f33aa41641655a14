//! Custom JSON-RPC methods.

use crate::{DefinitionError, Error, RequestContext, ServerHandle};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{CustomMethod, HandlerError, MethodHandler};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Answers a method.
pub(crate) type Answer = Arc<dyn Fn(RequestContext, Map<String, Value>) -> Answered + Send + Sync>;
type Answered = BoxFuture<'static, Result<Map<String, Value>, Error>>;

/// A custom method that is not checked yet.
pub(crate) struct Method {
    pub(crate) name: Arc<str>,
    answer: Answer,
}

impl Method {
    pub(crate) fn new<F, W>(name: impl Into<Arc<str>>, answer: F) -> Self
    where
        F: Fn(RequestContext, Map<String, Value>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Map<String, Value>, Error>> + Send + 'static,
    {
        Self {
            name: name.into(),
            answer: Arc::new(move |cx, params| Box::pin(answer(cx, params))),
        }
    }

    /// Checks its name and makes it ready to be answered by `server`.
    pub(crate) fn build(self, server: &ServerHandle) -> Result<CustomMethod, DefinitionError> {
        let handler = Answering {
            answer: self.answer,
            server: server.clone(),
        };
        CustomMethod::new(Arc::clone(&self.name), Arc::new(handler)).map_err(|error| DefinitionError {
            what: format!("method `{}`", self.name),
            why: error.to_string(),
        })
    }
}

struct Answering {
    answer: Answer,
    server: ServerHandle,
}

impl MethodHandler for Answering {
    fn call(
        self: Arc<Self>,
        params: Json,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        let cx = RequestContext::of_request(cx, self.server.clone());
        // Params are an object, or there are none.
        let params = serde_json::from_str(params.as_str()).unwrap_or_default();
        let answered = (self.answer)(cx, params);
        Box::pin(async move { Ok(Json::from(Value::Object(answered.await?))) })
    }
}
