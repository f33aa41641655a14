//! Prompts, resources and completions: what the handler answers while the request lasts.

use super::{
    caller::Caller,
    exchange::{Failed, Hosted},
};
use longhaul_core::{BoxFuture, Json, RpcFailure};
use longhaul_runtime::{Completer, HandlerError, PromptHandler, RequestContext, ResourceHandler};
use rmcp::{ErrorData, model::ErrorCode};
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

    async fn answer(&self, method: &str, params: Value, cx: RequestContext) -> Result<Json, HandlerError> {
        let answered = self.hosted.request(method, params, &Caller::Request(cx)).await;
        answered.map(Json::from).map_err(refusal)
    }
}

impl PromptHandler for Answering {
    fn get(
        self: Arc<Self>,
        arguments: BTreeMap<String, String>,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        let params = json!({"name": self.prompt, "arguments": arguments});
        Box::pin(async move { self.answer("prompts/get", params, cx).await })
    }
}

impl ResourceHandler for Answering {
    fn read(
        self: Arc<Self>,
        uri: String,
        _: Vec<(String, String)>,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move { self.answer("resources/read", json!({"uri": uri}), cx).await })
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
            let answer = self.answering.answer("completion/complete", params, cx).await?;
            let answer: Value = serde_json::from_str(answer.as_str()).unwrap_or_default();
            let values = answer["completion"]["values"].as_array().into_iter().flatten();
            Ok(values.filter_map(|value| value.as_str().map(str::to_owned)).collect())
        })
    }
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
