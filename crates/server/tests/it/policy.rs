//! Each policy with each kind of client, over HTTP.

use crate::{
    client::Reply,
    request::{Post, both},
    server::Server,
};
use serde_json::{Value, json};

/// How a call is answered.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Outcome {
    Task,
    Direct,
    Refused(u16, i64),
}
use Outcome::*;

fn outcome(reply: &Reply) -> Outcome {
    let answer = reply.json();
    if answer.get("error").is_some() {
        let (status, code) = reply.error();
        return Refused(status, code);
    }
    let result = &answer["result"];
    let task = result.get("task").unwrap_or(result);
    match task.get("taskId") {
        Some(Value::String(_)) => Task,
        _ => {
            assert_eq!(result["content"][0]["text"], "done");
            Direct
        }
    }
}

#[tokio::test]
async fn which_calls_become_tasks() {
    let (server, session) = Server::with_session().await;
    let table = [
        ("never", [Refused(200, -32601), Direct, Direct, Direct]),
        ("optional", [Task, Direct, Task, Direct]),
        ("after_an_hour", [Task, Direct, Direct, Direct]),
        ("always", [Task, Refused(200, -32601), Task, Refused(400, -32021)]),
    ];
    let mut client = server.connect().await;
    for (tool, expected) in table {
        let asking = [
            Post::legacy_task(Some(&session), tool, "say"),
            Post::legacy_call(Some(&session), tool, "say"),
            Post::call(tool, "say"),
            Post::plain_call(tool, "say"),
        ];
        for (nth, (post, expected)) in asking.iter().zip(expected).enumerate() {
            let reply = client.exchange(post).await;
            assert_eq!(outcome(&reply), expected, "{tool}, column {nth}");
        }
    }
}

#[tokio::test]
async fn a_modern_call_ignores_the_legacy_task_member() {
    let server = Server::start().await;
    for member in [json!({"ttl": 60_000}), json!("yes")] {
        let mut call = Post::call("never", "say");
        call.body["params"]["task"] = member;
        let reply = server.exchange(&call).await;
        assert_eq!(outcome(&reply), Direct, "no error, no promotion");
    }
}

#[tokio::test]
async fn gating_comes_before_the_arguments() {
    let server = Server::start().await;
    let call = json!({"name": "always", "arguments": {}});
    let [modern, legacy] = both(&server.session().await, "tools/call", call);
    assert_eq!(server.error(&modern).await, (400, -32021));
    assert_eq!(server.error(&legacy).await, (200, -32601));
}
