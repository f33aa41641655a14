//! What is bounded in time and number. The clock is paused, so that it goes to the next deadline as soon as all wait.

use crate::{
    client::Event,
    request::{Post, act, act_as_task},
    server::{Options, Server, task_of},
};
use serde_json::json;

fn ping() -> Post {
    Post::legacy(None, "ping", json!({}))
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let server = Server::start().await;
    let mut fresh = server.connect().await;
    let mut used = server.connect().await;
    used.result(&ping()).await;
    let mut half_a_head = server.connect().await;
    half_a_head.send(b"POST /mcp HTTP/1.1\r\nHost: loc").await;
    tokio::time::pause();
    assert_eq!(fresh.read_to_close().await, 0);
    assert_eq!(used.read_to_close().await, 0);
    half_a_head.read_to_close().await;
}

#[tokio::test]
async fn half_a_body_is_waited_for_and_then_refused() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let whole = ping().to_bytes();
    client.send(&whole[..whole.len() - 5]).await;
    tokio::time::pause();
    assert_eq!(client.reply().await.error(), (408, -32700));
}

#[tokio::test]
async fn a_silent_stream_shows_signs_of_life() {
    let server = Server::start().await;
    let session = server.session().await;
    let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&server.result(&create).await);
    let waits = [
        Post::legacy(Some(&session), "tasks/result", json!({"taskId": task})),
        Post::legacy(Some(&session), "tools/call", act("optional", "wait")),
        Post::modern_plain("tools/call", act("optional", "wait")),
    ];
    let mut streams = Vec::new();
    for wait in &waits {
        let mut client = server.connect().await;
        client.send(&wait.to_bytes()).await;
        streams.push(client);
    }
    server.stage.begun.reaches(3).await;
    tokio::time::pause();
    for stream in &mut streams {
        let head = stream.head().await;
        assert!(head.is_stream());
        assert_eq!(
            (head.header("x-accel-buffering"), head.header("cache-control")),
            (Some("no"), Some("no-store"))
        );
        for _ in 0..3 {
            assert_eq!(stream.event().await, Some(Event::Comment));
        }
    }
    tokio::time::resume();
    server.stage.released.count();
    for (stream, wait) in streams.iter_mut().zip(&waits) {
        let messages = stream.messages(wait).await;
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0]["result"]["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_left() {
    const SIZE: usize = 64 << 20;
    let server = Server::one_by_one().await;
    let mut client = server.connect().await;
    let call = Post::modern_plain("tools/call", act("optional", &format!("blob {SIZE}")));
    client.send(&call.to_bytes()).await;
    assert_eq!(client.head().await.status, 200, "the answer has begun");
    tokio::time::pause();
    // Served only once the first connection is over.
    server.result(&ping()).await;
    assert!(client.read_to_close().await < SIZE);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let server = Server::with(Options {
        connections: 2,
        ..Options::default()
    })
    .await;
    let (mut first, mut second, mut third) = (server.connect().await, server.connect().await, server.connect().await);
    first.result(&ping()).await;
    second.result(&ping()).await;
    third.send(&ping().to_bytes()).await;
    // Were the third served, it would be before all of these.
    for _ in 0..20 {
        first.result(&ping()).await;
        second.result(&ping()).await;
    }
    assert!(!third.has_news());
    drop(second);
    assert_eq!(third.reply().await.status(), 200);
}
