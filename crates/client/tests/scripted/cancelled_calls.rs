//! Calls that are cancelled, before their server has answered and twice.

use crate::{
    peer::{Peer, ReceivedRequest, event_stream, legacy, modern, plain},
    task::{created, legacy_task, modern_task},
};
use axum::{body::Body, http::Response};
use longhaul_client::{CallError, CallFilter, CallState, Client, Finished, Inputs, Outcome, SystemClock};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::mpsc;

async fn journal(directory: &tempfile::TempDir) -> ClientJournal {
    let path = directory.path().join("client/handles.db");
    ClientJournal::open(&path).await.unwrap()
}

async fn state(journal: &ClientJournal) -> CallState {
    let mut calls = journal.list(CallFilter::default()).await.unwrap();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0).state
}

/// The request for a call that is not answered yet, and the stream for its answer.
type Held = Arc<Mutex<Option<(Value, mpsc::UnboundedSender<String>)>>>;

fn hold(held: &Held, seen: &ReceivedRequest) -> Response<Body> {
    let (stream, events) = mpsc::unbounded_channel();
    *held.lock().unwrap() = Some((seen.body["id"].clone(), stream));
    event_stream(events)
}

/// Answers the call that is held. Whether its caller still waits.
fn release(held: &Held, result: Value) -> bool {
    let (id, stream) = held.lock().unwrap().take().unwrap();
    let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
    stream.send(format!("data: {response}\n\n")).is_ok()
}

/// A modern server that creates a task, and says so later.
fn slow_to_name_its_task(held: &Held) -> Peer {
    let (held, is_cancelled) = (Arc::clone(held), AtomicBool::new(false));
    modern(move |seen| match seen.method() {
        "tools/call" => hold(&held, seen),
        "tasks/cancel" => {
            is_cancelled.store(true, Ordering::SeqCst);
            seen.result(json!({"resultType": "complete"}))
        }
        "tasks/get" if is_cancelled.load(Ordering::SeqCst) => seen.result(modern_task("cancelled", json!({}))),
        "tasks/get" => seen.result(modern_task("working", json!({}))),
        _ => plain(404, ""),
    })
}

/// The server has the task, so it runs until somebody cancels it by its id.
#[tokio::test]
async fn a_modern_task_that_is_named_after_the_cancellation_is_cancelled() {
    let held = Held::default();
    let peer = slow_to_name_its_task(&held);
    let directory = tempfile::tempdir().unwrap();
    let journal = journal(&directory).await;
    let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(SystemClock));
    let client = Client::recorded(connection, journal.clone());
    let call = client.start("optional", Value::Null).await.unwrap();
    while peer.calls_of("tools/call").is_empty() {
        tokio::task::yield_now().await;
    }
    let answer = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        release(&held, created());
    };
    let (cancelled, ()) = tokio::join!(call.cancel(), answer);
    cancelled.unwrap();
    let outcome = call.result().await;
    assert!(matches!(outcome, Ok(Outcome::Cancelled)), "{outcome:?}");
    assert_eq!(peer.calls_of("tasks/cancel").len(), 1);
    assert_eq!(state(&journal).await, CallState::Finished(Finished::Cancelled));
}

/// Under its key the call may go on, so it is not said to be cancelled.
#[tokio::test]
async fn a_call_without_an_answer_is_of_unknown_outcome_when_it_is_cancelled() {
    let held = Held::default();
    let calls = Arc::clone(&held);
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {"dev.longhaul/idempotency": {}}},
        })),
        "tools/list" => seen.result(json!({
            "resultType": "complete", "tools": [{"name": "build", "inputSchema": {"type": "object"}}],
        })),
        _ => hold(&calls, seen),
    });
    let directory = tempfile::tempdir().unwrap();
    let journal = journal(&directory).await;
    let client = Client::recorded(peer.connection().0, journal.clone());
    let call = client.start("build", Value::Null).await.unwrap();
    while held.lock().unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let sent = peer.calls_of("tools/call").remove(0);
    let key = sent.params()["_meta"]["dev.longhaul/idempotency-key"].clone();
    for _ in 0..2 {
        let error = call.cancel().await.unwrap_err();
        let CallError::OutcomeUnknown { idempotency_key } = &error else {
            panic!("{error}")
        };
        assert_eq!(json!(idempotency_key), key);
        assert!(error.to_string().contains("outcome is unknown"), "{error}");
    }
    assert!(matches!(call.result().await, Err(CallError::OutcomeUnknown { .. })));
    assert!(matches!(state(&journal).await, CallState::Unknown { .. }));
}

/// A server may cancel calls by their keys. Then nothing of it goes on, unless it had ended.
#[tokio::test]
async fn a_call_is_cancelled_by_its_key() {
    for (status, is_cancelled) in [("cancelled", true), ("completed", false)] {
        let held = Held::default();
        let calls = Arc::clone(&held);
        let peer = Peer::start(move |seen| match seen.method() {
            "server/discover" => seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": {"dev.longhaul/idempotency": {"cancel": true}}},
            })),
            "tools/list" => seen.result(json!({
                "resultType": "complete", "tools": [{"name": "build", "inputSchema": {"type": "object"}}],
            })),
            "dev.longhaul/calls/cancel" => seen.result(json!({"resultType": "complete", "status": status})),
            _ => hold(&calls, seen),
        });
        let directory = tempfile::tempdir().unwrap();
        let journal = journal(&directory).await;
        let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(SystemClock));
        let client = Client::recorded(connection, journal.clone());
        let call = client.start("build", Value::Null).await.unwrap();
        while held.lock().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        let cancelled = call.cancel().await;
        let (sent, cancel) = (
            peer.calls_of("tools/call").remove(0),
            peer.calls_of("dev.longhaul/calls/cancel").remove(0),
        );
        let key = |seen: &ReceivedRequest| seen.params()["_meta"]["dev.longhaul/idempotency-key"].clone();
        assert_eq!((key(&cancel), &cancel.params()["name"]), (key(&sent), &json!("build")));
        let ended = call.result().await;
        if is_cancelled {
            cancelled.unwrap();
            assert!(matches!(ended, Err(CallError::Cancelled)), "{ended:?}");
            assert_eq!(state(&journal).await, CallState::Finished(Finished::Cancelled));
        } else {
            assert!(
                matches!(cancelled, Err(CallError::OutcomeUnknown { .. })),
                "{cancelled:?}"
            );
            assert!(matches!(state(&journal).await, CallState::Unknown { .. }));
        }
    }
}

/// The server waits for the retry of the request, so it runs nothing.
#[tokio::test]
async fn a_call_that_asks_is_cancelled_at_once() {
    let peer = modern(|seen| {
        let asked = json!({"q": {"method": "elicitation/create", "params": {"message": "?"}}});
        seen.result(json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s"}))
    });
    let directory = tempfile::tempdir().unwrap();
    let journal = journal(&directory).await;
    let (asking, mut asked) = mpsc::unbounded_channel();
    let inputs = Inputs::new().elicit(move |_| {
        asking.send(()).unwrap();
        std::future::pending()
    });
    let (connection, clock) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
    let client = Client::recorded(connection, journal.clone());
    let call = client.start("optional", Value::Null).await.unwrap();
    asked.recv().await.unwrap();
    call.cancel().await.unwrap();
    assert!(matches!(call.result().await, Err(CallError::Cancelled)));
    assert_eq!(state(&journal).await, CallState::Finished(Finished::Cancelled));
    assert!(clock.sleeps().is_empty());
}

/// A second cancellation changes nothing, and says so in either era.
#[tokio::test]
async fn a_task_that_has_ended_may_be_cancelled_again() {
    let cancelled = Arc::new(AtomicBool::new(false));
    let is_cancelled = Arc::clone(&cancelled);
    let old = legacy(
        json!({"requests": {"tools": {"call": {}}}, "cancel": {}}),
        move |seen| {
            let now = match is_cancelled.load(Ordering::SeqCst) {
                true => "cancelled",
                false => "working",
            };
            match seen.method() {
                "tools/call" => seen.result(json!({"task": legacy_task("working", json!({}))})),
                "tasks/get" => seen.result(legacy_task(now, json!({}))),
                // MCP 2025-11-25 wants it.
                "tasks/cancel" if is_cancelled.swap(true, Ordering::SeqCst) => seen.error(200, -32602, Value::Null),
                "tasks/cancel" => seen.result(legacy_task("cancelled", json!({}))),
                "tasks/result" => seen.error(200, -32603, Value::Null),
                _ => plain(405, ""),
            }
        },
    );
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let new = modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/cancel" => {
            is_cancelled.store(true, Ordering::SeqCst);
            seen.result(json!({"resultType": "complete"}))
        }
        "tasks/get" if is_cancelled.load(Ordering::SeqCst) => seen.result(modern_task("cancelled", json!({}))),
        "tasks/get" => seen.result(modern_task("working", json!({}))),
        _ => plain(404, ""),
    });
    for peer in [&old, &new] {
        let client = Client::new(peer.connection().0);
        let call = client.start("optional", Value::Null).await.unwrap();
        let task = call.task().await.unwrap();
        call.cancel().await.unwrap();
        call.cancel().await.unwrap();
        task.cancel().await.unwrap();
    }
}
