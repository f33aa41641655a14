//! Defects of waiting and recording that a reviewer has found.

use crate::{
    peer::{Peer, ReceivedRequest, legacy, modern, plain},
    task::{created, legacy_task, modern_task},
};
use axum::{body::Body, http::Response};
use longhaul_client::{
    CallFilter, CallResponse, CallState, Client, Connection, Event, InputResponse, Inputs, Options, Outcome,
    RequestError,
};
use longhaul_ledger::ClientJournal;
use serde_json::{Map, Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

fn question(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object", "properties": {}}}})
}

fn asking(keys: &[&str]) -> Value {
    let requests: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), question(key))).collect();
    modern_task("input_required", json!({"inputRequests": requests}))
}

fn completed() -> Value {
    modern_task("completed", json!({"result": {"content": []}}))
}

/// Answers with the message, and lists what was asked.
fn answering() -> (Inputs, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&asked);
    let inputs = Inputs::new().elicit(move |question| {
        list.lock().unwrap().push(question.message().to_owned());
        async move { Ok(InputResponse::accept(json!({}))) }
    });
    (inputs, asked)
}

async fn wait(
    peer: &Peer,
    inputs: Inputs,
    on_event: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<Outcome, RequestError> {
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
    connection.list_tools().await?;
    connection.task("t-1").wait(on_event).await
}

#[tokio::test]
async fn a_question_that_is_listed_again_is_asked_again() {
    let polls = AtomicUsize::new(0);
    let answered = Arc::new(AtomicBool::new(false));
    let has_answer = Arc::clone(&answered);
    let peer = modern(move |seen| match seen.method() {
        "tasks/get" if has_answer.load(Ordering::SeqCst) => seen.result(completed()),
        "tasks/get" => match polls.fetch_add(1, Ordering::SeqCst) {
            1 => seen.result(modern_task("working", json!({}))),
            _ => seen.result(asking(&["a"])),
        },
        "tasks/update" => {
            has_answer.store(true, Ordering::SeqCst);
            seen.result(json!({"resultType": "complete"}))
        }
        _ => plain(404, ""),
    });
    // The first time the user does not answer before the question is gone.
    let asked = Arc::new(AtomicUsize::new(0));
    let times = Arc::clone(&asked);
    let inputs = Inputs::new().elicit(move |_| {
        let nth = times.fetch_add(1, Ordering::SeqCst);
        async move {
            if nth == 0 {
                std::future::pending::<()>().await;
            }
            Ok(InputResponse::accept(json!({})))
        }
    });
    wait(&peer, inputs, &mut |_| {}).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// A wrong answer is told, and asked again; the right ones beside it are taken.
#[tokio::test]
async fn a_refused_answer_is_told_and_asked_again() {
    let taken = Arc::new(Mutex::new(Vec::<String>::new()));
    let (all, refusals) = (Arc::clone(&taken), AtomicUsize::new(0));
    let peer = modern(move |seen| match seen.method() {
        "tasks/get" => {
            let taken = all.lock().unwrap();
            let open: Vec<&str> = ["a", "b"]
                .into_iter()
                .filter(|key| !taken.iter().any(|have| have == key))
                .collect();
            match open.is_empty() {
                true => seen.result(completed()),
                false => seen.result(asking(&open)),
            }
        }
        "tasks/update" => {
            let answers = seen.params()["inputResponses"].as_object().unwrap();
            if answers.contains_key("b") && refusals.fetch_add(1, Ordering::SeqCst) < 2 {
                return seen.error(200, -32602, Value::Null);
            }
            all.lock().unwrap().extend(answers.keys().cloned());
            seen.result(json!({"resultType": "complete"}))
        }
        _ => plain(404, ""),
    });
    let (inputs, asked) = answering();
    let mut told = 0;
    let mut on_event = |event: Event<'_>| told += u32::from(matches!(event, Event::AnswerRefused { .. }));
    let outcome = wait(&peer, inputs, &mut on_event).await.unwrap();
    assert!(matches!(outcome, Outcome::Result { .. }));
    let asked = asked.lock().unwrap().clone();
    assert_eq!(
        (asked.iter().filter(|key| *key == "a").count(), told > 0),
        (1, true),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_server_that_refuses_every_answer_ends_the_wait() {
    let peer = modern(|seen| match seen.method() {
        "tasks/get" => seen.result(asking(&["a"])),
        "tasks/update" => seen.error(200, -32602, Value::Null),
        _ => plain(404, ""),
    });
    let (inputs, asked) = answering();
    let error = wait(&peer, inputs, &mut |_| {}).await.unwrap_err();
    assert!(
        matches!(&error, RequestError::Rpc(failure) if failure.code == -32602),
        "{error}"
    );
    assert_eq!(asked.lock().unwrap().len(), 3);
}

/// Some servers forget a task with its result.
#[tokio::test]
async fn a_result_that_is_given_once_is_not_thrown_away() {
    let given = AtomicUsize::new(0);
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        match seen.method() {
            "tasks/get" if given.load(Ordering::SeqCst) == 0 => seen.result(legacy_task("input_required", json!({}))),
            "tasks/result" if given.fetch_add(1, Ordering::SeqCst) == 0 => seen.result(json!({"content": []})),
            _ => seen.error(200, -32602, Value::Null),
        }
    });
    // By real time: the result arrives before the second poll, or soon after it.
    let mut options = Options::named("test", "0");
    options.inputs = Some(answering().0.into());
    let connection = Connection::open(&peer.url(), options).await.unwrap();
    let outcome = connection.task("t-1").wait(&mut |_| {}).await;
    assert!(matches!(outcome, Ok(Outcome::Result { .. })), "{outcome:?}");
}

/// A call whose task has already ended has no pause before its outcome is read.
#[tokio::test]
async fn a_task_that_ended_at_once_is_read_at_once() {
    let peer = modern(|seen| match seen.method() {
        "tools/call" => seen.result(modern_task(
            "completed",
            json!({"resultType": "task", "pollIntervalMs": 60_000}),
        )),
        _ => seen.result(completed()),
    });
    let (connection, clock) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    let CallResponse::Task(task) = connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap() else {
        panic!("no task")
    };
    task.wait(&mut |_| {}).await.unwrap();
    assert!(clock.sleeps().is_empty(), "{:?}", clock.sleeps());
}

fn keyed(script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static) -> Peer {
    modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        _ => script(seen),
    })
}

async fn states(journal: &ClientJournal) -> Vec<CallState> {
    let calls = journal.list(CallFilter::default()).await.unwrap();
    calls.into_iter().map(|call| call.state).collect()
}

/// The server was another one for a while.
#[tokio::test]
async fn a_task_that_was_taken_for_lost_lives_again_when_it_is_read() {
    let polls = AtomicUsize::new(0);
    let peer = keyed(move |seen| match polls.fetch_add(1, Ordering::SeqCst) {
        0 => seen.error(200, -32602, Value::Null),
        _ => seen.result(modern_task("working", json!({}))),
    });
    let folder = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&folder.path().join("client/handles.db"))
        .await
        .unwrap();
    let client = Client::recorded(peer.connection().0, journal.clone());
    let call = client.start("größe", Value::Null).await.unwrap();
    let task = call.task().await.unwrap();
    call.result().await.unwrap_err();
    assert!(matches!(states(&journal).await.as_slice(), [CallState::Lost { .. }]));
    task.get().await.unwrap();
    assert_eq!(states(&journal).await, [CallState::Task]);
    drop((client, task));
    let later = Client::recorded(peer.connection().0, journal);
    assert_eq!(later.tasks().await.unwrap().len(), 1);
}

/// The disk was full, or another process held the journal, when the task was created.
#[tokio::test]
async fn a_task_that_could_not_be_recorded_is_recorded_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("client/handles.db");
    let aside = folder.path().join("client/aside.db");
    let (from, to) = (path.clone(), aside.clone());
    let peer = modern(move |seen| match seen.method() {
        "tools/call" => {
            std::fs::rename(&from, &to).unwrap();
            seen.result(created())
        }
        _ => seen.result(modern_task("working", json!({}))),
    });
    let journal = ClientJournal::open(&path).await.unwrap();
    let client = Client::recorded(peer.connection().0, journal.clone());
    let tools = client.connection().list_tools().await.unwrap();
    let mut call = client
        .prepare(&tools[0], &Map::new(), Default::default())
        .await
        .unwrap();
    let mut errors = 0;
    let CallResponse::Task(task) = (call
        .send(&mut |event| errors += u32::from(matches!(event, Event::NotRecorded { .. }))))
    .await
    .unwrap() else {
        panic!("no task")
    };
    assert_eq!(errors, 1);
    std::fs::rename(&aside, &path).unwrap();
    task.get().await.unwrap();
    assert_eq!(states(&journal).await, [CallState::Task]);
}

/// Forty lines that ask for more steps than anybody can wait for.
#[tokio::test]
async fn an_output_schema_without_end_is_given_up() {
    let mut defs = Map::new();
    for depth in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", depth + 1)});
        defs.insert(format!("d{depth}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d40".to_owned(), json!({"type": "object"}));
    let schema = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs});
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        ),
        "tools/list" => seen.result(json!({"resultType": "complete", "tools": [
            {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema},
        ]})),
        _ => seen.result(json!({"resultType": "complete", "content": [], "structuredContent": {}})),
    });
    let (connection, _) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    for _ in 0..2 {
        connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap();
    }
}

/// Each page has a new cursor, and nothing else.
#[tokio::test]
async fn a_list_of_empty_pages_without_end_is_given_up() {
    let pages = AtomicUsize::new(0);
    let peer = modern(move |seen| {
        let next = pages.fetch_add(1, Ordering::SeqCst).to_string();
        seen.result(json!({"resultType": "complete", "prompts": [], "nextCursor": next}))
    });
    let (connection, _) = peer.connection();
    let error = connection.list_prompts().await.unwrap_err();
    assert!(error.to_string().contains("pages in a row were empty"), "{error}");
    assert_eq!(peer.calls_of("prompts/list").len(), 100);
}
