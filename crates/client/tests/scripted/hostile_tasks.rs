//! Tasks of servers that do not keep to the rules of tasks: each ends with an error that says what was wrong, or costs no more than its polls.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, ReceivedRequest, modern, plain},
    task::{created, modern_task},
};
use axum::{body::Body, http::Response};
use futures_util::StreamExt;
use longhaul_client::{
    CallError, CallFilter, CallOptions, CallResponse, CallState, CallStatus, Client, InputResponse, Inputs, Outcome,
    RequestError, TaskStatus,
};
use longhaul_ledger::ClientJournal;
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Longer than any of these waits may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn question() -> Value {
    json!({"method": "elicitation/create", "params": {"message": "?"}})
}

fn asking(keys: impl IntoIterator<Item = String>) -> Value {
    let questions: Map<String, Value> = keys.into_iter().map(|key| (key, question())).collect();
    modern_task("input_required", json!({"inputRequests": questions}))
}

/// A modern server whose task is what `get` says at the n-th poll, and which acknowledges every answer.
fn server(get: impl Fn(usize) -> Value + Send + Sync + 'static) -> Peer {
    let polls = AtomicUsize::new(0);
    modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/update" => seen.result(json!({"resultType": "complete"})),
        "tasks/get" => seen.result(get(polls.fetch_add(1, Ordering::SeqCst))),
        _ => plain(404, ""),
    })
}

/// Waits for the task with a user who agrees to everything. Returns how often the user was asked, too.
async fn wait(peer: &Peer) -> (Result<Outcome, RequestError>, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let inputs = Inputs::new().elicit(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(InputResponse::accept(json!({}))) }
    });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
    let task = connection.task("t-1");
    let waited = tokio::time::timeout(PATIENCE, task.wait(&mut |_| {})).await;
    (waited.expect("bounded time"), asked.load(Ordering::SeqCst))
}

/// What the task is at each poll, and what the error says.
type Case = (&'static str, fn(usize) -> Value);

#[tokio::test]
async fn every_broken_rule_of_tasks_is_an_error_that_names_it() {
    let cases: [Case; 4] = [
        ("still asks it after 30 polls", |_| asking(["q".to_owned()])),
        // It takes the question away, and asks it under its key again, without end.
        ("still asks it after 30 polls", |poll| match poll % 3 {
            0 => asking(["q".to_owned()]),
            _ => modern_task("working", json!({})),
        }),
        ("has asked 10000 questions", |poll| {
            asking((0..500).map(|nth| format!("q-{poll}-{nth}")))
        }),
        ("longer than 1024 bytes", |_| asking(["q".repeat(2_000)])),
    ];
    for (expected, get) in cases {
        let peer = server(get);
        let (waited, asked) = wait(&peer).await;
        let error = waited.unwrap_err();
        assert!(error.to_string().contains(expected), "expected {expected:?}: {error}");
        if let RequestError::AsksAgain { key, .. } = error {
            assert_eq!((key.as_str(), asked, peer.calls_of("tasks/update").len()), ("q", 1, 1));
        }
    }
}

/// A task has its handle whatever the server calls its state, and one that has not ended is waited for.
#[tokio::test]
async fn an_unknown_status_is_that_of_a_task_that_has_not_ended() {
    for created in [
        json!({"resultType": "task", "taskId": "t-1", "status": "submitted"}),
        json!({"resultType": "task", "taskId": "t-1"}),
    ] {
        let polls = AtomicUsize::new(0);
        let peer = modern(move |seen: &ReceivedRequest| -> Response<Body> {
            match (seen.method(), polls.fetch_add(1, Ordering::SeqCst)) {
                ("tools/call", _) => seen.result(created.clone()),
                ("tasks/get", 0..5) => seen.result(modern_task("paused", json!({}))),
                _ => seen.result(modern_task("completed", json!({"result": {"content": []}}))),
            }
        });
        let directory = tempfile::tempdir().unwrap();
        let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
            .await
            .unwrap();
        let client = Client::recorded(peer.connection().0, journal.clone());
        let call = client.start("optional", Value::Null).await.unwrap();
        let mut status = std::pin::pin!(call.status());
        let task = call.task().await.expect("a task");
        let mut unknown = None;
        while unknown.as_deref() != Some("paused") {
            if let Some(CallStatus::Task(task)) = status.next().await {
                assert_eq!(task.status, TaskStatus::Working);
                unknown.clone_from(&task.unknown_status);
            }
        }
        assert_eq!(
            journal.find(task.id()).await.unwrap().len(),
            1,
            "its handle is recorded"
        );
        let waited = tokio::time::timeout(PATIENCE, call.result())
            .await
            .expect("bounded time");
        assert!(matches!(waited, Ok(Outcome::Result { .. })), "{waited:?}");
    }
}

/// The effect of an answer may be seen later than its acknowledgement.
#[tokio::test]
async fn an_acknowledged_question_may_be_shown_for_a_while() {
    let peer = server(|poll| match poll {
        0..20 => asking(["q".to_owned()]),
        20..40 => modern_task("working", json!({})),
        40..60 => asking(["q".to_owned()]),
        _ => modern_task("completed", json!({"result": {"content": []}})),
    });
    let (waited, asked) = wait(&peer).await;
    waited.unwrap();
    assert_eq!((asked, peer.calls_of("tasks/update").len()), (1, 1));
}

/// The journal has the acknowledgement, so a later process neither asks nor waits for ever.
#[tokio::test]
async fn a_question_that_an_earlier_process_has_answered_ends_the_wait_too() {
    let peer = server(|_| asking(["q".to_owned()]));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client/handles.db");
    let mut errors = Vec::new();
    for is_first in [true, false] {
        let journal = ClientJournal::open(&path).await.unwrap();
        let inputs = Inputs::new().elicit(move |_| async move {
            assert!(is_first, "asked again");
            Ok(InputResponse::accept(json!({})))
        });
        let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
        let client = Client::recorded(connection, journal);
        let waited = async {
            match is_first {
                true => client.call("optional", Value::Null).await,
                false => {
                    let [task] = client.tasks().await.unwrap().try_into().unwrap();
                    Ok(task.wait(&mut |_| {}).await?)
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waited).await.expect("bounded time");
        errors.push(waited.unwrap_err().to_string());
    }
    assert!(errors[0].contains("still asks") && errors[0] == errors[1], "{errors:?}");
    assert_eq!(peer.calls_of("tasks/update").len(), 1);
}

/// No more questions are open than the limit, and all are answered in the end.
#[tokio::test]
async fn many_questions_at_once_are_asked_some_at_a_time() {
    let answered = Arc::new(std::sync::Mutex::new(std::collections::HashSet::<String>::new()));
    let known = Arc::clone(&answered);
    let peer = modern(move |seen: &ReceivedRequest| -> Response<Body> {
        let mut known = known.lock().unwrap();
        match seen.method() {
            "tasks/update" => {
                let responses = seen.params()["inputResponses"].as_object().unwrap();
                known.extend(responses.keys().cloned());
                seen.result(json!({"resultType": "complete"}))
            }
            "tasks/get" => {
                let open: Vec<String> = (0..300)
                    .map(|nth| format!("q{nth}"))
                    .filter(|key| !known.contains(key))
                    .collect();
                seen.result(match open.is_empty() {
                    true => modern_task("completed", json!({"result": {"content": []}})),
                    false => asking(open),
                })
            }
            _ => plain(404, ""),
        }
    });
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&most);
    let inputs = Inputs::new().elicit(move |_| {
        let open = Arc::clone(&open);
        counted.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        async move {
            tokio::task::yield_now().await;
            open.fetch_sub(1, Ordering::SeqCst);
            Ok(InputResponse::accept(json!({})))
        }
    });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
    let task = connection.task("t-1");
    let waited = tokio::time::timeout(PATIENCE, task.wait(&mut |_| {})).await;
    waited.expect("bounded time").unwrap();
    assert_eq!(answered.lock().unwrap().len(), 300);
    assert!(most.load(Ordering::SeqCst) <= 64, "{most:?} were open at once");
}

/// A server that keeps a task for a shorter time than it has said.
#[tokio::test]
async fn a_task_that_is_deleted_early_is_lost_in_words() {
    let polls = AtomicUsize::new(0);
    let peer = modern(move |seen| match (seen.method(), polls.load(Ordering::SeqCst)) {
        ("tools/call", _) => seen.result(modern_task(
            "working",
            json!({"resultType": "task", "ttlMs": 3_600_000}),
        )),
        ("tasks/get", 0..3) => {
            polls.fetch_add(1, Ordering::SeqCst);
            seen.result(modern_task("working", json!({"ttlMs": 3_600_000})))
        }
        ("tasks/get", _) => seen.error(200, -32602, Value::Null),
        _ => plain(404, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
        .await
        .unwrap();
    let client = Client::recorded(peer.connection().0, journal.clone());
    let error = client.call("optional", Value::Null).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Task { task, error } if task == "t-1" && error.is_unknown_task()),
        "{error}"
    );
    let calls = journal.list(CallFilter::default()).await.unwrap();
    let CallState::Lost { reason } = &calls[0].state else {
        panic!("{calls:?}")
    };
    assert!(reason.contains("does not know the task"), "{reason}");
}

/// A task that works for ever costs its polls, at the fastest pace that the client has, and nothing once nobody waits.
#[tokio::test]
async fn a_task_that_works_for_ever_costs_its_polls_alone() {
    let peer = server(|_| modern_task("working", json!({"pollIntervalMs": 0})));
    let (connection, clock) = peer.connection();
    let task = connection.task("t-1");
    {
        let mut ignore = |_: longhaul_client::Event<'_>| {};
        let mut waiting = Box::pin(task.wait(&mut ignore));
        loop {
            tokio::select! {
                biased;
                ended = &mut waiting => panic!("{ended:?}"),
                () = tokio::task::yield_now() => {}
            }
            if peer.calls_of("tasks/get").len() >= 500 {
                break;
            }
        }
    }
    let polls = peer.calls_of("tasks/get").len();
    let pauses: Vec<Duration> = clock.sleeps();
    let pauses = pauses.iter().filter(|pause| **pause >= Duration::from_millis(20));
    assert!(pauses.count() + 1 >= polls, "{polls} polls");
    connection.list_tools().await.unwrap();
    assert!(peer.calls_of("tasks/get").len() <= polls + 1);
}

/// A server that names another revision of its capabilities from its second probe on.
fn declaring(first: Value, later: Value) -> Peer {
    let probes = AtomicUsize::new(0);
    Peer::start(move |seen| match seen.method() {
        "server/discover" => {
            let declared = match probes.fetch_add(1, Ordering::SeqCst) {
                0 => &first,
                _ => &later,
            };
            seen.result(json!({"supportedVersions": ["2026-07-28"], "capabilities": declared}))
        }
        "tools/list" => seen.result(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
        "tools/call" => seen.result(created()),
        _ => seen.result(modern_task("completed", json!({"result": {"content": []}}))),
    })
}

/// Whoever has not agreed to tasks gets none, and is told which one was made. A server may have learnt to make them since it was asked.
#[tokio::test]
async fn a_task_where_none_may_be_is_refused() {
    let none = || json!({"tools": {}});
    let tasks = || json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let cases = [
        (
            none(),
            none(),
            false,
            Some("the server does not declare the tasks extension"),
            2,
        ),
        (none(), tasks(), false, None, 2),
        (tasks(), tasks(), false, None, 1),
        (
            tasks(),
            tasks(),
            true,
            Some("did not declare that it may become one"),
            1,
        ),
        // It has told nothing.
        (Value::Null, Value::Null, false, None, 1),
    ];
    for (first, later, without_task, expected, probes) in cases {
        let peer = declaring(first, later);
        let (connection, _) = peer.connection();
        let tool = connection.list_tools().await.unwrap().remove(0);
        let mut options = CallOptions::default();
        options.without_task = without_task;
        let called = connection
            .call_tool_with(&tool, &Map::new(), &options, &mut |_| {})
            .await;
        match (called, expected) {
            (Ok(CallResponse::Task(_)), None) => {}
            (Err(refused @ RequestError::UnexpectedTask { .. }), Some(expected)) => {
                let said = refused.to_string();
                assert!(said.contains(expected) && said.contains("\"t-1\""), "{said}");
                assert!(!refused.is_refusal(), "the tool may have run");
            }
            (called, expected) => panic!("expected {expected:?}: {called:?}"),
        }
        assert_eq!(peer.calls_of("server/discover").len(), probes);
        assert_eq!(peer.calls_of("tools/call").len(), 1);
    }
}

/// However long a server says that nobody need look, somebody does within a day.
#[tokio::test]
async fn an_absurd_poll_interval_is_a_day() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    for interval in [json!(u64::MAX), json!(1e300), json!(DAY.as_millis() as u64 + 1)] {
        let peer = server(move |poll| match poll {
            0..3 => modern_task("working", json!({"pollIntervalMs": interval.clone()})),
            _ => modern_task("completed", json!({"result": {"content": []}})),
        });
        let (connection, clock) = peer.connection();
        let task = connection.task("t-1");
        let waited = tokio::time::timeout(PATIENCE, task.wait(&mut |_| {})).await;
        waited.expect("bounded time").unwrap();
        let longest = clock.sleeps().into_iter().max().unwrap();
        assert!((DAY..=DAY + DAY / 5).contains(&longest), "{longest:?}");
    }
    // One that cannot be is none.
    for interval in [json!(-1), json!(null)] {
        let peer = server(move |_| modern_task("working", json!({"pollIntervalMs": interval.clone()})));
        let (connection, _) = peer.connection();
        let read = connection.task("t-1").get().await;
        assert!(read.is_ok_and(|task| task.poll_interval.is_none()));
    }
}
