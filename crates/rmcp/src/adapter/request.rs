//! Forwards requests for prompts, resources and completions to the handler.

use super::{
    caller::Caller,
    exchange::{self, HostedHandler, RequestFailure},
};
use longhaul_core::{BoxFuture, Json, RpcFailure};
use longhaul_runtime::{Completer, HandlerError, PromptHandler, RequestContext, ResourceHandler};
use rmcp::{
    ErrorData,
    model::{
        ClientRequest, ErrorCode, GetPromptRequest, GetPromptRequestParams, ReadResourceRequest,
        ReadResourceRequestParams, ServerResult,
    },
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Forwards requests for one prompt, or for resources.
pub(super) struct RequestForwarder {
    handler: Arc<HostedHandler>,
    /// The prompt's name; empty for resources, which are read by their URI.
    prompt: String,
}

impl RequestForwarder {
    pub(super) fn prompt(handler: &Arc<HostedHandler>, name: &str) -> Self {
        Self {
            handler: Arc::clone(handler),
            prompt: name.to_owned(),
        }
    }

    pub(super) fn resource(handler: &Arc<HostedHandler>) -> Self {
        Self::prompt(handler, "")
    }

    async fn forward(
        &self,
        make_request: impl Fn() -> Result<ClientRequest, serde_json::Error>,
        cx: RequestContext,
    ) -> Result<ServerResult, HandlerError> {
        self.handler
            .request(make_request, &Caller::of_request(cx))
            .await
            .map_err(to_handler_error)
    }
}

impl PromptHandler for RequestForwarder {
    fn get(
        self: Arc<Self>,
        arguments: BTreeMap<String, String>,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move {
            let request = || {
                let arguments = arguments
                    .iter()
                    .map(|(name, value)| (name.clone(), value.as_str().into()));
                let params = GetPromptRequestParams::new(&self.prompt).with_arguments(arguments.collect());
                Ok(ClientRequest::GetPromptRequest(GetPromptRequest::new(params)))
            };
            self.forward(request, cx).await.and_then(|answer| to_json(&answer))
        })
    }
}

impl ResourceHandler for RequestForwarder {
    fn read(
        self: Arc<Self>,
        uri: String,
        _: Vec<(String, String)>,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move {
            let request = || {
                let params = ReadResourceRequestParams::new(&uri);
                Ok(ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params)))
            };
            self.forward(request, cx).await.and_then(|answer| to_json(&answer))
        })
    }
}

/// Completes the arguments of a prompt or the variables of a template.
pub(super) struct CompletionForwarder {
    forwarder: RequestForwarder,
    reference: Value,
}

impl CompletionForwarder {
    pub(super) fn new(handler: &Arc<HostedHandler>, reference: Value) -> Self {
        Self {
            forwarder: RequestForwarder::resource(handler),
            reference,
        }
    }
}

impl Completer for CompletionForwarder {
    fn complete(
        self: Arc<Self>,
        argument: String,
        value: String,
        context: Json,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Vec<String>, HandlerError>> {
        Box::pin(async move {
            let arguments: Value = serde_json::from_str(context.as_str()).unwrap_or_default();
            let mut params = json!({"ref": self.reference, "argument": {"name": argument, "value": value}});
            if arguments.is_object() {
                params["context"] = json!({"arguments": arguments});
            }
            let request = || serde_json::from_value(json!({"method": "completion/complete", "params": params}));
            match self.forwarder.forward(request, cx).await? {
                ServerResult::CompleteResult(completed) => Ok(completed.completion.values),
                _ => Ok(Vec::new()),
            }
        })
    }
}

fn to_json(answer: &ServerResult) -> Result<Json, HandlerError> {
    exchange::text(answer).map_err(to_handler_error)
}

fn to_handler_error(failed: RequestFailure) -> HandlerError {
    match failed {
        RequestFailure::Refused(error) if error.code == ErrorCode::RESOURCE_NOT_FOUND => HandlerError::NotFound,
        RequestFailure::Refused(error) => HandlerError::Rpc(failure(error)),
        RequestFailure::Ask(error) => error.into(),
        RequestFailure::Panicked | RequestFailure::Stopped(_) => HandlerError::Rpc(RpcFailure {
            code: -32603,
            message: "the handler failed unexpectedly".into(),
            data: None,
        }),
    }
}

/// Converts rmcp's error.
pub(super) fn failure(error: ErrorData) -> RpcFailure {
    RpcFailure {
        code: error.code.0,
        message: (&*error.message).into(),
        data: error.data.map(Json::from),
    }
}
