//! Tasks that ask a client without a handler.

use crate::{
    peer::{Peer, legacy, modern, plain},
    task::{created, legacy_task, modern_task},
};
use longhaul_client::{CallError, CallState, Client, InputResponse, Outcome, RequestError};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A modern task that asks until it is answered or cancelled, and shows the question in so many polls more.
fn asking(lag: usize) -> Peer {
    let (is_answered, is_cancelled, shown) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    modern(move |seen| {
        let done = seen.result(json!({"resultType": "complete"}));
        match seen.method() {
            "tools/call" => seen.result(created()),
            "tasks/update" => {
                is_answered.store(true, Ordering::SeqCst);
                done
            }
            "tasks/cancel" => {
                is_cancelled.store(true, Ordering::SeqCst);
                done
            }
            "tasks/get" => {
                let (answered, cancelled) = (is_answered.load(Ordering::SeqCst), is_cancelled.load(Ordering::SeqCst));
                let asks = json!({
                    "inputRequests": {"in-1": {"method": "elicitation/create", "params": {
                        "message": "Proceed?", "requestedSchema": {"type": "object", "properties": {}},
                    }}},
                });
                match (answered || cancelled) && shown.fetch_add(1, Ordering::SeqCst) >= lag {
                    false => seen.result(modern_task("input_required", asks)),
                    true if cancelled => seen.result(modern_task("cancelled", json!({}))),
                    true => seen.result(modern_task("completed", json!({"result": {"content": []}}))),
                }
            }
            _ => plain(405, ""),
        }
    })
}

#[tokio::test]
async fn the_error_names_the_question_and_the_task_can_still_be_answered() {
    let peer = asking(3);
    let directory = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
        .await
        .unwrap();
    let client = Client::recorded(peer.connection().0, journal);
    let error = client.call("optional", Value::Null).await.unwrap_err();
    let CallError::Task {
        task,
        error: RequestError::InputRequired { questions, .. },
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(task, "t-1");
    let asked: Vec<_> = questions
        .iter()
        .map(|question| (question.key.as_deref(), question.message()))
        .collect();
    assert_eq!(asked, [(Some("in-1"), "Proceed?")]);
    let text = error.to_string();
    assert!(
        [
            "t-1",
            "\"Proceed?\"",
            "\"in-1\"",
            "Options::inputs",
            "TaskHandle::answer"
        ]
        .iter()
        .all(|part| text.contains(part)),
        "{text}"
    );
    assert!(peer.calls_of("tasks/cancel").is_empty());

    let [call] = client.calls().await.unwrap().try_into().unwrap();
    assert_eq!(call.state, CallState::Task);
    let task = client.task(&call).await.unwrap();
    task.answer("in-1", InputResponse::accept(json!({}))).await.unwrap();
    assert!(matches!(task.wait(&mut |_| {}).await, Ok(Outcome::Result { .. })));
}

#[tokio::test]
async fn a_handle_without_a_record_can_be_answered_too() {
    let peer = asking(3);
    let task = peer.connection().0.task("t-1");
    let asks = task.wait(&mut |_| {}).await;
    assert!(matches!(asks, Err(RequestError::InputRequired { .. })), "{asks:?}");
    task.answer("in-1", InputResponse::decline()).await.unwrap();
    assert!(matches!(task.wait(&mut |_| {}).await, Ok(Outcome::Result { .. })));
}

#[tokio::test]
async fn a_task_that_was_cancelled_is_waited_for() {
    let peer = asking(3);
    let task = peer.connection().0.task("t-1");
    task.cancel().await.unwrap();
    assert!(matches!(task.wait(&mut |_| {}).await, Ok(Outcome::Cancelled)));
}

/// The server may never take the question away.
#[tokio::test]
async fn a_task_that_asks_on_is_not_waited_for_without_end() {
    let peer = asking(usize::MAX);
    let task = peer.connection().0.task("t-1");
    task.cancel().await.unwrap();
    let asks = task.wait(&mut |_| {}).await;
    assert!(matches!(asks, Err(RequestError::InputRequired { .. })), "{asks:?}");
    task.answer("in-1", InputResponse::decline()).await.unwrap();
    let asks = task.wait(&mut |_| {}).await;
    assert!(matches!(asks, Err(RequestError::AsksAgain { .. })), "{asks:?}");
}

/// Its question is known to a client with a handler alone.
#[tokio::test]
async fn the_error_of_a_legacy_task_says_what_its_status_says() {
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), |seen| {
        match seen.method() {
            "tasks/get" => seen.result(legacy_task(
                "input_required",
                json!({"statusMessage": "waits for an approval"}),
            )),
            _ => plain(405, ""),
        }
    });
    let asks = peer.connection().0.task("t-1").wait(&mut |_| {}).await.unwrap_err();
    assert!(matches!(asks, RequestError::InputRequired { .. }), "{asks:?}");
    assert!(asks.to_string().contains("waits for an approval"), "{asks}");
}
