//! A prompt, a resource and a resource template that echo their input.

use crate::stage::{HandlerFuture, form};
use longhaul_core::Json;
use longhaul_runtime::{
    Catalog, Completer, HandlerError, Prompt, PromptHandler, RequestContext, Resource, ResourceHandler,
    ResourceTemplate, UriTemplate,
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

pub(super) const PROMPT: &str = "say";
/// Asks before it answers.
pub(super) const CURIOUS: &str = "curious";
pub(super) const RESOURCE: &str = "echo://fixed";
pub(super) const TEMPLATE: &str = "echo://words/{word}";

pub(super) fn put_into(catalog: &Catalog) {
    catalog.put_prompt(Prompt {
        name: PROMPT.into(),
        shown: Json::from(json!({"name": PROMPT, "arguments": [{"name": "what", "required": true}]})),
        required: vec!["what".into()],
        handler: Arc::new(Echo),
        completer: Some(Arc::new(Echo)),
    });
    catalog.put_prompt(Prompt {
        name: CURIOUS.into(),
        shown: Json::from(json!({"name": CURIOUS})),
        required: Vec::new(),
        handler: Arc::new(Curious),
        completer: None,
    });
    catalog.put_resource(Resource {
        uri: RESOURCE.into(),
        shown: Json::from(json!({"uri": RESOURCE, "name": "fixed"})),
        handler: Arc::new(Echo),
    });
    catalog.put_template(ResourceTemplate {
        uri_template: UriTemplate::new(TEMPLATE).unwrap(),
        shown: Json::from(json!({"uriTemplate": TEMPLATE, "name": "words"})),
        handler: Arc::new(Echo),
        completer: Some(Arc::new(Echo)),
    });
}

struct Echo;

/// Returns the answer it gets.
struct Curious;

impl PromptHandler for Curious {
    fn get(self: Arc<Self>, _: BTreeMap<String, String>, cx: RequestContext) -> HandlerFuture<Json> {
        Box::pin(async move {
            let answer = cx.ask(form("name")).await?;
            let content = json!({"type": "text", "text": answer.as_str()});
            Ok(Json::from(json!({"messages": [{"role": "user", "content": content}]})))
        })
    }
}

impl PromptHandler for Echo {
    fn get(self: Arc<Self>, arguments: BTreeMap<String, String>, _: RequestContext) -> HandlerFuture<Json> {
        let content = json!({"type": "text", "text": arguments["what"]});
        let result = json!({"messages": [{"role": "user", "content": content}]});
        Box::pin(async move { Ok(Json::from(result)) })
    }
}

impl ResourceHandler for Echo {
    fn read(self: Arc<Self>, uri: String, variables: Vec<(String, String)>, _: RequestContext) -> HandlerFuture<Json> {
        Box::pin(async move {
            match variables.as_slice() {
                [(_, word)] if word.is_empty() => Err(HandlerError::NotFound),
                [(_, word)] => Ok(Json::from(json!({"contents": [{"uri": uri, "text": word}]}))),
                _ => Ok(Json::from(json!({"contents": [{"uri": uri, "text": ""}]}))),
            }
        })
    }
}

impl Completer for Echo {
    fn complete(
        self: Arc<Self>,
        argument: String,
        value: String,
        context: Json,
        _: RequestContext,
    ) -> HandlerFuture<Vec<String>> {
        Box::pin(async move { Ok(vec![argument, value, context.as_str().to_owned()]) })
    }
}
