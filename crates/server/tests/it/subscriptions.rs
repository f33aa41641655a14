//! `subscriptions/listen`.

use crate::{
    client::Connection,
    offers::resource,
    request::{Post, act},
    server::{Server, task_of},
};
use longhaul_core::{Json, TaskPolicy};
use longhaul_runtime::{HandlerError, Prompt, PromptHandler, RequestContext, Tool};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

fn listen(notifications: Value) -> Post {
    Post::modern("subscriptions/listen", json!({"notifications": notifications})).id(json!("sub-1"))
}

/// A stream, and what was accepted.
async fn subscribe(server: &Server, post: &Post) -> (Connection, Value) {
    let mut client = server.connect().await;
    client.send(&post.to_bytes()).await;
    let head = client.head().await;
    assert!(head.is_stream(), "{head:?}");
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    let acknowledged = next(&mut client, post).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    (client, acknowledged["params"]["notifications"].clone())
}

/// The next notification, which names its subscription.
async fn next(client: &mut Connection, post: &Post) -> Value {
    let message = client.message().await.unwrap();
    assert_eq!(
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        post.body["id"]
    );
    message
}

async fn task(server: &Server, acting: &str) -> String {
    task_of(
        &server
            .result(&Post::modern("tools/call", act("optional", acting)))
            .await,
    )
}

#[tokio::test]
async fn a_subscription_sends_the_state_of_a_task_and_its_changes_until_it_is_done() {
    let server = Server::start().await;
    let (waiting, over) = (task(&server, "wait").await, task(&server, "say").await);
    server.poll(&over, "completed").await;
    server.stage.begun.reaches(2).await;
    let post = listen(json!({"taskIds": [over, "nobodys", waiting, "not an id", over]}));
    let (mut client, accepted) = subscribe(&server, &post).await;
    assert_eq!(accepted, json!({"taskIds": [over, waiting]}));
    for (id, status) in [(&over, "completed"), (&waiting, "working")] {
        let notification = next(&mut client, &post).await;
        assert_eq!(
            (&notification["params"]["taskId"], &notification["params"]["status"]),
            (&json!(id), &json!(status)),
        );
        assert!(notification["params"].get("resultType").is_none());
    }
    server.stage.released.count();
    loop {
        let notification = next(&mut client, &post).await;
        assert_eq!(notification["params"]["taskId"], *waiting);
        if notification["params"]["status"] == "completed" {
            assert_eq!(notification["params"]["result"]["content"][0]["text"], "done");
            break;
        }
    }
}

#[tokio::test]
async fn g2_53_a_subscription_to_a_task_sends_its_state_only() {
    let server = Server::start().await;
    let task = task(&server, "ask").await;
    server.poll(&task, "input_required").await;
    let post = listen(json!({"taskIds": [task]}));
    let (mut client, _) = subscribe(&server, &post).await;
    let asking = next(&mut client, &post).await;
    assert_eq!(
        asking["params"]["inputRequests"]["in-1"]["method"],
        "elicitation/create"
    );
    let answer = json!({"taskId": task, "inputResponses": {"in-1": {"action": "decline"}}});
    server.result(&Post::modern("tasks/update", answer)).await;
    while next(&mut client, &post).await["params"]["status"] != "completed" {}
}

#[tokio::test]
async fn g2_07_tasks_are_for_those_who_declare_them() {
    let server = Server::start().await;
    let params = json!({"notifications": {"taskIds": ["any"]}});
    assert_eq!(
        server.error(&Post::modern_plain("subscriptions/listen", params)).await,
        (400, -32021)
    );
    let params = json!({"notifications": {"taskIds": [], "toolsListChanged": true}});
    let (_, accepted) = subscribe(&server, &Post::modern_plain("subscriptions/listen", params)).await;
    assert_eq!(accepted, json!({"toolsListChanged": true}));
}

struct Empty;

impl PromptHandler for Empty {
    fn get(
        self: Arc<Self>,
        _: BTreeMap<String, String>,
        _: RequestContext,
    ) -> longhaul_core::BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(std::future::ready(Ok(Json::trusted(r#"{"messages":[]}"#))))
    }
}

fn put_prompt(server: &Server, name: &str) {
    server.engine.catalog().put_prompt(Prompt {
        name: name.into(),
        shown: Json::from(json!({"name": name})),
        required: Vec::new(),
        handler: Arc::new(Empty),
        completer: None,
    });
}

async fn put_tool(server: &Server, name: &str) {
    let tool = Tool::new(server.stage.settings(name, TaskPolicy::Never)).unwrap();
    server.engine.put_tool(tool).await.unwrap();
}

#[tokio::test]
async fn many_changes_of_a_list_are_one_notification_to_its_subscribers_only() {
    let server = Server::start().await;
    let tools = listen(json!({"toolsListChanged": true}));
    let both = listen(json!({"promptsListChanged": true, "resourcesListChanged": false, "toolsListChanged": true}));
    let (mut one, _) = subscribe(&server, &tools).await;
    let (mut other, accepted) = subscribe(&server, &both).await;
    assert_eq!(accepted, json!({"toolsListChanged": true, "promptsListChanged": true}));
    for nth in 0..20 {
        put_prompt(&server, &format!("prompt{nth}"));
    }
    put_tool(&server, "new").await;
    assert_eq!(
        next(&mut one, &tools).await["method"],
        "notifications/tools/list_changed"
    );
    let methods = [next(&mut other, &both).await, next(&mut other, &both).await]
        .map(|notification| notification["method"].clone());
    assert_eq!(
        methods,
        ["notifications/tools/list_changed", "notifications/prompts/list_changed"]
    );
    put_prompt(&server, "last");
    assert_eq!(
        next(&mut other, &both).await["method"],
        "notifications/prompts/list_changed"
    );
    assert!(!one.has_news(), "a prompt is none of its business");
}

#[tokio::test]
async fn subscribers_are_notified_when_a_resource_is_updated() {
    let server = Server::start().await;
    for uri in ["test://a", "test://b", "test://other"] {
        server.engine.catalog().put_resource(resource(uri));
    }
    let post = listen(json!({"resourceSubscriptions": ["test://a", "test://none", "test://b"]}));
    let (mut client, accepted) = subscribe(&server, &post).await;
    assert_eq!(accepted, json!({"resourceSubscriptions": ["test://a", "test://b"]}));
    for uri in ["test://other", "test://b"] {
        server.engine.catalog().resource_updated(uri);
    }
    let notification = next(&mut client, &post).await;
    assert_eq!(
        (&notification["method"], &notification["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("test://b"))
    );
}

/// A subscription to tasks ends with the last of them, with a response; other subscriptions continue.
#[tokio::test]
async fn a_subscription_ends_with_its_tasks() {
    let server = Server::start().await;
    let (first, second) = (task(&server, "wait").await, task(&server, "say").await);
    server.poll(&second, "completed").await;
    let post = listen(json!({"taskIds": [first, second]}));
    let (mut client, _) = subscribe(&server, &post).await;
    let (mut other, _) = subscribe(&server, &listen(json!({"taskIds": [first], "toolsListChanged": true}))).await;
    for _ in 0..2 {
        next(&mut client, &post).await;
    }
    server.stage.released.count();
    let rest = client.messages_of(&post).await;
    let (last, notification) = rest.split_last().unwrap();
    assert_eq!(
        notification.last().unwrap()["params"]["status"],
        "completed",
        "{rest:?}"
    );
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(
        last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        "sub-1"
    );
    server.poll(&first, "completed").await;
    put_tool(&server, "new").await;
    while next(&mut other, &post).await["method"] != "notifications/tools/list_changed" {}
}

/// Nothing was accepted, so there is nothing to wait for. The answer does not show whether another principal has such a task.
#[tokio::test]
async fn a_subscription_to_unknown_tasks_alone_ends_at_once() {
    let server = Server::start().await;
    let post = listen(json!({"taskIds": ["nobodys", "not an id"]}));
    let (mut client, accepted) = subscribe(&server, &post).await;
    assert_eq!(accepted, json!({}));
    let rest = client.messages_of(&post).await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["result"]["resultType"], "complete");
    // A subscription that names nothing stays open.
    let (open, _) = subscribe(&server, &listen(json!({}))).await;
    server.poll(&task(&server, "say").await, "completed").await;
    assert!(!open.has_news());
}

/// With nothing acknowledged, as for tasks.
#[tokio::test]
async fn a_subscription_to_unknown_resources_alone_ends_at_once() {
    let server = Server::start().await;
    for named in [json!({}), json!({"taskIds": ["nobodys"]})] {
        let mut wanted = named;
        wanted["resourceSubscriptions"] = json!(["acme://nobodys", "longhaul://task/nobodys/log"]);
        let post = listen(wanted);
        let (mut client, accepted) = subscribe(&server, &post).await;
        assert_eq!(accepted, json!({}));
        let rest = client.messages_of(&post).await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(rest[0]["result"]["resultType"], "complete");
    }
}

#[tokio::test]
async fn u_22_a_server_that_stops_ends_its_subscriptions_with_their_result() {
    let server = Server::start().await;
    let post = listen(json!({"toolsListChanged": true})).id(json!(7));
    let (mut client, _) = subscribe(&server, &post).await;
    let stopped = server.stop();
    let (rest, ()) = tokio::join!(client.messages(&post), stopped);
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
}

#[tokio::test]
async fn u_24_what_is_advertised_is_served() {
    let server = Server::start().await;
    put_prompt(&server, "prompt");
    let discovered = server.result(&Post::modern("server/discover", json!({}))).await;
    let capabilities = &discovered["capabilities"];
    assert_eq!(capabilities["tools"], json!({"listChanged": true}));
    assert_eq!(capabilities["prompts"], json!({"listChanged": true}));
    assert_eq!(
        capabilities["resources"],
        json!({"listChanged": true, "subscribe": true})
    );
}

#[tokio::test]
async fn invalid_subscriptions_are_refused() {
    let server = Server::start().await;
    for params in [
        json!({}),
        json!({"notifications": 1}),
        json!({"notifications": {"taskIds": "a"}}),
    ] {
        assert_eq!(
            server.error(&Post::modern("subscriptions/listen", params)).await,
            (200, -32602)
        );
    }
    let json_only = listen(json!({"toolsListChanged": true})).with("Accept", "application/json");
    assert_eq!(server.error(&json_only).await, (406, -32600));
}
