//! Prompts, resources and completions: what the handler answers while the request lasts.

use super::{
    caller::Caller,
    exchange::{self, Failed, Hosted},
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

/// A prompt of the handler's by its name, or a resource by its URI.
pub(super) struct Answering {
    hosted: Arc<Hosted>,
    prompt: String,
}

impl Answering {
    pub(super) fn prompt(hosted: &Arc<Hosted>, name: &str) -> Self {
        Self {
            hosted: Arc::clone(hosted),
            prompt: name.to_owned(),
        }
    }

    pub(super) fn resource(hosted: &Arc<Hosted>) -> Self {
        Self::prompt(hosted, "")
    }

    async fn answer(
        &self,
        make: impl Fn() -> Result<ClientRequest, serde_json::Error>,
        cx: RequestContext,
    ) -> Result<ServerResult, HandlerError> {
        self.hosted.request(make, &Caller::Request(cx)).await.map_err(refusal)
    }
}

impl PromptHandler for Answering {
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
            self.answer(request, cx).await.and_then(|answer| in_full(&answer))
        })
    }
}

impl ResourceHandler for Answering {
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
            self.answer(request, cx).await.and_then(|answer| in_full(&answer))
        })
    }
}

/// Completes the arguments of a prompt or the variables of a template.
pub(super) struct Completing {
    answering: Answering,
    reference: Value,
}

impl Completing {
    pub(super) fn new(hosted: &Arc<Hosted>, reference: Value) -> Self {
        Self {
            answering: Answering::resource(hosted),
            reference,
        }
    }
}

impl Completer for Completing {
    fn complete(
        self: Arc<Self>,
        argument: String,
        value: String,
        context: Json,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Vec<String>, HandlerError>> {
        Box::pin(async move {
            let settled: Value = serde_json::from_str(context.as_str()).unwrap_or_default();
            let mut params = json!({"ref": self.reference, "argument": {"name": argument, "value": value}});
            if settled.is_object() {
                params["context"] = json!({"arguments": settled});
            }
            let request = || serde_json::from_value(json!({"method": "completion/complete", "params": params}));
            match self.answering.answer(request, cx).await? {
                ServerResult::CompleteResult(completed) => Ok(completed.completion.values),
                _ => Ok(Vec::new()),
            }
        })
    }
}

fn in_full(answer: &ServerResult) -> Result<Json, HandlerError> {
    exchange::text(answer).map_err(refusal)
}

fn refusal(failed: Failed) -> HandlerError {
    match failed {
        Failed::Refused(error) if error.code == ErrorCode::RESOURCE_NOT_FOUND => HandlerError::NotFound,
        Failed::Refused(error) => HandlerError::Rpc(failure(error)),
        Failed::Asked(error) => error.into(),
        Failed::Panicked | Failed::Stopped(_) => HandlerError::Rpc(RpcFailure {
            code: -32603,
            message: "the handler failed unexpectedly".into(),
            data: None,
        }),
    }
}

/// rmcp's error as Longhaul's.
pub(super) fn failure(error: ErrorData) -> RpcFailure {
    RpcFailure {
        code: error.code.0,
        message: (&*error.message).into(),
        data: error.data.map(Json::from),
    }
}
