//! Defects that users and reviewers have found in [`Client`].

use crate::{
    peer::{Peer, ReceivedRequest, legacy_with, plain},
    task::{created, legacy_task, modern_task},
};
use axum::{body::Body, http::Response};
use longhaul_client::{
    CallError, CallFilter, CallResponse, CallState, Client, Finished, InputResponse, Inputs, Outcome, SystemClock,
};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// A modern server that takes idempotency keys.
fn server(script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static) -> Peer {
    Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {
                "tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}, "dev.longhaul/idempotency": {}},
            },
        })),
        "tools/list" => seen.result(json!({
            "resultType": "complete", "tools": [{"name": "build", "inputSchema": {"type": "object"}}],
        })),
        _ => script(seen),
    })
}

/// A legacy server with tasks that takes idempotency keys.
fn legacy_server(script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static) -> Peer {
    let capabilities = json!({
        "tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}, "experimental": {"dev.longhaul/idempotency": {}},
    });
    legacy_with(capabilities, script)
}

/// The call that could not be recorded may be made without a record, and its task lives in the session.
#[tokio::test]
async fn a_session_is_kept_after_an_error_of_the_journal() {
    let peer = legacy_server(|_| plain(405, ""));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client/handles.db");
    let aside = directory.path().join("client/aside.db");
    for fails in [true, false] {
        let journal = ClientJournal::open(&path).await.unwrap();
        let client = Client::recorded(peer.connection().0, journal);
        client.connection().list_tools().await.unwrap();
        if fails {
            std::fs::rename(&path, &aside).unwrap();
            let called = client.start("optional", Value::Null).await;
            assert!(matches!(called, Err(CallError::Journal(_))), "{called:?}");
            std::fs::rename(&aside, &path).unwrap();
        }
        client.close().await;
        let deleted = peer.seen().iter().filter(|seen| seen.verb == "DELETE").count();
        assert_eq!(deleted, usize::from(!fails));
    }
}

/// Whenever it is cancelled, the handle of a task is not lost: the task is cancelled.
#[tokio::test]
async fn a_cancellation_beside_the_answer_loses_no_task() {
    for nth in 0..60 {
        let is_cancelled = AtomicBool::new(false);
        let peer = server(move |seen| match seen.method() {
            "tools/call" => seen.result(created()),
            "tasks/cancel" => {
                is_cancelled.store(true, Ordering::SeqCst);
                seen.result(json!({"resultType": "complete"}))
            }
            "tasks/get" if is_cancelled.load(Ordering::SeqCst) => seen.result(modern_task("cancelled", json!({}))),
            "tasks/get" => seen.result(modern_task("working", json!({}))),
            _ => plain(404, ""),
        });
        let directory = tempfile::tempdir().unwrap();
        let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
            .await
            .unwrap();
        let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(SystemClock));
        let client = Client::recorded(connection, journal.clone());
        let call = client.start("build", Value::Null).await.unwrap();
        while peer.calls_of("tools/call").is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..nth * nth {
            tokio::task::yield_now().await;
        }
        call.cancel().await.unwrap();
        let ended = call.result().await;
        let calls = journal.list(CallFilter::default()).await.unwrap();
        match (&ended, &calls[0].state) {
            (Ok(Outcome::Cancelled), CallState::Finished(Finished::Cancelled)) => {
                assert_eq!(peer.calls_of("tasks/cancel").len(), 1);
            }
            other => panic!("cancelled after {nth}: {other:?}"),
        }
    }
}

/// What a server declared is known for its first connection alone, not for those in sessions of earlier processes.
#[tokio::test]
async fn a_call_after_a_resumed_session_has_a_key() {
    let tasks = AtomicUsize::new(0);
    let peer = legacy_server(move |seen| match seen.method() {
        "tools/call" => {
            let id = format!("t-{}", tasks.fetch_add(1, Ordering::SeqCst));
            seen.result(json!({"task": legacy_task("working", json!({"taskId": id}))}))
        }
        "tasks/get" => seen.result(legacy_task("cancelled", json!({"taskId": seen.params()["taskId"]}))),
        _ => plain(405, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client/handles.db");
    let first = Client::recorded(peer.connection().0, ClientJournal::open(&path).await.unwrap());
    let call = first.start("optional", json!({"x": "1"})).await.unwrap();
    call.detach().await.unwrap();
    drop(first);

    let second = Client::recorded(peer.connection().0, ClientJournal::open(&path).await.unwrap());
    let [task] = second.tasks().await.unwrap().try_into().unwrap();
    task.get().await.unwrap();
    second.call("optional", json!({"x": "2"})).await.unwrap();
    let calls = peer.calls_of("tools/call");
    let key = |nth: usize| calls[nth].params()["_meta"]["dev.longhaul/idempotency-key"].clone();
    assert!(key(0).is_string() && key(1).is_string() && key(0) != key(1));
    assert_eq!(calls[1].header("mcp-session-id"), Some("session-2"));
}

/// The first answer may not have arrived, so the user may give it again, or another one.
#[tokio::test]
async fn an_answer_is_sent_again_after_the_server_was_not_available() {
    let updates = AtomicUsize::new(0);
    let peer = server(move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/update" if updates.fetch_add(1, Ordering::SeqCst) == 0 => plain(503, "busy"),
        "tasks/update" => seen.result(json!({"resultType": "complete"})),
        "tasks/get" if updates.load(Ordering::SeqCst) > 1 => {
            seen.result(modern_task("completed", json!({"result": {"content": []}})))
        }
        "tasks/get" => {
            let question = json!({"method": "elicitation/create", "params": {"message": "?"}});
            seen.result(modern_task("input_required", json!({"inputRequests": {"q": question}})))
        }
        _ => plain(404, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
        .await
        .unwrap();
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(Inputs::deferred().into()));
    let client = Client::recorded(connection, journal);
    let call = client.start("build", Value::Null).await.unwrap();
    let CallResponse::Task(task) = call.detach().await.unwrap() else {
        panic!("not a task")
    };
    let answer = |said: u32| InputResponse::accept(json!({"said": said}));
    let error = task.answer("q", answer(1)).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    task.answer("q", answer(2)).await.unwrap();
    task.wait(&mut |_| {}).await.unwrap();
    let said: Vec<Value> = peer
        .calls_of("tasks/update")
        .iter()
        .map(|update| update.params()["inputResponses"]["q"]["content"]["said"].clone())
        .collect();
    assert_eq!(said, [1, 2]);
}
