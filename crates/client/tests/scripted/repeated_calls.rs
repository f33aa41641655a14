//! Calls that failed or were left, what their records say, and the same calls made again.

use crate::{
    peer::{Peer, ReceivedRequest, plain},
    task::{created, modern_task},
};
use axum::{body::Body, http::Response};
use longhaul_client::{
    CallError, CallFilter, CallOptions, CallState, Client, Finished, Inputs, RequestError, StopWaiting,
};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use longhaul_ledger::ClientJournal;
use serde_json::{Map, Value, json};
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A modern server that takes idempotency keys or not.
fn server(takes_keys: bool, script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static) -> Peer {
    server_with(takes_keys.then(|| json!({})), script)
}

/// A modern server that declares this of idempotency keys.
fn server_with(
    keys: Option<Value>,
    script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static,
) -> Peer {
    Peer::start(move |seen| match seen.method() {
        "server/discover" => {
            let mut extensions = json!({"io.modelcontextprotocol/tasks": {}});
            if let Some(keys) = &keys {
                extensions["dev.longhaul/idempotency"] = keys.clone();
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

/// An event stream that never has the response.
fn unanswered() -> Response<Body> {
    let nothing = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(nothing))
        .unwrap()
}

fn key(seen: &ReceivedRequest) -> String {
    seen.params()["_meta"]["dev.longhaul/idempotency-key"].to_string()
}

async fn client(peer: &Peer, directory: &Path) -> (Client, ClientJournal) {
    let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
    (Client::recorded(peer.connection().0, journal.clone()), journal)
}

async fn states(journal: &ClientJournal) -> Vec<CallState> {
    let calls = journal.list(CallFilter::default()).await.unwrap();
    calls.into_iter().map(|call| call.state).collect()
}

#[tokio::test]
async fn only_an_error_before_the_tool_is_a_refusal() {
    let refused = CallState::Finished(Finished::Refused);
    let failed = CallState::Finished(Finished::Failed);
    // HTTP status and code of the error, and the record with and without a key.
    let cases = [
        (200, -32602, Some(&refused)),
        (404, -32601, Some(&refused)),
        (400, -32600, Some(&refused)),
        (400, -32021, Some(&refused)),
        (429, 429, Some(&refused)),
        (503, -32603, Some(&refused)),
        (200, -32603, Some(&failed)),
        (200, -32000, Some(&failed)),
        (200, -32042, Some(&refused)),
        (200, 1234, Some(&failed)),
        // The server may have the call.
        (500, -32603, None),
        (502, -32603, None),
        (504, -32603, None),
        // A proxy does not know it.
        (502, -32600, None),
        (504, -32602, None),
    ];
    for (status, code, recorded) in cases {
        for takes_keys in [false, true] {
            let peer = server(takes_keys, move |seen| seen.error(status, code, Value::Null));
            let directory = tempfile::tempdir().unwrap();
            let (client, journal) = client(&peer, directory.path()).await;
            let error = client.call("build", Value::Null).await.unwrap_err();
            let CallError::Request(error) = error else {
                panic!("{error}")
            };
            let is_refused = recorded == Some(&refused);
            // Tools of servers without keys fail so, too.
            let recorded = match (recorded, status, code) {
                (Some(_), _, -32602..=-32600) if !takes_keys => Some(&failed),
                (recorded, ..) => recorded,
            };
            assert_eq!(error.is_refusal(), is_refused, "{status} {code}: {error}");
            let states = states(&journal).await;
            match (recorded, takes_keys, states.as_slice()) {
                (Some(expected), _, [state]) => assert_eq!(state, expected, "{status} {code}"),
                (None, true, [CallState::Interrupted]) | (None, false, [CallState::Unknown { .. }]) => {}
                (_, _, other) => panic!("{status} {code}: {other:?}"),
            }
            // Under a key the call is sent again while nobody knows.
            let sent = peer.calls_of("tools/call").len();
            assert_eq!(
                sent > 1,
                takes_keys && recorded.is_none(),
                "{status} {code}: sent {sent} times"
            );
        }
    }
}

/// As of a call whose credentials are revoked while it runs.
#[tokio::test]
async fn an_error_that_says_that_a_call_may_have_run_is_no_failure_of_it() {
    for takes_keys in [false, true] {
        let peer = server(takes_keys, |seen| {
            seen.error(200, -32603, json!({"reason": "interrupted"}))
        });
        let directory = tempfile::tempdir().unwrap();
        let (client, journal) = client(&peer, directory.path()).await;
        client.call("build", Value::Null).await.unwrap_err();
        let states = states(&journal).await;
        assert!(matches!(states.as_slice(), [CallState::Unknown { .. }]), "{states:?}");
        assert_eq!(peer.calls_of("tools/call").len(), 1);
    }
}

/// A limit before the server knows nothing of JSON-RPC.
#[tokio::test]
async fn a_plain_429_is_a_refusal_and_a_plain_503_is_not() {
    for (status, is_refused) in [(429, true), (503, false)] {
        let peer = server(false, move |_| plain(status, "later"));
        let directory = tempfile::tempdir().unwrap();
        let (client, journal) = client(&peer, directory.path()).await;
        let Err(CallError::Request(error)) = client.call("build", Value::Null).await else {
            panic!("no error")
        };
        assert!(error.is_transient() && error.is_refusal() == is_refused, "{error}");
        match (is_refused, states(&journal).await.as_slice()) {
            (true, [CallState::Finished(Finished::Refused)]) | (false, [CallState::Unknown { .. }]) => {}
            other => panic!("{status}: {other:?}"),
        }
    }
}

/// A proxy has waited for the answer of a tool that has run.
#[tokio::test]
async fn after_a_gateway_timeout_the_tool_runs_once() {
    for takes_keys in [false, true] {
        for is_plain in [false, true] {
            let runs = Arc::new(Mutex::new(Vec::new()));
            let executed = Arc::clone(&runs);
            let peer = server(takes_keys, move |seen| {
                let mut executed = executed.lock().unwrap();
                let is_known = takes_keys && executed.contains(&key(seen));
                match (is_known, is_plain) {
                    (true, _) => return seen.result(json!({"resultType": "complete", "content": []})),
                    (false, _) => executed.push(key(seen)),
                }
                match is_plain {
                    true => plain(504, "gateway timeout"),
                    false => seen.error(504, -32000, Value::Null),
                }
            });
            let directory = tempfile::tempdir().unwrap();
            let (client, journal) = client(&peer, directory.path()).await;
            let called = client.call("build", Value::Null).await;
            let states = states(&journal).await;
            match (takes_keys, called, states.as_slice()) {
                (false, Err(CallError::Request(error)), [CallState::Unknown { .. }]) => {
                    assert!(error.is_transient() && !error.is_refusal(), "{error}");
                    assert_eq!(peer.calls_of("tools/call").len(), 1);
                }
                (true, Ok(_), [CallState::Finished(Finished::Answered)]) => {
                    assert_eq!(peer.calls_of("tools/call").len(), 2);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(runs.lock().unwrap().len(), 1);
        }
    }
}

/// Dropping the handle only asks the driver to end, and the same call may be made before it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_dropped_is_the_same_call_when_it_is_made_at_once() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let peer = server(true, move |seen| match hanging.load(Ordering::SeqCst) {
        true => unanswered(),
        false => seen.result(json!({"resultType": "complete", "content": []})),
    });
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    let mut keys: Vec<String> = Vec::new();
    for nth in 0..20 {
        hangs.store(true, Ordering::SeqCst);
        let call = client
            .start("build", json!({"nth": nth, "of": {"a": 1, "b": [20]}}))
            .await
            .unwrap();
        while peer.calls_of("tools/call").len() == 2 * nth {
            tokio::task::yield_now().await;
        }
        hangs.store(false, Ordering::SeqCst);
        drop(call);
        // Whoever makes the call again may write its arguments in another way.
        let same = json!({"of": {"b": [20.0], "a": 1}, "nth": nth});
        client.call("build", same).await.unwrap();
        let calls = peer.calls_of("tools/call");
        assert_eq!(key(&calls[2 * nth]), key(&calls[2 * nth + 1]), "another call");
        keys.push(key(&calls[2 * nth]));
    }
    keys.dedup();
    assert_eq!(keys.len(), 20);
    let answered = CallState::Finished(Finished::Answered);
    assert_eq!(states(&journal).await, vec![answered; 20]);
}

/// The same for a call of which the server has made a task just now: its task is not lost.
#[tokio::test]
async fn a_call_that_is_dropped_after_its_answer_keeps_its_task() {
    let peer = server(true, |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        _ => plain(503, "busy"),
    });
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    let call = client.start("build", Value::Null).await.unwrap();
    call.task().await.unwrap();
    drop(call);
    assert_eq!(states(&journal).await, [CallState::Task]);
    assert!(matches!(
        client.connection().task("t-1").get().await,
        Err(RequestError::Http { status: 503, .. })
    ));
}

/// A clock whose date a test sets.
#[derive(Default)]
struct DateClock(AtomicI64);

impl Clock for DateClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A server may tell how long it knows a key. After that the same call would be another one.
#[tokio::test]
async fn a_call_whose_key_may_be_forgotten_is_not_repeated() {
    const HOUR: i64 = 3_600_000;
    // What the server declares, the age of the call, and whether it is the same call.
    let cases = [
        (json!({"retentionMs": HOUR}), HOUR - 1, true),
        (json!({"retentionMs": HOUR}), HOUR, false),
        (json!({"retentionMs": 1_000 * HOUR}), 24 * HOUR, false),
        (json!({}), 24 * HOUR - 1, true),
        (json!({}), 24 * HOUR, false),
        (json!({"retentionMs": "soon"}), 2 * HOUR, true),
    ];
    for (keys, age, is_same) in cases {
        let hangs = Arc::new(AtomicBool::new(true));
        let hanging = Arc::clone(&hangs);
        let peer = server_with(Some(keys.clone()), move |seen| match hanging.load(Ordering::SeqCst) {
            true => unanswered(),
            false => seen.result(json!({"resultType": "complete", "content": []})),
        });
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(DateClock::default());
        let path = directory.path().join("client/handles.db");
        let journal = ClientJournal::open_with_clock(&path, clock.clone()).await.unwrap();
        let client = Client::recorded(peer.connection().0, journal.clone());
        let call = client.start("build", Value::Null).await.unwrap();
        while peer.calls_of("tools/call").is_empty() {
            tokio::task::yield_now().await;
        }
        drop(call);
        hangs.store(false, Ordering::SeqCst);
        clock.0.store(age, Ordering::SeqCst);
        client.call("build", Value::Null).await.unwrap();
        let calls = peer.calls_of("tools/call");
        assert_eq!(key(&calls[0]) == key(&calls[1]), is_same, "{keys} after {age}");
        match (is_same, states(&journal).await.as_slice()) {
            (true, [CallState::Finished(_)]) => {}
            (false, [CallState::Finished(_), CallState::Unknown { reason }]) => {
                assert!(reason.contains("forgotten its idempotency key"), "{reason}");
            }
            (_, other) => panic!("{keys} after {age}: {other:?}"),
        }
    }
}

/// A type of result that this client does not know may say that the tool waits for something.
#[tokio::test]
async fn a_result_of_an_unknown_type_leaves_the_outcome_unknown() {
    let peer = server(false, |seen| seen.result(json!({"resultType": "nobody knows"})));
    let directory = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
        .await
        .unwrap();
    let client = Client::recorded(peer.connection().0, journal.clone());
    let called = client.call("build", Value::Null).await;
    assert!(
        matches!(called, Err(CallError::Request(RequestError::Invalid(_)))),
        "{called:?}"
    );
    let [call] = journal.list(CallFilter::default()).await.unwrap().try_into().unwrap();
    assert!(matches!(call.state, CallState::Unknown { .. }), "{:?}", call.state);
}

/// Two names of one server may be two callers, whose keys and tasks the server keeps apart.
#[tokio::test]
async fn calls_under_two_names_are_those_of_two_callers() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let peer = server(true, move |seen| match hanging.load(Ordering::SeqCst) {
        true => unanswered(),
        false => seen.result(created()),
    });
    let directory = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
        .await
        .unwrap();
    let named = |name: &str| {
        let connection = peer.connection().0;
        Client::recorded_as(connection, journal.clone(), peer.url(), Some(name.to_owned()))
    };
    let (al, bo) = (named("al"), named("bo"));
    let call = al.start("build", Value::Null).await.unwrap();
    while peer.calls_of("tools/call").is_empty() {
        tokio::task::yield_now().await;
    }
    drop(call);
    hangs.store(false, Ordering::SeqCst);
    let called = bo.start("build", Value::Null).await.unwrap();
    called.detach().await.unwrap();
    let calls = peer.calls_of("tools/call");
    assert_ne!(key(&calls[0]), key(&calls[1]), "the key of another caller");
    let unfinished = al.calls().await.unwrap();
    assert_eq!(unfinished.len(), 1, "{unfinished:?}");
    assert_eq!(unfinished[0].state, CallState::Interrupted);
    assert_eq!(al.tasks().await.unwrap().len(), 0, "the task of another caller");
    assert_eq!(bo.tasks().await.unwrap().len(), 1);
}

/// Two calls with one key are one call: its task has one record, and asks each question once, also after a restart of the client.
#[tokio::test]
async fn two_calls_with_one_key_have_one_record() {
    let question = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}});
    let asks = Arc::new(AtomicBool::new(true));
    let asking = Arc::clone(&asks);
    let peer = server(true, move |seen| match (seen.method(), asking.load(Ordering::SeqCst)) {
        ("tools/call", _) => seen.result(created()),
        ("tasks/get", true) => seen.result(modern_task(
            "input_required",
            json!({"inputRequests": {"k1": question}}),
        )),
        ("tasks/get", false) => seen.result(modern_task("completed", json!({"result": {"content": []}}))),
        _ => plain(404, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let path = directory.path().join("client/handles.db");
    let start = async |journal: &ClientJournal| {
        let asked = Arc::clone(&asked);
        let inputs = Inputs::new().elicit(move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        });
        let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
        let client = Client::recorded(connection, journal.clone());
        let mut options = CallOptions::default();
        options.idempotency_key = Some("one".to_owned());
        client.start_with("build", Value::Null, options).await.unwrap()
    };
    let polled = async |more: usize| {
        let polls = peer.calls_of("tasks/get").len();
        while peer.calls_of("tasks/get").len() < polls + more {
            tokio::task::yield_now().await;
        }
    };
    let first = ClientJournal::open(&path).await.unwrap();
    let one = start(&first).await;
    while asked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let two = start(&first).await;
    two.task().await.unwrap();
    polled(5).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the same question");
    assert_eq!(states(&first).await, [CallState::Task]);
    drop((one, two));
    // The next process, in which the user has not answered yet.
    let next = ClientJournal::open(&path).await.unwrap();
    let three = start(&next).await;
    three.task().await.unwrap();
    polled(5).await;
    assert_eq!(states(&next).await, [CallState::Task]);
    asks.store(false, Ordering::SeqCst);
    three.result().await.unwrap();
    assert_eq!(states(&next).await, [CallState::Finished(Finished::Completed)]);
}

/// The server that answers after a broken connection may be another one, which takes no keys.
#[tokio::test]
async fn a_call_is_not_sent_again_to_a_server_that_takes_no_keys() {
    let is_replaced = Arc::new(AtomicBool::new(false));
    let replaced = Arc::clone(&is_replaced);
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => {
            let extensions = match replaced.load(Ordering::SeqCst) {
                false => json!({"dev.longhaul/idempotency": {}}),
                true => json!({}),
            };
            seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": extensions},
            }))
        }
        "tools/list" => seen.result(json!({
            "resultType": "complete", "tools": [{"name": "build", "inputSchema": {"type": "object"}}],
        })),
        _ => {
            // The tool has run, and the connection breaks.
            replaced.store(true, Ordering::SeqCst);
            let broken = futures_util::stream::iter([Err::<Vec<u8>, _>(std::io::Error::other("gone"))]);
            Response::builder()
                .header("content-type", "application/json")
                .body(Body::from_stream(broken))
                .unwrap()
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let (client, journal) = client(&peer, directory.path()).await;
    let called = client.call("build", Value::Null).await;
    assert!(
        matches!(&called, Err(CallError::Request(RequestError::NoKeysAnyMore { .. }))),
        "{called:?}"
    );
    assert_eq!(peer.calls_of("tools/call").len(), 1, "it may have run");
    assert!(matches!(states(&journal).await.as_slice(), [CallState::Unknown { .. }]));
}

/// Under its key it is not lost, and the server has had its time to name a task.
#[tokio::test]
async fn a_call_that_is_left_after_a_while_is_left_at_once() {
    const LAST_WORD: Duration = Duration::from_secs(2);
    for (passed, is_waited_for) in [(Duration::ZERO, true), (LAST_WORD, false)] {
        let peer = server(true, |seen| match seen.method() {
            "tools/call" => unanswered(),
            _ => plain(404, ""),
        });
        let directory = tempfile::tempdir().unwrap();
        let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
            .await
            .unwrap();
        let (connection, clock) = peer.connection();
        let client = Client::recorded(connection, journal);
        let tools = client.connection().list_tools().await.unwrap();
        let mut options = CallOptions::default();
        options.idempotency_key = Some("one".to_owned());
        let mut call = client.prepare(&tools[0], &Map::new(), options).await.unwrap();
        let left = async {
            while peer.calls_of("tools/call").is_empty() {
                tokio::task::yield_now().await;
            }
            clock.advance(passed);
            StopWaiting::Leave
        };
        assert!(call.send_unless(left, &mut |_| ()).await.is_none());
        assert_eq!(clock.sleeps().contains(&LAST_WORD), is_waited_for, "{passed:?}");
    }
}
