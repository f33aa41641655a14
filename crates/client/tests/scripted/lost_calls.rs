//! Calls of tools that have run, and whose answer says only that the session has ended.

use crate::peer::{Peer, ReceivedRequest, event_stream, legacy, legacy_offering, plain};
use axum::{body::Body, http::Response};
use longhaul_client::{CallError, CallFilter, CallState, Client, ClientJournal, Outcome, RequestError};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// HTTP status 404 with a JSON-RPC error.
fn not_found(id: &Value, code: i32) -> Response<Body> {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "Session not found"}});
    Response::builder()
        .status(404)
        .header("content-type", "application/json")
        .body(error.to_string().into())
        .unwrap()
}

fn is_in_first_session(seen: &ReceivedRequest) -> bool {
    seen.header("mcp-session-id") == Some("session-1")
}

/// A server that ends its first session while the first call runs: `refuse` answers what is in it from then on.
fn ends_session_in_call(
    capabilities: Value,
    refuse: fn(&ReceivedRequest) -> Response<Body>,
) -> (Peer, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let run = Arc::clone(&runs);
    let tool = |name: &str, annotations: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations});
    let tools = [
        tool("build", json!({"readOnlyHint": false})),
        tool("idempotent", json!({"idempotentHint": true})),
        tool("reading", json!({"readOnlyHint": true})),
    ];
    let peer = legacy_offering(capabilities, json!({"tools": tools}), move |seen| match seen.method() {
        "tools/call" => {
            run.fetch_add(1, Ordering::SeqCst);
            match is_in_first_session(seen) {
                true => refuse(seen),
                false => seen.result(json!({"content": []})),
            }
        }
        _ if is_in_first_session(seen) => refuse(seen),
        _ => seen.result(json!({})),
    });
    (peer, runs)
}

async fn recorded(peer: &Peer) -> (Client, ClientJournal, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
        .await
        .unwrap();
    let client = Client::recorded(peer.connection().0, journal.clone());
    (client, journal, directory)
}

async fn only_state(journal: &ClientJournal) -> CallState {
    let mut calls = journal.list(CallFilter::default()).await.unwrap();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0).state
}

#[tokio::test]
async fn a_tool_that_has_run_before_its_session_ended_runs_once() {
    let ways: [fn(&ReceivedRequest) -> Response<Body>; 5] = [
        |_| plain(404, "session not found"),
        |_| not_found(&Value::Null, -32001),
        // The Python SDK. A refusal of the call itself has the same code.
        |_| not_found(&json!("server-error"), -32600),
        |_| not_found(&Value::Null, -32600),
        |seen| not_found(&seen.body["id"], -32001),
    ];
    for (way, refuse) in ways.into_iter().enumerate() {
        let (peer, runs) = ends_session_in_call(json!({"tools": {}}), refuse);
        let (client, journal, _directory) = recorded(&peer).await;
        let CallError::Request(error) = client.call("build", Value::Null).await.unwrap_err() else {
            panic!("way {way}")
        };
        assert!(
            matches!(error, RequestError::Http { status: 404, .. }),
            "way {way}: {error}"
        );
        assert!(!error.is_refusal(), "way {way}: {error}");
        let CallState::Unknown { reason } = only_state(&journal).await else {
            panic!("way {way}")
        };
        assert!(reason.contains("HTTP status 404"), "way {way}: {reason}");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "way {way}");
        // What comes next has a new session (T-13).
        client.connection().send("x/other", Value::Null).await.unwrap();
        assert_eq!(peer.calls_of("initialize").len(), 2, "way {way}");
    }
}

/// The session ends while its stream is opened again.
#[tokio::test]
async fn a_call_whose_broken_stream_is_not_found_is_not_sent_again() {
    let peer = legacy(json!({}), |seen| match seen.method() {
        "tools/call" if is_in_first_session(seen) => {
            let (stream, events) = mpsc::unbounded_channel();
            stream.send("id: 1\ndata:\n\n".to_owned()).unwrap();
            event_stream(events)
        }
        "tools/call" => seen.result(json!({"content": []})),
        _ => plain(404, "session not found"),
    });
    let (client, journal, _directory) = recorded(&peer).await;
    client.call("optional", Value::Null).await.unwrap_err();
    assert_eq!(peer.calls_of("tools/call").len(), 1);
    assert!(matches!(only_state(&journal).await, CallState::Unknown { .. }));
}

#[tokio::test]
async fn a_call_that_may_be_made_twice_is_sent_again_in_a_new_session() {
    let keys = json!({"tools": {}, "experimental": {"dev.longhaul/idempotency": {}}});
    for (tool, capabilities) in [
        ("idempotent", json!({"tools": {}})),
        ("reading", json!({"tools": {}})),
        ("build", keys),
    ] {
        let (peer, _) = ends_session_in_call(capabilities, |_| plain(404, "session not found"));
        let (client, _, _directory) = recorded(&peer).await;
        let outcome = client.call(tool, Value::Null).await.unwrap();
        assert!(matches!(outcome, Outcome::Result { .. }), "{tool}");
        assert_eq!(peer.calls_of("tools/call").len(), 2, "{tool}");
    }
}

/// A clock that a test moves.
#[derive(Default)]
struct MovedClock(AtomicU64);

impl Clock for MovedClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// The Python SDK ends sessions after half an hour.
#[tokio::test]
async fn a_session_that_has_ended_unused_is_replaced_before_a_call() {
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    let peer = legacy(json!({}), move |seen| match seen.method() {
        _ if ended.load(Ordering::SeqCst) && is_in_first_session(seen) => plain(404, "session not found"),
        "tools/call" => seen.result(json!({"content": []})),
        // A server need not answer it.
        _ => seen.error(200, -32601, Value::Null),
    });
    let clock = Arc::new(MovedClock::default());
    let (connection, _) = peer.connection_with(|options| options.clock = clock.clone());
    let client = Client::new(connection);
    client.call("optional", Value::Null).await.unwrap();
    client.call("optional", Value::Null).await.unwrap();
    assert!(peer.calls_of("ping").is_empty(), "the session is in use");
    clock.0.store(60, Ordering::SeqCst);
    client.call("optional", Value::Null).await.unwrap();
    assert_eq!(peer.calls_of("ping").len(), 1);
    assert_eq!(peer.calls_of("initialize").len(), 1);
    has_ended.store(true, Ordering::SeqCst);
    clock.0.store(3_600, Ordering::SeqCst);
    client.call("optional", Value::Null).await.unwrap();
    assert_eq!(peer.calls_of("initialize").len(), 2);
    assert_eq!(peer.calls_of("tools/call").len(), 4);
}
