//! How much of requests and answers is held at once.

use crate::{
    client::Connection,
    clock::until,
    request::Post,
    server::{MAX_BODY, Options, Server, get, text},
};
use longhaul_server::Limit;
use serde_json::json;

/// More than the kernel buffers for a connection that is not read, and more than the memory budget.
const BLOB: usize = 16 << 20;

async fn with_a_megabyte() -> Server {
    Server::with(Options::with(|options| options.limits.memory = 1 << 20)).await
}

/// A call whose body has so many bytes more than it needs.
fn padded(what: &str, padding: usize) -> Post {
    let mut call = Post::plain_call("optional", what);
    call.body["params"]["arguments"]["padding"] = json!("x".repeat(padding));
    call
}

fn ping() -> Post {
    Post::ping(None)
}

/// Large bodies have three eighths of a megabyte, which they hold as long as their calls.
#[tokio::test]
async fn a_body_over_the_memory_budget_is_refused_and_small_ones_pass() {
    let server = with_a_megabyte().await;
    let large = padded("wait", 250_000);
    let mut running = server.begin(&large).await;
    let refused = server.send(&large).await.reply().await;
    assert_eq!(refused.error(), (503, 429));
    assert_eq!(refused.head.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["error"]["data"]["retryAfterMs"], 1_000);
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
    let create = Post::call("optional", &format!("blob {BLOB}"));
    let task = server.task(&create).await;
    server.poll(&task, "completed").await;
    let unread = begun(&server, &get(&task)).await;
    let before = server.protocol.refusals().of(Limit::Memory);
    assert_eq!(server.error(&get(&task)).await, (503, 429));
    assert_eq!(server.protocol.refusals().of(Limit::Memory), before + 1);
    server.result(&ping()).await;
    let small = server.task(&Post::call("optional", "say")).await;
    server.poll(&small, "completed").await;
    drop(unread);
    let mut client = server.connect().await;
    until(async || client.exchange(&get(&task)).await.status() != 503).await;
    server.poll(&task, "completed").await;
}

/// The outcome of a plain call cannot be requested again.
#[tokio::test]
async fn a_plain_call_waits_for_memory_for_its_answer() {
    let server = with_a_megabyte().await;
    let call = Post::plain_call("optional", &format!("blob {BLOB}"));
    let unread = begun(&server, &call).await;
    let mut waits = server.send(&call).await;
    for _ in 0..20 {
        server.result(&ping()).await;
    }
    assert!(!waits.has_news());
    drop(unread);
    let reply = waits.reply().await;
    assert_eq!(reply.status(), 200);
    assert_eq!(text(&reply.json()["result"]).len(), BLOB);
}

/// A connection on which the answer to `post` has begun, and is not read.
async fn begun(server: &Server, post: &Post) -> Connection {
    let mut client = server.send(post).await;
    assert_eq!(client.head().await.status, 200);
    client
}
