//! What this server offers by itself beside its upstreams: prompts and resources of its own configuration.

use super::relayed_request::{UpstreamMethod, text};
use longhaul_core::{BoxFuture, Json, JsonMembers, RpcFailure};
use longhaul_runtime::{Completer, HandlerError, RequestContext, Snapshot};
use longhaul_wire::completion;
use std::{future::ready, sync::Arc};

type Answer = BoxFuture<'static, Result<Json, HandlerError>>;

/// The entries of a list, each with its name, URI or URI template.
pub(super) fn of(own: &Snapshot, list: UpstreamMethod) -> Vec<(Arc<str>, Json)> {
    let pair = |key: &Arc<str>, shown: &Json| (Arc::clone(key), shown.clone());
    match list {
        UpstreamMethod::ListPrompts => own.prompts.iter().map(|(key, one)| pair(key, &one.shown)).collect(),
        UpstreamMethod::ListResources => own.resources.iter().map(|(key, one)| pair(key, &one.shown)).collect(),
        UpstreamMethod::ListTemplates => own.templates.iter().map(|(key, one)| pair(key, &one.shown)).collect(),
        _ => Vec::new(),
    }
}

/// The answer to a request for one of them; `None` if it is for something else.
pub(super) fn answer(
    own: &Snapshot,
    method: UpstreamMethod,
    params: &JsonMembers,
    cx: &RequestContext,
) -> Option<Answer> {
    match method {
        UpstreamMethod::GetPrompt => {
            let prompt = own.prompts.get(&*text(params, "name"))?;
            let arguments = params.get("arguments").map_or("{}", Json::as_str);
            let arguments =
                serde_json::from_str(arguments).map_err(|_| "params.arguments must be an object of strings");
            Some(match arguments {
                Ok(arguments) => Arc::clone(&prompt.handler).get(arguments, cx.clone()),
                Err(why) => Box::pin(ready(Err(HandlerError::Rpc(RpcFailure {
                    code: -32602,
                    message: why.into(),
                    data: None,
                })))),
            })
        }
        UpstreamMethod::ReadResource => {
            let uri = text(params, "uri");
            let (handler, variables) = own.find_resource(&uri)?;
            Some(handler.read(uri, variables, cx.clone()))
        }
        UpstreamMethod::Complete => complete(own, params, cx),
        _ => None,
    }
}

fn complete(own: &Snapshot, params: &JsonMembers, cx: &RequestContext) -> Option<Answer> {
    let members = |of: &JsonMembers, name: &str| -> JsonMembers {
        let member = of.get(name).map_or("{}", Json::as_str);
        serde_json::from_str(member).unwrap_or_default()
    };
    let reference = members(params, "ref");
    let completer: Option<Arc<dyn Completer>> = match &*text(&reference, "type") {
        "ref/prompt" => own.prompts.get(&*text(&reference, "name"))?.completer.clone(),
        _ => own.templates.get(&*text(&reference, "uri"))?.completer.clone(),
    };
    let argument = members(params, "argument");
    let context = members(params, "context").remove("arguments");
    let values = completer.map(|completer| {
        let context = context.unwrap_or_else(|| Json::trusted("{}"));
        completer.complete(text(&argument, "name"), text(&argument, "value"), context, cx.clone())
    });
    Some(Box::pin(async move {
        let values = match values {
            Some(values) => values.await?,
            None => Vec::new(),
        };
        Ok(completion::build_result(&values))
    }))
}
