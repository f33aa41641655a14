//! Each policy with each kind of client, over HTTP.

use crate::{
    request::{Post, act, act_as_task},
    server::Server,
};
use serde_json::Value;

/// How a call is answered.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Outcome {
    Task,
    Direct,
    Refused(u16, i64),
}
use Outcome::*;

fn outcome(reply: &crate::client::Reply) -> Outcome {
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
    let server = Server::start().await;
    let session = server.session().await;
    let table = [
        ("never", [Refused(200, -32601), Direct, Direct, Direct]),
        ("optional", [Task, Direct, Task, Direct]),
        ("after_an_hour", [Task, Direct, Direct, Direct]),
        ("always", [Task, Refused(200, -32601), Task, Refused(400, -32021)]),
    ];
    let mut client = server.connect().await;
    for (tool, expected) in table {
        let asking = [
            Post::legacy(Some(&session), "tools/call", act_as_task(tool, "say")),
            Post::legacy(Some(&session), "tools/call", act(tool, "say")),
            Post::modern("tools/call", act(tool, "say")),
            Post::modern_plain("tools/call", act(tool, "say")),
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
    for params in [act_as_task("never", "say"), {
        let mut garbled = act("never", "say");
        garbled["task"] = "yes".into();
        garbled
    }] {
        let reply = server
            .connect()
            .await
            .exchange(&Post::modern("tools/call", params))
            .await;
        assert_eq!(outcome(&reply), Direct, "no error, no promotion");
    }
}

#[tokio::test]
async fn gating_comes_before_the_arguments() {
    let server = Server::start().await;
    let mut call = act("always", "say");
    call["arguments"] = serde_json::json!({});
    assert_eq!(
        server.error(&Post::modern_plain("tools/call", call.clone())).await,
        (400, -32021)
    );
    let session = server.session().await;
    assert_eq!(
        server.error(&Post::legacy(Some(&session), "tools/call", call)).await,
        (200, -32601)
    );
}
