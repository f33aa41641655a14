//! What a dropped connection ends, and what it does not.

use crate::{
    request::Post,
    server::{Server, get, text},
};
use serde_json::json;

const ACCEPTS: [&str; 2] = ["application/json", "application/json, text/event-stream"];

#[tokio::test]
async fn invariant_9_a_dropped_connection_never_cancels_an_announced_task() {
    let server = Server::one_by_one().await;
    let session = server.session().await;
    let legacy = server.legacy_task(&session, "wait").await;
    let tasks = [legacy, server.task(&Post::call("optional", "wait")).await];
    for task in &tasks {
        // A client that waits for it may disconnect, too, also while it sends the next request.
        let waiting = Post::on_task(&session, "tasks/result", task);
        server.stream(&waiting).await.first_id().await;
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

/// A call that belongs to a connection alone: its answer can no longer be delivered.
async fn leaving_cancels(call: impl Fn(&str) -> Post) {
    for accept in ACCEPTS {
        let server = Server::start().await;
        drop(server.begin(&call("wait").with("Accept", accept)).await);
        server.stage.stopped.reaches(1).await;
    }
    let server = Server::start().await;
    // Progress opens the stream, which is closed.
    drop(server.stream(&call("report 1").progress_token(json!("t"))).await);
    server.stage.stopped.reaches(1).await;
}

#[tokio::test]
async fn a_modern_client_that_leaves_cancels_its_plain_call() {
    leaving_cancels(|acting| Post::plain_call("optional", acting)).await;
}

#[tokio::test]
async fn a_legacy_client_that_leaves_cancels_nothing() {
    for accept in ACCEPTS {
        let server = Server::one_by_one().await;
        let session = server.session().await;
        let call = Post::legacy_call(Some(&session), "optional", "wait").with("Accept", accept);
        drop(server.begin(&call).await);
        // Answered only once the first connection is over.
        server.result(&Post::ping(Some(&session))).await;
        server.stage.released.count();
        server.stage.finished.reaches(1).await;
        assert_eq!(server.stage.stopped.get(), 0);
    }
}

#[tokio::test]
async fn a_legacy_client_without_a_session_cancels_its_plain_call_by_leaving() {
    leaving_cancels(|acting| Post::legacy_call(None, "optional", acting)).await;
}

/// The client can repeat the call under its key, and the id of a task may have been announced.
#[tokio::test]
async fn a_legacy_client_without_a_session_leaves_named_calls_and_tasks_alone() {
    let server = Server::one_by_one().await;
    let named = Post::legacy_call(None, "optional", "wait").keyed("k");
    drop(server.begin(&named).await);
    let create = Post::legacy_task(None, "optional", "wait").with("MCP-Protocol-Version", "2025-11-25");
    let task = server.task(&create).await;
    server.stage.released.count();
    assert_eq!(text(&server.result(&named).await), "done");
    server.poll(&task, "completed").await;
    assert_eq!((server.stage.begun.get(), server.stage.stopped.get()), (2, 0));
}

#[tokio::test]
async fn one_connection_carries_request_after_request() {
    let server = Server::one_by_one().await;
    let mut client = server.connect().await;
    let ping = |id: &str| Post::ping(None).id(json!(id));
    // Pipelined: both are there before either is read.
    let both = [ping("a").to_bytes(), ping("b").to_bytes()].concat();
    client.send(&both).await;
    for id in ["a", "b"] {
        assert_eq!(client.reply().await.json()["id"], id);
    }
    client.result(&ping("c")).await;
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
