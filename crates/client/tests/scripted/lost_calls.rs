//! Calls whose answer says only that the session has ended.

use crate::peer::{Peer, ReceivedRequest, event_stream, legacy, legacy_offering, plain};
use axum::{body::Body, http::Response};
use longhaul_client::{CallError, CallFilter, CallState, Client, Outcome, RequestError};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::mpsc;

/// A refusal whose body is a JSON-RPC error.
fn refusal(status: u16, id: &Value, code: i32) -> Response<Body> {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "Session not found"}});
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(error.to_string().into())
        .unwrap()
}

fn is_in_first_session(seen: &ReceivedRequest) -> bool {
    seen.header("mcp-session-id") == Some("session-1")
}

/// A server that has lost its first session when the first call comes: `refuse` answers what is in it from then on. The number of calls that it has run.
fn loses_session_before_call(refuse: fn(&ReceivedRequest) -> Response<Body>) -> (Peer, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let run = Arc::clone(&runs);
    let tools = [json!({"name": "build", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": false}})];
    let peer = legacy_offering(json!({"tools": {}}), json!({"tools": tools}), move |seen| {
        match seen.method() {
            _ if is_in_first_session(seen) => refuse(seen),
            "tools/call" => {
                run.fetch_add(1, Ordering::SeqCst);
                seen.result(json!({"content": []}))
            }
            _ => seen.result(json!({})),
        }
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

/// The server looks for the session before it reads the call.
#[tokio::test]
async fn a_call_that_was_refused_at_its_session_is_sent_again_in_a_new_one() {
    let ways: [fn(&ReceivedRequest) -> Response<Body>; 7] = [
        |_| plain(404, "session not found"),
        |_| refusal(404, &Value::Null, -32001),
        // The Python SDK. A refusal of the call itself has the same code.
        |_| refusal(404, &json!("server-error"), -32600),
        |_| refusal(404, &Value::Null, -32600),
        |seen| refusal(404, &seen.body["id"], -32001),
        // `server-everything` 2026.8.
        |seen| refusal(400, &seen.body["id"], -32000),
        |_| plain(400, "Bad Request: No valid session ID provided"),
    ];
    for (way, refuse) in ways.into_iter().enumerate() {
        let (peer, runs) = loses_session_before_call(refuse);
        let (client, journal, _directory) = recorded(&peer).await;
        let outcome = client.call("build", Value::Null).await.unwrap();
        assert!(matches!(outcome, Outcome::Result { .. }), "way {way}");
        assert!(
            matches!(only_state(&journal).await, CallState::Finished(_)),
            "way {way}"
        );
        assert_eq!(peer.calls_of("tools/call").len(), 2, "way {way}");
        assert_eq!(peer.calls_of("initialize").len(), 2, "way {way}");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "way {way}");
    }
}

/// Something else is wrong then.
#[tokio::test]
async fn a_call_that_is_refused_in_its_new_session_too_is_of_unknown_outcome() {
    let peer = legacy(json!({}), |seen| match seen.method() {
        "tools/call" => plain(404, "session not found"),
        _ => seen.result(json!({})),
    });
    let (client, journal, _directory) = recorded(&peer).await;
    let CallError::Request(error) = client.call("optional", Value::Null).await.unwrap_err() else {
        panic!("another error")
    };
    assert!(matches!(error, RequestError::Http { status: 404, .. }), "{error}");
    assert!(matches!(only_state(&journal).await, CallState::Unknown { .. }));
    assert_eq!(peer.calls_of("tools/call").len(), 2);
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
