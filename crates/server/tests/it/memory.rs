//! How much of requests and answers is held at once.

use crate::{
    client::Connection,
    request::{Post, act, act_as_task},
    server::{MAX_BODY, Options, Server, get, task_of},
};
use longhaul_server::{Limit, Limits};
use serde_json::json;

/// More than the kernel buffers for a connection that is not read, and more than the memory budget.
const BLOB: usize = 16 << 20;

async fn with_a_megabyte() -> Server {
    Server::with(Options {
        limits: Limits {
            memory: 1 << 20,
            ..Limits::default()
        },
        ..Options::default()
    })
    .await
}

/// A call whose body has so many bytes more than it needs.
fn padded(what: &str, padding: usize) -> Post {
    let mut arguments = act("optional", what);
    arguments["arguments"]["padding"] = json!("x".repeat(padding));
    Post::modern_plain("tools/call", arguments)
}

fn ping() -> Post {
    Post::legacy(None, "ping", json!({}))
}

/// Large bodies have three eighths of a megabyte, which they hold as long as their calls.
#[tokio::test]
async fn a_body_over_the_memory_budget_is_refused_and_small_ones_pass() {
    let server = with_a_megabyte().await;
    let mut running = server.connect().await;
    let large = padded("wait", 250_000);
    running.send(&large.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    let mut refused = server.connect().await;
    refused.send(&large.to_bytes()).await;
    let reply = refused.reply().await;
    assert_eq!(reply.status(), 503, "{}", reply.body);
    assert_eq!(reply.head.header("retry-after"), Some("1"));
    let error = reply.json();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["data"]["retryAfterMs"]),
        (&json!(429), &json!(1_000))
    );
    assert_eq!(server.protocol.refusals().of(Limit::Memory), 1);
    for small in [ping(), padded("say", 1_000), padded("say", 50_000)] {
        server.result(&small).await;
    }
    server.stage.released.count();
    assert_eq!(running.reply().await.status(), 200);
    server.result(&padded("say", 250_000)).await;
}

/// Each announces a large body, and has sent enough to count as large.
#[tokio::test]
async fn slow_bodies_do_not_block_others() {
    let server = Server::start().await;
    let body = padded("say", MAX_BODY - 1_000).to_bytes();
    let (begin, end) = body.split_at(body.len() - 100_000);
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut client = server.connect().await;
        client.send(begin).await;
        slow.push(client);
    }
    server.result(&padded("say", 100_000)).await;
    for client in &mut slow {
        client.send(end).await;
        assert_eq!(client.reply().await.status(), 200, "it was waited for");
    }
}

/// A later retry gets the answer; small answers are not refused.
#[tokio::test]
async fn an_answer_over_the_memory_budget_is_refused() {
    let server = with_a_megabyte().await;
    let create = Post::modern("tools/call", act_as_task("optional", &format!("blob {BLOB}")));
    let task = task_of(&server.result(&create).await);
    server.poll(&task, "completed").await;
    let unread = begun(&server, &get(&task)).await;
    let before = server.protocol.refusals().of(Limit::Memory);
    assert_eq!(server.error(&get(&task)).await, (503, 429));
    assert_eq!(server.protocol.refusals().of(Limit::Memory), before + 1);
    server.result(&ping()).await;
    let create = Post::modern("tools/call", act_as_task("optional", "say"));
    let small = task_of(&server.result(&create).await);
    server.poll(&small, "completed").await;
    drop(unread);
    let mut client = server.connect().await;
    while client.exchange(&get(&task)).await.status() == 503 {
        tokio::task::yield_now().await;
    }
    server.poll(&task, "completed").await;
}

/// The outcome of a plain call cannot be requested again.
#[tokio::test]
async fn a_plain_call_waits_for_memory_for_its_answer() {
    let server = with_a_megabyte().await;
    let call = Post::modern_plain("tools/call", act("optional", &format!("blob {BLOB}")));
    let unread = begun(&server, &call).await;
    let mut waits = server.connect().await;
    waits.send(&call.to_bytes()).await;
    for _ in 0..20 {
        server.result(&ping()).await;
    }
    assert!(!waits.has_news());
    drop(unread);
    let reply = waits.reply().await;
    assert_eq!(reply.status(), 200);
    let text = reply.json()["result"]["content"][0]["text"].clone();
    assert_eq!(text.as_str().map(str::len), Some(BLOB));
}

/// A connection on which the answer to `post` has begun, and is not read.
async fn begun(server: &Server, post: &Post) -> Connection {
    let mut client = server.connect().await;
    client.send(&post.to_bytes()).await;
    assert_eq!(client.head().await.status, 200);
    client
}
