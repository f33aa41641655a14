//! Streams of events: how they are opened again, and how fast.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::peer::{Peer, ReceivedRequest, event_stream, legacy, modern, plain};
use axum::{
    body::Body,
    http::{Method, Response},
};
use longhaul_client::{Event, Inputs, Outcome, RequestError};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn task(status: &str) -> Value {
    json!({
        "taskId": "t-1", "status": status, "createdAt": "x", "lastUpdatedAt": "x", "ttlMs": null, "pollIntervalMs": 100,
        "resultType": "complete",
    })
}

fn events(text: impl Into<Body>) -> Response<Body> {
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(text.into())
        .unwrap()
}

fn busy(retry_after: &str) -> Response<Body> {
    Response::builder()
        .status(503)
        .header("retry-after", retry_after)
        .body(Body::empty())
        .unwrap()
}

/// A legacy server that ends the stream of `tasks/get` after `first`. When that is opened again it answers with `resumed`, which is given how often it was
/// opened before and the response.
fn interrupted(first: &'static str, resumed: impl Fn(usize, String) -> Response<Body> + Send + Sync + 'static) -> Peer {
    let (opened, response) = (AtomicUsize::new(0), Mutex::new(String::new()));
    legacy(json!({}), move |seen: &ReceivedRequest| match seen.method() {
        "tasks/get" => {
            let message = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": task("working")});
            *response.lock().unwrap() = format!("id: 2\ndata: {message}\n\n");
            events(first)
        }
        _ if seen.header("last-event-id").is_some() => {
            resumed(opened.fetch_add(1, Ordering::Relaxed), response.lock().unwrap().clone())
        }
        _ => plain(405, ""),
    })
}

/// Other types are for others: a ping of something in between is no message. Their ids count, since the stream is opened again behind them.
#[tokio::test]
async fn events_of_another_type_are_no_messages() {
    let peer = interrupted("event: ping\nid: 1\ndata: hello\n\n", |_, response| {
        events(format!("event: ping\ndata: hello\n\nevent: message\n{response}"))
    });
    let (connection, _clock) = peer.connection();
    connection.task("t-1").get().await.unwrap();
}

/// A plain call is lost with its server. The client does not wait long for it to come back, and says what has happened.
#[tokio::test]
async fn a_call_of_a_server_that_has_ended_fails_soon() {
    let (sender, receiver) = mpsc::unbounded_channel();
    let receiver = Mutex::new(Some(receiver));
    let mut peer = legacy(Value::Null, move |seen| match seen.method() {
        "tools/call" => event_stream(receiver.lock().unwrap().take().unwrap()),
        _ => plain(405, ""),
    });
    let (connection, clock) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    let tool = tools[0].clone();
    let (heard, mut was_heard) = mpsc::unbounded_channel();
    let calling = tokio::spawn(async move {
        let mut observe = |event: Event<'_>| {
            if let Event::Progress(_) = event {
                heard.send(()).unwrap();
            }
        };
        connection.call_tool(&tool, &serde_json::Map::new(), &mut observe).await
    });
    while peer.calls_of("tools/call").is_empty() {
        tokio::task::yield_now().await;
    }
    // Ids of events that were received make it open the stream again.
    let token = &peer.calls_of("tools/call")[0].params()["_meta"]["progressToken"].clone();
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}});
    sender.send(format!("id: 1\ndata: {progress}\n\n")).unwrap();
    was_heard.recv().await.unwrap();
    peer.kill();
    let failed = tokio::time::timeout(PATIENCE, calling).await.expect("bounded time");
    let error = failed.unwrap().unwrap_err();
    assert!(
        matches!(error, RequestError::Unreachable { connected: true, .. }),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .ends_with("it closed the connection before it answered"),
        "{error}"
    );
    assert!(clock.sleeps().len() <= 4, "{:?}", clock.sleeps());
    drop(sender);
}

/// Over HTTP the disconnection ends a subscription, so nothing is sent when it begins, and nothing while it is read.
#[tokio::test]
async fn a_subscription_over_http_stays_open() {
    let (streams, polls) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let peer = modern(move |seen| match seen.method() {
        // Time enough for a message that ends the subscription.
        "tasks/get" if polls.fetch_add(1, Ordering::Relaxed) < 50 => seen.result(task("working")),
        "tasks/get" => seen.result(task("cancelled")),
        "subscriptions/listen" => {
            let (stream, events) = mpsc::unbounded_channel();
            let accepted = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"taskIds": ["t-1"]}},
            });
            stream.send(format!("data: {accepted}\n\n")).unwrap();
            streams.lock().unwrap().push(stream);
            event_stream(events)
        }
        _ => plain(202, ""),
    });
    let (connection, clock) = peer.connection();
    let outcome = connection.task("t-1").wait(&mut |_| {}).await.unwrap();
    assert_eq!(outcome, Outcome::Cancelled);
    assert_eq!(peer.calls_of("subscriptions/listen").len(), 1);
    assert_eq!(peer.calls_of("notifications/cancelled").len(), 0);
    assert!(
        clock.sleeps().iter().any(|sleep| *sleep >= Duration::from_secs(30)),
        "polls are rare"
    );
}

#[tokio::test]
async fn the_time_of_a_request_includes_that_of_its_resumed_stream() {
    let peer = interrupted("id: 1\ndata:\n\n", |_, _| {
        events(Body::from_stream(futures_util::stream::pending::<
            Result<String, std::io::Error>,
        >()))
    });
    let (connection, _) = peer.connection_with(|options| options.request_timeout = Duration::from_millis(500));
    let read = tokio::time::timeout(PATIENCE, async { connection.task("t-1").get().await }).await;
    let error = read.expect("bounded time").unwrap_err();
    assert!(matches!(error, RequestError::TimedOut { .. }), "{error}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_stream_without_messages_is_not_opened_again_at_once() {
    const EMPTY: usize = 12;
    let peer = interrupted("id: 1\nretry: 0\ndata:\n\n", |opened, response| match opened {
        EMPTY.. => events(response),
        _ => events("id: 1\nretry: 0\ndata:\n\n"),
    });
    let (connection, clock) = peer.connection();
    connection.task("t-1").get().await.unwrap();
    let sleeps = clock.sleeps();
    assert_eq!(sleeps.len(), EMPTY + 1, "{sleeps:?}");
    assert_eq!(sleeps[0], Duration::from_millis(100));
    assert!(sleeps.is_sorted(), "{sleeps:?}");
    assert_eq!(sleeps[EMPTY], Duration::from_secs(1));
}

#[tokio::test]
async fn a_stream_is_opened_again_when_the_server_wants() {
    let peer = interrupted("id: 1\nretry: 7000\ndata:\n\n", |_, response| events(response));
    let (connection, clock) = peer.connection();
    connection.task("t-1").get().await.unwrap();
    assert_eq!(clock.sleeps(), [Duration::from_secs(7)]);
}

#[tokio::test]
async fn a_stream_is_opened_again_after_a_busy_time_of_the_server() {
    let peer = interrupted("id: 1\ndata:\n\n", |opened, response| match opened {
        0 => busy("30"),
        1 => busy("Thu, 01 Jan 1970 00:00:40 GMT"),
        _ => events(response),
    });
    let (connection, clock) = peer.connection();
    connection.task("t-1").get().await.unwrap();
    assert_eq!(clock.sleeps(), [1, 30, 40].map(Duration::from_secs));
}

#[tokio::test]
async fn a_push_stream_is_opened_again_when_the_server_wants() {
    let asked = AtomicUsize::new(0);
    let peer = legacy(json!({}), move |seen| match asked.fetch_add(1, Ordering::Relaxed) {
        0 if seen.verb == Method::GET => busy("60"),
        _ => plain(405, ""),
    });
    let (connection, clock) = peer.connection_with(|options| options.inputs = Some(Inputs::new().into()));
    connection.server().await.unwrap();
    while peer.seen().iter().filter(|seen| seen.verb == Method::GET).count() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(clock.sleeps(), [Duration::from_secs(60)]);
}

#[tokio::test]
async fn a_retry_waits_until_the_date_that_the_server_says() {
    let asked = AtomicUsize::new(0);
    let peer = modern(move |seen| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => busy("Thu, 01 Jan 1970 02:00:00 GMT"),
        _ => seen.result(task("cancelled")),
    });
    let (connection, clock) = peer.connection();
    connection.task("t-1").wait(&mut |_| {}).await.unwrap();
    assert_eq!(clock.sleeps(), [Duration::from_secs(2 * 60 * 60)]);
}

/// The request on whose stream a legacy task asks.
#[tokio::test]
async fn a_held_request_that_fails_is_sent_again_when_the_server_wants() {
    let failures = Arc::new(AtomicUsize::new(0));
    let failed = Arc::clone(&failures);
    let peer = legacy(json!({}), move |seen| match seen.method() {
        "tasks/get" if failed.load(Ordering::Relaxed) < 3 => seen.result(task("input_required")),
        "tasks/get" => seen.result(task("cancelled")),
        "tasks/result" => {
            failed.fetch_add(1, Ordering::Relaxed);
            busy("50")
        }
        _ => plain(405, ""),
    });
    let (connection, clock) = peer.connection_with(|options| {
        options.inputs = Some(Inputs::new().elicit(|_| std::future::pending()).into());
    });
    let outcome = connection.task("t-1").wait(&mut |_| {}).await.unwrap();
    assert_eq!(outcome, Outcome::Cancelled);
    let pauses = clock
        .sleeps()
        .into_iter()
        .filter(|sleep| *sleep == Duration::from_secs(50));
    assert!(pauses.count() >= 2, "{:?}", clock.sleeps());
    assert_eq!(failures.load(Ordering::Relaxed), 3);
}
