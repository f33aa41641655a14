//! Tasks that are followed: their statuses, their errors, and many of them at once.

use crate::{
    peer::{Peer, ReceivedRequest, plain},
    task::{created, modern_task},
};
use axum::{body::Body, http::Response};
use futures_util::StreamExt;
use longhaul_client::{CallStatus, Client, InputResponse, Inputs, SystemClock, TaskStatus};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::{
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
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

async fn client(peer: &Peer, directory: &Path) -> Client {
    let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
    let (connection, _) = peer.connection_with(|options| {
        options.clock = Arc::new(SystemClock);
        options.inputs = Some(Inputs::deferred().into());
    });
    Client::recorded(connection, journal)
}

#[tokio::test]
async fn the_error_of_an_unknown_task_says_what_may_have_happened_and_names_it() {
    let peer = server(|seen| match seen.method() {
        "tools/call" => seen.result(created()),
        _ => seen.error(200, -32602, Value::Null),
    });
    let directory = tempfile::tempdir().unwrap();
    let client = client(&peer, directory.path()).await;
    let error = client.call("build", Value::Null).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(
        (text.matches("t-1").count(), text.matches("lost").count()),
        (1, 0),
        "{text}"
    );
    let why = "its retention is over, it was deleted, or it belongs to another principal";
    assert!(text.contains(why), "{text}");
}

/// What was is over: the next status says how the task stands.
#[tokio::test]
async fn a_status_does_not_stay_retrying_after_recovery() {
    let (polls, ends) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let has_ended = Arc::clone(&ends);
    let peer = server(move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/get" if has_ended.load(Ordering::SeqCst) => {
            seen.result(modern_task("completed", json!({"result": {"content": []}})))
        }
        "tasks/get" if polls.fetch_add(1, Ordering::SeqCst) == 1 => plain(503, "busy"),
        "tasks/get" => seen.result(modern_task("working", json!({}))),
        _ => plain(404, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let client = client(&peer, directory.path()).await;
    let call = client.start("build", Value::Null).await.unwrap();
    let mut status = pin!(call.status());
    let mut has_failed = false;
    let recovered = async {
        while let Some(now) = status.next().await {
            has_failed |= matches!(now, CallStatus::Retrying { .. });
            if has_failed && matches!(now, CallStatus::Task(_)) {
                return;
            }
        }
    };
    let polled = async {
        while peer.calls_of("tasks/get").len() < 5 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = recovered => {}
        () = polled => panic!("the status stays {:?}", call.current_status()),
    }
    ends.store(true, Ordering::SeqCst);
    assert!(call.result().await.is_ok());
}

/// A task of an earlier process can do what one can that was started just now.
#[tokio::test]
async fn a_task_of_the_journal_is_followed_as_a_call() {
    let answered = Arc::new(AtomicBool::new(false));
    let is_answered = Arc::clone(&answered);
    let peer = server(move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/update" => {
            is_answered.store(true, Ordering::SeqCst);
            seen.result(json!({"resultType": "complete"}))
        }
        "tasks/get" if is_answered.load(Ordering::SeqCst) => {
            let result = json!({"content": [{"type": "text", "text": "released"}]});
            seen.result(modern_task("completed", json!({"result": result})))
        }
        "tasks/get" => {
            let asked = json!({"q": {"method": "elicitation/create", "params": {"message": "Proceed?"}}});
            seen.result(modern_task("input_required", json!({"inputRequests": asked})))
        }
        _ => plain(404, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let first = client(&peer, directory.path()).await;
    let call = first.start("build", Value::Null).await.unwrap();
    call.detach().await.unwrap();
    drop(first);

    let second = client(&peer, directory.path()).await;
    let [task] = second.tasks().await.unwrap().try_into().unwrap();
    let call = task.follow();
    assert!(
        matches!(call.current_status(), CallStatus::Task(task) if task.id == "t-1" && task.status == TaskStatus::Working)
    );
    let mut status = pin!(call.status());
    let mut seen = Vec::new();
    while let Some(now) = status.next().await {
        let CallStatus::Task(now) = now else { continue };
        for question in &now.input_requests {
            let answer = InputResponse::accept(json!({}));
            call.answer(question.key.as_deref().unwrap(), answer).await.unwrap();
        }
        seen.push(now.status);
    }
    assert_eq!(seen.last(), Some(&TaskStatus::Completed));
    assert!(seen.contains(&TaskStatus::InputRequired), "{seen:?}");
    assert_eq!(call.task().await.unwrap().id(), "t-1");
    call.cancel().await.unwrap();
    assert_eq!(call.result().await.unwrap().text(), "released");
    assert!(second.tasks().await.unwrap().is_empty());
}

/// The first one of the journal never ends.
#[tokio::test]
async fn a_long_task_holds_up_no_other() {
    let tasks = AtomicUsize::new(0);
    let named = |id: &str, status: &str, more: Value| {
        let mut task = modern_task(status, more);
        task["taskId"] = id.into();
        task
    };
    let peer = server(move |seen| match seen.method() {
        "tools/call" => {
            let id = format!("t-{}", tasks.fetch_add(1, Ordering::SeqCst));
            seen.result(named(&id, "working", json!({"resultType": "task"})))
        }
        "tasks/get" => {
            let id = seen.params()["taskId"].as_str().unwrap();
            match id {
                "t-0" | "t-4" => seen.result(named(id, "working", json!({}))),
                "t-2" => seen.error(200, -32602, Value::Null),
                _ => seen.result(named(id, "completed", json!({"result": {"content": []}}))),
            }
        }
        "tasks/cancel" => seen.result(json!({"resultType": "complete"})),
        _ => plain(404, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let client = client(&peer, directory.path()).await;
    for nth in 0..5 {
        let call = client.start("build", json!({"nth": nth})).await.unwrap();
        call.detach().await.unwrap();
    }
    let mut results = client.results().await.unwrap();
    let mut ended = Vec::new();
    while ended.len() < 3 {
        let (task, outcome) = results.next().await.unwrap();
        if let Ok(outcome) = &outcome {
            task.finish(outcome).await.unwrap();
        }
        ended.push((task.id().to_owned(), outcome.is_ok()));
    }
    ended.sort();
    let expected = [("t-1", true), ("t-2", false), ("t-3", true)];
    assert_eq!(ended, expected.map(|(id, is_ok)| (id.to_owned(), is_ok)));
    let left: Vec<String> = (client.tasks().await.unwrap().iter())
        .map(|task| task.id().to_owned())
        .collect();
    assert_eq!(left, ["t-4", "t-0"]);
}
