//! What a dropped connection ends, and what it does not.

use crate::{
    client::Event,
    request::{Post, act, act_as_task},
    server::{Server, get, task_of},
};
use serde_json::json;

const JSON_ONLY: &str = "application/json";

#[tokio::test]
async fn invariant_9_a_dropped_connection_never_cancels_an_announced_task() {
    let server = Server::one_by_one().await;
    let session = server.session().await;
    let creates = [
        Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait")),
        Post::modern("tools/call", act("optional", "wait")),
    ];
    let mut tasks = Vec::new();
    for create in &creates {
        let mut client = server.connect().await;
        tasks.push(task_of(&client.result(create).await));
    }
    for task in &tasks {
        // A client that waits for it may disconnect, too, also while it sends the next request.
        let waiting = Post::legacy(Some(&session), "tasks/result", json!({"taskId": task}));
        let mut waiter = server.connect().await;
        waiter.send(&waiting.to_bytes()).await;
        assert_eq!(
            (waiter.head().await.is_stream(), waiter.event().await),
            (true, Some(Event::Prime))
        );
        drop(waiter);
        let mut half = server.connect().await;
        half.send(&waiting.to_bytes()[..100]).await;
        drop(half);
        assert_eq!(server.result(&get(task)).await["status"], "working");
    }
    server.stage.released.count();
    for task in &tasks {
        server.poll(task, "completed").await;
    }
    assert_eq!((server.stage.begun.get(), server.stage.stopped.get()), (2, 0));
}

#[tokio::test]
async fn a_modern_client_that_leaves_cancels_its_plain_call() {
    for accept in [JSON_ONLY, "application/json, text/event-stream"] {
        let server = Server::start().await;
        let call = Post::modern_plain("tools/call", act("optional", "wait")).with("Accept", accept);
        let mut client = server.connect().await;
        client.send(&call.to_bytes()).await;
        server.stage.begun.reaches(1).await;
        drop(client);
        server.stage.stopped.reaches(1).await;
    }
}

#[tokio::test]
async fn a_modern_client_that_closes_the_stream_cancels_its_call() {
    let server = Server::start().await;
    let call = Post::modern_plain("tools/call", act("optional", "report 1")).progress_token(json!("t"));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    assert!(client.head().await.is_stream(), "progress opened it");
    drop(client);
    server.stage.stopped.reaches(1).await;
}

#[tokio::test]
async fn a_legacy_client_that_leaves_cancels_nothing() {
    for accept in [JSON_ONLY, "application/json, text/event-stream"] {
        let server = Server::one_by_one().await;
        let session = server.session().await;
        let call = Post::legacy(Some(&session), "tools/call", act("optional", "wait")).with("Accept", accept);
        let mut client = server.connect().await;
        client.send(&call.to_bytes()).await;
        server.stage.begun.reaches(1).await;
        drop(client);
        // Answered only once the first connection is over.
        server.result(&Post::legacy(Some(&session), "ping", json!({}))).await;
        server.stage.released.count();
        server.stage.finished.reaches(1).await;
        assert_eq!(server.stage.stopped.get(), 0);
    }
}

/// The answer of a call that belongs to a connection alone can no longer be delivered.
#[tokio::test]
async fn a_legacy_client_without_a_session_cancels_its_plain_call_by_leaving() {
    for accept in [JSON_ONLY, "application/json, text/event-stream"] {
        let server = Server::start().await;
        let call = Post::legacy(None, "tools/call", act("optional", "wait")).with("Accept", accept);
        let mut client = server.connect().await;
        client.send(&call.to_bytes()).await;
        server.stage.begun.reaches(1).await;
        drop(client);
        server.stage.stopped.reaches(1).await;
    }
    let server = Server::start().await;
    let call = Post::legacy(None, "tools/call", act("optional", "report 1")).progress_token(json!("t"));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    assert!(client.head().await.is_stream(), "progress opened it");
    drop(client);
    server.stage.stopped.reaches(1).await;
}

/// The client can repeat the call under its key, and the id of a task may have been announced.
#[tokio::test]
async fn a_legacy_client_without_a_session_leaves_named_calls_and_tasks_alone() {
    let server = Server::one_by_one().await;
    let mut named = Post::legacy(None, "tools/call", act("optional", "wait"));
    named.body["params"]["_meta"] = json!({"dev.longhaul/idempotency-key": "k"});
    let mut client = server.connect().await;
    client.send(&named.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    drop(client);
    let create =
        Post::legacy(None, "tools/call", act_as_task("optional", "wait")).with("MCP-Protocol-Version", "2025-11-25");
    let task = task_of(&server.result(&create).await);
    server.stage.released.count();
    assert_eq!(server.result(&named).await["content"][0]["text"], "done");
    server.poll(&task, "completed").await;
    assert_eq!((server.stage.begun.get(), server.stage.stopped.get()), (2, 0));
}

#[tokio::test]
async fn one_connection_carries_request_after_request() {
    let server = Server::one_by_one().await;
    let mut client = server.connect().await;
    let ping = Post::legacy(None, "ping", json!({}));
    // Pipelined: both are there before either is read.
    let mut both = ping.clone().id(json!("a")).to_bytes();
    both.extend(ping.clone().id(json!("b")).to_bytes());
    client.send(&both).await;
    assert_eq!(client.reply().await.json()["id"], "a");
    assert_eq!(client.reply().await.json()["id"], "b");
    client.result(&ping).await;
}

#[tokio::test]
async fn another_path_answers_where_mcp_is() {
    let server = Server::start().await;
    for place in ["/", "/mcp/", "/favicon.ico"] {
        let mut browser = server.connect().await;
        let get = format!("GET {place} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        browser.send(get.as_bytes()).await;
        let reply = browser.reply().await;
        assert_eq!(reply.status(), 404, "{place}");
        assert!(reply.body.contains("MCP is at /mcp"), "{place}: {reply:?}");
    }
}
