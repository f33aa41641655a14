//! `subscriptions/listen`.

use crate::{
    client::Connection,
    offers::{prompt, resource},
    request::Post,
    server::{Server, text, update},
};
use longhaul_core::TaskPolicy;
use serde_json::{Value, json};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(notifications: Value) -> Post {
    Post::modern("subscriptions/listen", json!({"notifications": notifications})).id(json!("sub-1"))
}

/// A stream, and what was accepted.
async fn subscribe(server: &Server, post: &Post) -> (Connection, Value) {
    let mut client = server.send(post).await;
    let head = client.stream_head().await;
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    let acknowledged = next(&mut client, post).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    (client, acknowledged["params"]["notifications"].clone())
}

/// The next notification, which names its subscription.
async fn next(client: &mut Connection, post: &Post) -> Value {
    let message = client.message().await.unwrap();
    assert_eq!(message["params"]["_meta"][SUBSCRIPTION], post.body["id"]);
    message
}

/// The next notification is that a list has changed.
async fn list_changed(client: &mut Connection, post: &Post, list: &str) {
    let method = next(client, post).await["method"].clone();
    assert_eq!(method, format!("notifications/{list}/list_changed"));
}

async fn task(server: &Server, acting: &str) -> String {
    server.task(&Post::call("optional", acting)).await
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
        let params = next(&mut client, &post).await["params"].clone();
        assert_eq!((&params["taskId"], &params["status"]), (&json!(id), &json!(status)));
        assert!(params.get("resultType").is_none());
    }
    server.stage.released.count();
    loop {
        let params = next(&mut client, &post).await["params"].clone();
        assert_eq!(params["taskId"], *waiting);
        if params["status"] == "completed" {
            assert_eq!(text(&params["result"]), "done");
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
    let question = &asking["params"]["inputRequests"]["in-1"];
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"in-1": {"action": "decline"}});
    server.result(&update(&task, answer)).await;
    while next(&mut client, &post).await["params"]["status"] != "completed" {}
}

#[tokio::test]
async fn g2_07_tasks_are_for_those_who_declare_them() {
    let server = Server::start().await;
    let plain = |filter: Value| Post::modern_plain("subscriptions/listen", json!({"notifications": filter}));
    let refused = server.error(&plain(json!({"taskIds": ["any"]}))).await;
    assert_eq!(refused, (400, -32021));
    let none = plain(json!({"taskIds": [], "toolsListChanged": true}));
    let (_, accepted) = subscribe(&server, &none).await;
    assert_eq!(accepted, json!({"toolsListChanged": true}));
}

fn put_prompt(server: &Server, name: &str) {
    server.engine.catalog().put_prompt(prompt(name));
}

async fn put_tool(server: &Server, name: &str) {
    let tool = server.stage.settings(name, TaskPolicy::Never);
    server.put_tool(tool).await;
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
    list_changed(&mut one, &tools, "tools").await;
    list_changed(&mut other, &both, "tools").await;
    list_changed(&mut other, &both, "prompts").await;
    put_prompt(&server, "last");
    list_changed(&mut other, &both, "prompts").await;
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
    assert_eq!(notification["method"], "notifications/resources/updated");
    assert_eq!(notification["params"]["uri"], "test://b");
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
    let status = &notification.last().unwrap()["params"]["status"];
    assert_eq!(status, "completed", "{rest:?}");
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(last["result"]["_meta"][SUBSCRIPTION], "sub-1");
    server.poll(&first, "completed").await;
    put_tool(&server, "new").await;
    while next(&mut other, &post).await["method"] != "notifications/tools/list_changed" {}
}

/// Nothing was accepted, so there is nothing to wait for. The answer does not show whether another principal has such a task.
#[tokio::test]
async fn a_subscription_to_what_is_unknown_alone_ends_at_once() {
    let server = Server::start().await;
    let resources = json!(["acme://nobodys", "longhaul://task/nobodys/log"]);
    for unknown in [
        json!({"taskIds": ["nobodys", "not an id"]}),
        json!({"resourceSubscriptions": resources}),
        json!({"taskIds": ["nobodys"], "resourceSubscriptions": resources}),
    ] {
        let post = listen(unknown);
        let (mut client, accepted) = subscribe(&server, &post).await;
        assert_eq!(accepted, json!({}));
        let rest = client.messages_of(&post).await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(rest[0]["result"]["resultType"], "complete");
    }
    // A subscription that names nothing stays open.
    let (open, _) = subscribe(&server, &listen(json!({}))).await;
    server.poll(&task(&server, "say").await, "completed").await;
    assert!(!open.has_news());
}

#[tokio::test]
async fn u_22_a_server_that_stops_ends_its_subscriptions_with_their_result() {
    let server = Server::start().await;
    let post = listen(json!({"toolsListChanged": true})).id(json!(7));
    let (mut client, _) = subscribe(&server, &post).await;
    let stopped = server.stop();
    let (rest, ()) = tokio::join!(client.messages(&post), stopped);
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["result"]["_meta"][SUBSCRIPTION], 7);
}

#[tokio::test]
async fn invalid_subscriptions_are_refused() {
    let server = Server::start().await;
    for params in [
        json!({}),
        json!({"notifications": 1}),
        json!({"notifications": {"taskIds": "a"}}),
    ] {
        let refused = server.error(&Post::modern("subscriptions/listen", params)).await;
        assert_eq!(refused, (200, -32602));
    }
    let json_only = listen(json!({"toolsListChanged": true})).json_only();
    assert_eq!(server.error(&json_only).await, (406, -32600));
}
