//! [`Client`]: calls with a record, and calls that go on by themselves.

use crate::{
    peer::{Peer, ReceivedRequest, legacy, plain},
    task::{created, legacy_task, modern_task},
};
use axum::{body::Body, http::Response};
use futures_util::StreamExt;
use longhaul_client::{
    CallError, CallFilter, CallOptions, CallResponse, CallState, CallStatus, Client, ClientCapabilities, Finished,
    InputHandler, InputRequest, InputResponse, Inputs, RequestError, RpcFailure, TaskStatus,
};
use longhaul_core::{BoxFuture, Verdict};
use longhaul_ledger::ClientJournal;
use serde_json::{Map, Value, json};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// A modern server that takes idempotency keys or not.
fn server(takes_keys: bool, script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static) -> Peer {
    Peer::start(move |seen| match seen.method() {
        "server/discover" => {
            let mut extensions = json!({"io.modelcontextprotocol/tasks": {}});
            if takes_keys {
                extensions["dev.longhaul/idempotency"] = json!({});
            }
            seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": extensions},
            }))
        }
        "tools/list" => seen.result(json!({
            "resultType": "complete", "tools": [{"name": "build", "inputSchema": {"type": "object"}}],
        })),
        _ => script(seen),
    })
}

fn key(seen: &ReceivedRequest) -> Option<String> {
    let key = &seen.params()["_meta"]["dev.longhaul/idempotency-key"];
    key.as_str().map(str::to_owned)
}

async fn journal(directory: &Path) -> ClientJournal {
    ClientJournal::open(&directory.join("client/handles.db")).await.unwrap()
}

async fn client(peer: &Peer, directory: &Path) -> (Client, ClientJournal) {
    let journal = journal(directory).await;
    (Client::recorded(peer.connection().0, journal.clone()), journal)
}

async fn states(journal: &ClientJournal) -> Vec<CallState> {
    let calls = journal.list(CallFilter::default()).await.unwrap();
    calls.into_iter().map(|call| call.state).collect()
}

/// Waits until the journal says so: what a drop records comes a moment later.
async fn until(journal: &ClientJournal, state: CallState) {
    while states(journal).await != [state.clone()] {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_interrupted_call_is_made_again_under_its_key() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let peer = server(true, move |seen| match hanging.load(Ordering::SeqCst) {
        // An event stream that never has the response.
        true => Response::builder()
            .header("content-type", "text/event-stream")
            .body(Body::from_stream(futures_util::stream::pending::<
                Result<Vec<u8>, std::io::Error>,
            >()))
            .unwrap(),
        false => seen.result(json!({"resultType": "complete", "content": []})),
    });
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    let call = client.start("build", json!({"a": 1})).await.unwrap();
    while peer.calls_of("tools/call").is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(states(&journal).await, [CallState::InFlight]);
    drop(call);
    until(&journal, CallState::Interrupted).await;
    hangs.store(false, Ordering::SeqCst);

    // Another call is another one.
    client.call("build", json!({"a": 2})).await.unwrap();
    client.call("build", json!({"a": 1})).await.unwrap();
    client.call("build", json!({"a": 1})).await.unwrap();
    let keys: Vec<String> = peer.calls_of("tools/call").iter().filter_map(key).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[0], keys[2]);
    assert!(keys[1] != keys[0] && keys[3] != keys[0] && keys[3] != keys[1]);
    let answered = CallState::Finished(Finished::Answered);
    assert_eq!(states(&journal).await, [answered.clone(), answered.clone(), answered]);
}

/// Such a call is never repeated, so its outcome is unknown as soon as it is dropped.
#[tokio::test]
async fn a_call_without_a_key_that_is_dropped_says_so() {
    let peer = server(false, |_| {
        let never = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        Response::builder()
            .header("content-type", "text/event-stream")
            .body(Body::from_stream(never))
            .unwrap()
    });
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    let called = async {
        while peer.calls_of("tools/call").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = called => {}
        answered = client.call("build", Value::Null) => panic!("{answered:?}"),
    }
    let [state] = loop {
        let states = states(&journal).await;
        if states != [CallState::InFlight] {
            break states.try_into().unwrap();
        }
    };
    let CallState::Unknown { reason } = state else {
        panic!("{state:?}")
    };
    assert!(
        reason.contains("stopped waiting") && reason.contains("dropped the call"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_call_without_a_key_is_sent_once() {
    let peer = server(false, |_| plain(502, "bad gateway"));
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    let error = client.call("build", Value::Null).await.unwrap_err();
    assert!(
        matches!(error, CallError::Request(RequestError::Http { status: 502, .. })),
        "{error}"
    );
    assert_eq!(peer.calls_of("tools/call").len(), 1);
    assert_eq!(key(&peer.calls_of("tools/call")[0]), None);
    assert!(matches!(states(&journal).await.as_slice(), [CallState::Unknown { .. }]));
}

#[tokio::test]
async fn a_call_with_a_key_is_sent_again_until_it_is_answered() {
    let calls = AtomicUsize::new(0);
    let peer = server(true, move |seen| match calls.fetch_add(1, Ordering::SeqCst) {
        0..3 => plain(502, "bad gateway"),
        _ => seen.result(json!({"resultType": "complete", "content": []})),
    });
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    client.call("build", Value::Null).await.unwrap();
    let keys: Vec<Option<String>> = peer.calls_of("tools/call").iter().map(key).collect();
    assert_eq!(keys.len(), 4);
    assert!(keys.iter().all(|key| key.is_some() && *key == keys[0]));
    assert_eq!(states(&journal).await, [CallState::Finished(Finished::Answered)]);
}

#[tokio::test]
async fn what_cannot_be_sent_is_not_recorded() {
    let peer = server(false, |seen| {
        seen.result(json!({"resultType": "complete", "content": []}))
    });
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    assert!(matches!(client.call("biuld", Value::Null).await, Err(CallError::NoSuchTool { tool }) if tool == "biuld"));
    assert!(matches!(
        client.call("build", json!([1])).await,
        Err(CallError::InvalidArguments { .. })
    ));
    let mut options = CallOptions::default();
    options.idempotency_key = Some("k".to_owned());
    let called = client.start_with("build", Value::Null, options).await;
    assert!(matches!(called, Err(CallError::NoIdempotencyKeys)));
    assert!(states(&journal).await.is_empty() && peer.calls_of("tools/call").is_empty());
}

/// A task that asks `q`, and completes when it is answered.
fn asking() -> Peer {
    let answered = AtomicBool::new(false);
    server(true, move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/update" => {
            answered.store(true, Ordering::SeqCst);
            seen.result(json!({"resultType": "complete"}))
        }
        "tasks/get" if answered.load(Ordering::SeqCst) => {
            seen.result(modern_task("completed", json!({"result": {"content": []}})))
        }
        "tasks/get" => {
            let question = json!({"method": "elicitation/create", "params": {"message": "?"}});
            seen.result(modern_task("input_required", json!({"inputRequests": {"q": question}})))
        }
        _ => plain(404, ""),
    })
}

#[tokio::test]
async fn a_running_call_tells_how_it_stands_and_is_answered() {
    let peer = asking();
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(Inputs::deferred().into()));
    let call = Client::new(connection).start("build", Value::Null).await.unwrap();
    assert!(matches!(
        call.answer("q", InputResponse::decline()).await,
        Err(CallError::AsksNothing)
    ));
    let mut status = Box::pin(call.status());
    loop {
        match status.next().await.unwrap() {
            CallStatus::Task(task) if !task.input_requests.is_empty() => break,
            CallStatus::Task(_) | CallStatus::Sent(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(call.task().await.unwrap().id(), "t-1");
    call.answer("q", InputResponse::accept(json!({"yes": true})))
        .await
        .unwrap();
    let rest: Vec<CallStatus> = status.collect().await;
    assert!(
        matches!(rest.last(), Some(CallStatus::Task(task)) if task.status.is_final()),
        "{rest:?}"
    );
    call.result().await.unwrap();
    let updates = peer.calls_of("tasks/update");
    assert_eq!(updates.len(), 1);
    assert_eq!(
        updates[0].params()["inputResponses"],
        json!({"q": {"action": "accept", "content": {"yes": true}}})
    );
}

#[tokio::test]
async fn a_status_tells_a_change_of_the_task_and_not_of_its_poll_interval() {
    let polls = AtomicUsize::new(0);
    let peer = server(true, move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/get" => match polls.fetch_add(1, Ordering::SeqCst) {
            nth @ 0..4 => seen.result(modern_task("working", json!({"pollIntervalMs": 10 + nth}))),
            _ => seen.result(modern_task("completed", json!({"result": {"content": []}}))),
        },
        _ => plain(404, ""),
    });
    let (connection, _) = peer.connection();
    let call = Client::new(connection).start("build", Value::Null).await.unwrap();
    let mut told = Vec::new();
    let mut status = Box::pin(call.status());
    while let Some(status) = status.next().await {
        if let CallStatus::Task(task) = status {
            told.push(task.status);
        }
    }
    assert_eq!(told, [TaskStatus::Working, TaskStatus::Completed]);
    assert_eq!(peer.calls_of("tasks/get").len(), 5);
}

#[tokio::test]
async fn a_detached_task_is_found_by_the_next_client() {
    let peer = asking();
    let directory = tempfile::tempdir().unwrap();
    let (first, _) = client(&peer, directory.path()).await;
    let detached = first.start("build", Value::Null).await.unwrap().detach().await.unwrap();
    assert!(matches!(detached, CallResponse::Task(_)));
    drop((first, detached));

    let (second, journal) = client(&peer, directory.path()).await;
    let [task] = second.tasks().await.unwrap().try_into().unwrap();
    task.answer("q", InputResponse::accept(json!({}))).await.unwrap();
    let outcome = task.wait(&mut |_| {}).await.unwrap();
    assert_eq!(states(&journal).await, [CallState::Task]);
    task.finish(&outcome).await.unwrap();
    assert_eq!(states(&journal).await, [CallState::Finished(Finished::Completed)]);
    assert_eq!(peer.calls_of("tasks/update").len(), 1);
}

/// Another process has recorded the end of the call, which forgets its questions. What the server said before is still to be read.
#[tokio::test]
async fn a_question_of_a_call_that_has_ended_is_not_asked() {
    let polls = AtomicUsize::new(0);
    let peer = server(true, move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/get" if polls.fetch_add(1, Ordering::SeqCst) < 3 => {
            let question = json!({"method": "elicitation/create", "params": {"message": "?"}});
            seen.result(modern_task("input_required", json!({"inputRequests": {"q": question}})))
        }
        "tasks/get" => seen.result(modern_task("completed", json!({"result": {"content": []}}))),
        _ => plain(404, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let journal = journal(directory.path()).await;
    let (connection, _) = peer.connection_with(|options| {
        options.inputs = Some(Inputs::new().elicit(|_| async { panic!("it is asked") }).into());
    });
    let client = Client::recorded(connection, journal.clone());
    let detached = client
        .start("build", Value::Null)
        .await
        .unwrap()
        .detach()
        .await
        .unwrap();
    let CallResponse::Task(task) = detached else {
        panic!("{detached:?}")
    };
    let call = journal.list(CallFilter::default()).await.unwrap()[0].id;
    journal.finish(call, Finished::Completed).await.unwrap();
    let outcome = task.wait(&mut |_| {}).await.unwrap();
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    assert!(peer.calls_of("tasks/update").is_empty());
}

#[tokio::test]
async fn a_task_that_the_server_does_not_know_is_recorded_as_lost() {
    let peer = server(true, |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        _ => seen.error(200, -32602, Value::Null),
    });
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    let error = client.call("build", Value::Null).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Task { task, error } if task == "t-1" && error.is_unknown_task()),
        "{error}"
    );
    assert!(matches!(states(&journal).await.as_slice(), [CallState::Lost { .. }]));
}

#[tokio::test]
async fn cancel_gives_up_a_call_or_cancels_its_task() {
    let peer = server(true, |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/cancel" => seen.result(json!({"resultType": "complete"})),
        "tasks/get" => seen.result(modern_task("cancelled", json!({}))),
        _ => plain(404, ""),
    });
    let client = Client::new(peer.connection().0);
    let call = client.start("build", Value::Null).await.unwrap();
    call.task().await.unwrap();
    call.cancel().await.unwrap();
    assert!(matches!(
        call.result().await.unwrap(),
        longhaul_client::Outcome::Cancelled
    ));

    let call = client.start("build", Value::Object(Map::new())).await.unwrap();
    // The request is not sent before this task waits.
    call.cancel().await.unwrap();
    assert!(matches!(call.result().await, Err(CallError::Cancelled)));
}

/// Python 1.30 refuses tasks of other sessions.
#[tokio::test]
async fn a_session_with_a_task_is_kept_and_resumed() {
    let tasks = json!({"requests": {"tools": {"call": {}}}});
    let ends = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&ends);
    let peer = legacy(tasks, move |seen| {
        let task = |status: &str| legacy_task(status, json!({}));
        match seen.method() {
            "tools/call" => seen.result(json!({"task": task("working")})),
            "tasks/get" if ending.load(Ordering::SeqCst) => seen.result(task("completed")),
            "tasks/get" => seen.result(task("working")),
            "tasks/result" => seen.result(json!({"content": []})),
            _ => plain(405, ""),
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let (first, _) = client(&peer, directory.path()).await;
    let call = first.start("optional", Value::Null).await.unwrap();
    call.detach().await.unwrap();
    first.close().await;
    let deleted = || peer.seen().iter().filter(|seen| seen.verb == "DELETE").count();
    assert_eq!(deleted(), 0);

    ends.store(true, Ordering::SeqCst);
    // The next client has a session of its own when it looks for tasks.
    let (second, _) = client(&peer, directory.path()).await;
    second.connection().list_tools().await.unwrap();
    let [task] = second.tasks().await.unwrap().try_into().unwrap();
    let outcome = task.wait(&mut |_| {}).await.unwrap();
    task.finish(&outcome).await.unwrap();
    second.close().await;
    // Its own session. Other processes may wait for the task in that of the task.
    assert_eq!(deleted(), 1);
    assert_eq!(peer.calls_of("initialize").len(), 2);
    let polls = peer.calls_of("tasks/get");
    assert!(
        polls
            .iter()
            .all(|poll| poll.header("mcp-session-id") == Some("session-1"))
    );
}

/// Declares that the user can be asked, but there is nobody.
struct Nobody;

impl InputHandler for Nobody {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation_form: true,
            ..ClientCapabilities::default()
        }
    }

    fn leaves_open(&self, _: &InputRequest) -> bool {
        true
    }

    fn answer(&self, _: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        Box::pin(std::future::pending())
    }
}

/// Some servers take a question out of their queue when `tasks/result` is requested.
#[tokio::test]
async fn a_question_that_nobody_can_answer_stays_at_the_server() {
    let polls = AtomicUsize::new(0);
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        match seen.method() {
            "tasks/get" => {
                let status = match polls.fetch_add(1, Ordering::SeqCst) {
                    0..5 => "input_required",
                    _ => "cancelled",
                };
                seen.result(legacy_task(status, json!({})))
            }
            "tasks/result" => seen.error(200, -32602, Value::Null),
            _ => plain(405, ""),
        }
    });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(Arc::new(Nobody)));
    connection.task("t-1").wait(&mut |_| {}).await.unwrap();
    assert!(peer.calls_of("tasks/result").is_empty());
}

#[tokio::test]
async fn a_push_stream_that_another_process_has_is_opened_later() {
    let opened = AtomicUsize::new(0);
    let peer = legacy(Value::Null, move |seen| match seen.verb == "GET" {
        true if opened.fetch_add(1, Ordering::SeqCst) < 2 => plain(409, ""),
        _ => plain(405, ""),
    });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(Arc::new(Nobody)));
    connection.list_tools().await.unwrap();
    while peer.seen().iter().filter(|seen| seen.verb == "GET").count() < 3 {
        tokio::task::yield_now().await;
    }
}
