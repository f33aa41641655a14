//! What is bounded in time and number. The clock is paused, so that it advances to the next deadline as soon as all tasks wait.

use crate::{
    client::{Connection, Event},
    request::Post,
    server::{Options, Server, get, other, text},
};
use longhaul_server::{Limit, Limits};
use serde_json::json;

fn ping() -> Post {
    Post::ping(None)
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
async fn a_silent_stream_sends_keep_alives() {
    let (server, session) = Server::with_session().await;
    let task = server.legacy_task(&session, "wait").await;
    let waits = [
        Post::on_task(&session, "tasks/result", &task),
        Post::legacy_call(Some(&session), "optional", "wait"),
        Post::plain_call("optional", "wait"),
    ];
    let mut streams = Vec::new();
    for wait in &waits {
        streams.push(server.send(wait).await);
    }
    server.stage.begun.reaches(3).await;
    tokio::time::pause();
    for stream in &mut streams {
        let head = stream.stream_head().await;
        assert_eq!(head.header("x-accel-buffering"), Some("no"));
        assert_eq!(head.header("cache-control"), Some("no-store"));
        let first = stream.event().await;
        assert!(matches!(first, Some(Event::Comment | Event::Prime)), "{first:?}");
        for _ in 0..2 {
            assert_eq!(stream.event().await, Some(Event::Comment));
        }
    }
    tokio::time::resume();
    server.stage.released.count();
    for (stream, wait) in streams.iter_mut().zip(&waits) {
        assert_eq!(text(&stream.only_result(wait).await), "done");
    }
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_disconnected() {
    const SIZE: usize = 64 << 20;
    let server = Server::one_by_one().await;
    let call = Post::plain_call("optional", &format!("blob {SIZE}"));
    let mut client = server.send(&call).await;
    assert_eq!(client.head().await.status, 200, "the answer has begun");
    tokio::time::pause();
    // Served only once the first connection is over.
    server.result(&ping()).await;
    assert!(client.read_to_close().await < SIZE);
}

async fn limited(limit: impl FnOnce(&mut Limits)) -> Server {
    Server::with(Options::with(|options| limit(&mut options.limits))).await
}

/// Two connections that were used.
async fn two_connections(server: &Server) -> [Connection; 2] {
    let mut two = [server.connect().await, server.connect().await];
    for connection in &mut two {
        connection.result(&ping()).await;
    }
    two
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let server = limited(|limits| limits.connections_in_all = 2).await;
    let elsewhere = Connection::open_from([127, 0, 0, 2].into(), server.address);
    let (mut first, mut second, mut third) = (server.connect().await, elsewhere.await, server.connect().await);
    first.result(&ping()).await;
    second.result(&ping()).await;
    third.send(&ping().to_bytes()).await;
    // Were the third served, it would be before all of these.
    for _ in 0..20 {
        first.result(&ping()).await;
        second.result(&ping()).await;
    }
    assert!(!third.has_news());
    drop(first);
    assert_eq!(third.reply().await.status(), 200);
}

/// Also if the limit of an address is the higher one: the others must be able to connect.
#[tokio::test]
async fn s_06_one_address_gets_half_of_the_connections() {
    let server = limited(|limits| limits.connections_in_all = 4).await;
    let _two = two_connections(&server).await;
    let refused = server.send(&ping()).await.reply().await;
    assert_eq!(refused.error(), (429, 429));
    assert!(refused.body.contains("2 of one client"), "{}", refused.body);
    let mut elsewhere = Connection::open_from([127, 0, 0, 2].into(), server.address).await;
    elsewhere.result(&ping()).await;
}

async fn with_two_connections_for_each_address() -> Server {
    limited(|limits| limits.connections = 2).await
}

#[tokio::test]
async fn s_06_connections_beyond_the_limit_of_an_address_are_refused() {
    let server = with_two_connections_for_each_address().await;
    let [mut first, second] = two_connections(&server).await;
    let mut third = server.send(&ping()).await;
    let refused = third.reply().await;
    assert_eq!(refused.error(), (429, 429));
    assert_eq!(refused.head.header("retry-after"), Some("5"));
    assert_eq!(refused.head.header("connection"), Some("close"));
    assert_eq!(third.read_to_close().await, 0);
    drop(second);
    while server.send(&ping()).await.reply().await.status() != 200 {}
    first.result(&ping()).await;
}

/// Linux has all of 127.0.0.0/8 on the loopback device, other systems only 127.0.0.1.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_at_its_connection_limit_does_not_block_others() {
    let server = with_two_connections_for_each_address().await;
    let _two = two_connections(&server).await;
    // More than are refused at the same time; none of them sends anything.
    let mut refused = Vec::new();
    for _ in 0..100 {
        refused.push(server.connect().await);
    }
    let mut other = Connection::open_from([127, 0, 0, 2].into(), server.address).await;
    other.result(&ping()).await;
    tokio::time::pause();
    for mut connection in refused {
        connection.read_to_close().await;
    }
}

#[tokio::test]
async fn s_06_all_together_have_so_many_streams() {
    let server = limited(|limits| limits.streams_in_all = 1).await;
    let listen = Post::modern("subscriptions/listen", json!({"notifications": {}}));
    let mut reader = server.send(&listen).await;
    assert_eq!(reader.head().await.status, 200);
    assert_eq!(server.error(&listen).await, (429, 429));
}

/// A principal over its rate gets a time to retry, and its earlier requests are not lost.
#[tokio::test]
async fn too_many_requests_are_refused_with_retry_after() {
    let server = Server::one_a_second().await;
    let mut client = server.connect().await;
    let task = client.task(&Post::call("optional", "wait")).await;
    let mut refused = loop {
        let reply = client.exchange(&get(&task)).await;
        if reply.status() != 200 {
            break reply;
        }
    };
    assert_eq!(refused.error(), (429, 429));
    let seconds: u64 = refused.head.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=2).contains(&seconds), "{seconds}");
    let data = &refused.json()["error"]["data"];
    assert!(data["retryAfterMs"].as_u64().unwrap() > 0, "{data}");
    while refused.status() == 429 {
        refused = client.exchange(&get(&task)).await;
    }
    assert_eq!(refused.json()["result"]["status"], "working");
    let refusals = server.protocol.refusals();
    assert!(refusals.of(Limit::Requests) >= 1 && refusals.of(Limit::Streams) == 0);
}

/// Every request counts, also invalid ones, and those without a response.
#[tokio::test]
async fn s_06_every_kind_of_http_request_counts() {
    let notification = ping().without_id().to_bytes();
    let response = Post::of(json!({"jsonrpc": "2.0", "id": "q", "result": {}})).to_bytes();
    let unknown = Post::modern("unknown/method", json!({})).to_bytes();
    let garbage = ping().to_bytes_with(b"{");
    let large = ping().to_bytes_with(&[b' '; 100_000]);
    let (stream, put) = (other("GET", "Accept: text/event-stream\r\n"), other("PUT", ""));
    for (what, bytes, first) in [
        ("a notification", notification, 202),
        ("a response", response, 400),
        ("an unknown method", unknown, 404),
        ("garbage", garbage, 400),
        ("a large body", large, 400),
        ("a stream", stream.into_bytes(), 405),
        ("another verb", put.into_bytes(), 405),
    ] {
        let server = Server::one_a_second().await;
        let send = async || {
            let mut client = server.connect().await;
            client.try_send(&bytes).await;
            client.reply().await
        };
        assert_eq!(send().await.status(), first, "{what}");
        let refused = loop {
            let reply = send().await;
            if reply.status() != first {
                break reply;
            }
        };
        assert_eq!(refused.error(), (429, 429), "{what}");
        assert!(refused.head.header("retry-after").is_some(), "{what}");
    }
}

/// A call above the quota starts nothing, in either era, as a task or not.
#[tokio::test]
async fn too_many_live_tasks_are_refused_until_one_ends() {
    let options = Options::with(|options| options.quota.live_per_principal = Some(1));
    let server = Server::with(options).await;
    let session = server.session().await;
    let first = server.task(&Post::call("optional", "wait")).await;
    let calls = [
        Post::call("optional", "say"),
        Post::plain_call("optional", "say"),
        Post::legacy_task(Some(&session), "optional", "say"),
        Post::legacy_call(Some(&session), "never", "say"),
    ];
    for call in &calls {
        let refused = server.exchange(call).await;
        assert_eq!(refused.error(), (429, 429));
        assert!(refused.head.header("retry-after").is_some());
    }
    assert_eq!(server.stage.begun.get(), 1);
    server.stage.released.count();
    server.poll(&first, "completed").await;
    server.result(&calls[0]).await;
}

/// A GET stream holds its permit for as long as its client reads.
#[tokio::test]
async fn too_many_streams_are_refused_until_one_closes() {
    let server = limited(|limits| limits.streams = 1).await;
    let session = server.session().await;
    let reader = server.listen(&session).await;
    let refused = server.get(&session, None).await.reply().await;
    assert_eq!(refused.error(), (429, 429));
    assert_eq!(server.protocol.refusals().of(Limit::Streams), 1);
    assert_eq!(server.protocol.open().1, 1);
    drop(reader);
    while server.get(&session, None).await.head().await.status != 200 {}
}
