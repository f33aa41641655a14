//! Prompts, resources, completions and lists, which may change while the server runs.

use crate::{
    request::{Post, both},
    server::Server,
    stage::HandlerFuture,
};
use longhaul_core::Json;
use longhaul_runtime::{
    Completer, HandlerError, Prompt, PromptHandler, RequestContext, Resource, ResourceHandler, ResourceTemplate,
    UriTemplate,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, future::ready, sync::Arc};

/// Answers every request with its own input.
struct Echo;

impl PromptHandler for Echo {
    fn get(self: Arc<Self>, arguments: BTreeMap<String, String>, _: RequestContext) -> HandlerFuture<Json> {
        let text = format!("{arguments:?}");
        let message = json!({"role": "user", "content": {"type": "text", "text": text}});
        Box::pin(ready(Ok(Json::from(json!({"messages": [message]})))))
    }
}

impl ResourceHandler for Echo {
    fn read(self: Arc<Self>, uri: String, variables: Vec<(String, String)>, _: RequestContext) -> HandlerFuture<Json> {
        if variables.iter().any(|(_, value)| value == "none") {
            return Box::pin(ready(Err(HandlerError::NotFound)));
        }
        let text = format!("{variables:?}");
        Box::pin(ready(Ok(Json::from(json!({"contents": [{"uri": uri, "text": text}]})))))
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
        let mut values = vec![argument, value, context.as_str().to_owned()];
        values.extend((0..200).map(|n| n.to_string()));
        Box::pin(ready(Ok(values)))
    }
}

pub(crate) fn prompt(name: &str) -> Prompt {
    Prompt {
        name: name.into(),
        shown: Json::from(json!({"name": name, "arguments": [{"name": "topic", "required": true}]})),
        required: vec!["topic".into()],
        handler: Arc::new(Echo),
        completer: Some(Arc::new(Echo)),
    }
}

pub(crate) fn resource(uri: &str) -> Resource {
    Resource {
        uri: uri.into(),
        shown: Json::from(json!({"uri": uri, "name": uri})),
        handler: Arc::new(Echo),
    }
}

/// Offers a prompt, a resource and a template.
pub(crate) fn offer(server: &Server) {
    let catalog = server.engine.catalog();
    catalog.put_prompt(prompt("talk"));
    catalog.put_resource(resource("test://one"));
    catalog.put_template(ResourceTemplate {
        uri_template: UriTemplate::new("test://{id}/data").unwrap(),
        shown: Json::from(json!({"uriTemplate": "test://{id}/data", "name": "data"})),
        handler: Arc::new(Echo),
        completer: None,
    });
}

async fn offering() -> (Server, String) {
    let server = Server::start().await;
    offer(&server);
    let session = server.session().await;
    (server, session)
}

#[tokio::test]
async fn prompts_are_filled_in_and_need_their_arguments() {
    let (server, session) = offering().await;
    for post in both(&session, "prompts/list", json!({})) {
        assert_eq!(server.result(&post).await["prompts"][0]["name"], "talk");
    }
    let sound = json!({"name": "talk", "arguments": {"topic": "rust"}});
    for post in both(&session, "prompts/get", sound) {
        let text = &server.result(&post).await["messages"][0]["content"]["text"];
        assert_eq!(text, r#"{"topic": "rust"}"#);
    }
    for params in [
        json!({"name": "talk"}),
        json!({"name": "talk", "arguments": {"topic": 1}}),
        json!({"name": "nothing"}),
    ] {
        for post in both(&session, "prompts/get", params) {
            assert_eq!(server.error(&post).await, (200, -32602));
        }
    }
}

#[tokio::test]
async fn resources_are_read_by_uri_and_by_family() {
    let (server, session) = offering().await;
    for (uri, text) in [("test://one", "[]"), ("test://a%20b/data", r#"[("id", "a b")]"#)] {
        for post in both(&session, "resources/read", json!({"uri": uri})) {
            let content = &server.result(&post).await["contents"][0];
            assert_eq!((&content["uri"], &content["text"]), (&json!(uri), &json!(text)));
        }
    }
    // Never an empty answer, and each era has its code.
    let [modern, legacy] = both(&session, "resources/read", json!({"uri": "test://none/data"}));
    assert_eq!(server.error(&modern).await, (200, -32602));
    assert_eq!(server.error(&legacy).await, (200, -32002));
}

#[tokio::test]
async fn u_36_completions_are_cut_at_a_hundred_and_marked_as_incomplete() {
    let (server, session) = offering().await;
    let complete = |reference: Value| {
        let (argument, tone) = (json!({"name": "topic", "value": "ru"}), json!({"tone": "dry"}));
        let params = json!({"ref": reference, "argument": argument, "context": {"arguments": tone}});
        both(&session, "completion/complete", params)
    };
    for post in complete(json!({"type": "ref/prompt", "name": "talk"})) {
        let completion = &server.result(&post).await["completion"];
        let values = completion["values"].as_array().unwrap();
        assert_eq!(values[0..3], [json!("topic"), json!("ru"), json!(r#"{"tone":"dry"}"#)]);
        assert_eq!(values.len(), 100);
        assert_eq!(completion["total"], 203);
        assert_eq!(completion["hasMore"], true);
    }
    for post in complete(json!({"type": "ref/resource", "uri": "test://{id}/data"})) {
        assert_eq!(server.result(&post).await["completion"]["values"], json!([]));
    }
    for post in complete(json!({"type": "ref/prompt", "name": "x"})) {
        assert_eq!(server.error(&post).await, (200, -32602));
    }
}

/// Every entry once, in order, and a cursor is valid for its own list only.
#[tokio::test]
async fn long_lists_come_in_pages() {
    let (server, session) = offering().await;
    let uris: Vec<String> = (0..250).map(|n| format!("test://{n:03}")).collect();
    for uri in &uris {
        server.engine.catalog().put_resource(resource(uri));
    }
    for era in [0, 1] {
        let mut found = Vec::new();
        let mut params = json!({});
        loop {
            let post = both(&session, "resources/list", params)[era].clone();
            let page = server.result(&post).await;
            let entries = page["resources"].as_array().unwrap();
            found.extend(entries.iter().map(|entry| entry["uri"].as_str().unwrap().to_owned()));
            let Some(next) = page["nextCursor"].as_str() else { break };
            for other in ["tools/list", "prompts/list", "resources/templates/list"] {
                let wrong = both(&session, other, json!({"cursor": next}))[era].clone();
                assert_eq!(server.error(&wrong).await, (200, -32602), "{other}");
            }
            params = json!({"cursor": next});
        }
        assert_eq!(found[0], "test://one");
        assert_eq!(found[1..], uris);
    }
}

#[tokio::test]
async fn what_is_offered_may_change_while_the_server_runs() {
    let (server, session) = offering().await;
    let names = async || {
        let [modern, legacy] = both(&session, "prompts/list", json!({}));
        let list = server.result(&modern).await["prompts"].clone();
        assert_eq!(server.result(&legacy).await["prompts"], list);
        let prompts = list.as_array().unwrap().iter();
        prompts.map(|prompt| prompt["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["talk"]);
    let catalog = server.engine.catalog();
    catalog.put_prompt(prompt("shout"));
    assert_eq!(names().await, ["talk", "shout"]);
    assert!(catalog.remove_prompt("talk") && !catalog.remove_prompt("talk"));
    assert_eq!(names().await, ["shout"]);
}

/// Capabilities match working handlers.
#[tokio::test]
async fn features_without_a_handler_are_not_declared() {
    let bare = Server::start().await;
    let (offering, _) = offering().await;
    let discover = Post::modern_plain("server/discover", json!({}));
    let initialize = Post::initialize("2025-11-25");
    for post in [&discover, &initialize] {
        let without = bare.result(post).await["capabilities"].clone();
        let absent = ["prompts", "completions"].map(|name| without.get(name));
        assert_eq!(absent, [None, None], "{without}");
        let with = offering.result(post).await["capabilities"].clone();
        assert!(with["prompts"].is_object() && with["completions"].is_object(), "{with}");
    }
    let advertised = offering.result(&discover).await["capabilities"].clone();
    assert_eq!(advertised["prompts"], json!({"listChanged": true}));
}

/// A method of this name, as an application answers it.
pub(crate) fn method(name: &str) -> longhaul_runtime::CustomMethod {
    longhaul_runtime::CustomMethod::new(name, Arc::new(Echo)).unwrap()
}

impl longhaul_runtime::MethodHandler for Echo {
    fn call(self: Arc<Self>, params: Json, _: RequestContext) -> HandlerFuture<Json> {
        let params: Value = serde_json::from_str(params.as_str()).unwrap();
        Box::pin(ready(Ok(Json::from(json!({"said": params["say"]})))))
    }
}

#[tokio::test]
async fn a_custom_method_is_answered_in_both_eras() {
    let (server, session) = offering().await;
    let ask = || both(&session, "com.example/echo", json!({"say": [1, null]}));
    let [modern, legacy] = ask();
    assert_eq!(server.error(&modern).await, (404, -32601));
    assert_eq!(server.error(&legacy).await, (200, -32601));
    server.engine.catalog().put_method(method("com.example/echo"));
    let [modern, legacy] = ask();
    assert_eq!(server.result(&modern).await["said"], json!([1, null]));
    assert_eq!(server.result(&legacy).await, json!({"said": [1, null]}));
    // Its headers are checked as always.
    let foreign = modern.with("Mcp-Method", "tools/list");
    assert_eq!(server.error(&foreign).await, (400, -32020));
}
