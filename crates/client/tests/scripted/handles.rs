//! Handles and outcomes that a change of the session, a cancellation or a proxy could lose.

use crate::{
    peer::{Peer, ReceivedRequest, event_stream, legacy, legacy_with, plain},
    task::legacy_task,
};
use axum::{body::Body, http::Response};
use longhaul_client::{CallError, CallFilter, CallState, Client, Finished, Outcome};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::{
    future::pending,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, mpsc};

async fn journal(directory: &Path) -> ClientJournal {
    ClientJournal::open(&directory.join("client/handles.db")).await.unwrap()
}

async fn states(journal: &ClientJournal) -> Vec<CallState> {
    let calls = journal.list(CallFilter::default()).await.unwrap();
    calls.into_iter().map(|call| call.state).collect()
}

fn tasks() -> Value {
    json!({"requests": {"tools": {"call": {}}}, "cancel": {}})
}

/// Responses that a test sends when it wants.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<Vec<HeldResponse>>>);

/// The id of the request, and the stream of its response.
type HeldResponse = (Value, mpsc::UnboundedSender<String>);

impl Held {
    fn hold(&self, seen: &ReceivedRequest) -> Response<Body> {
        let (stream, events) = mpsc::unbounded_channel();
        self.0.lock().unwrap().push((seen.body["id"].clone(), stream));
        event_stream(events)
    }

    fn answer(&self, result: Value) {
        // The peer has noted a request a moment before its response is held.
        while self.0.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        let (id, stream) = self.0.lock().unwrap().remove(0);
        let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
        stream.send(format!("data: {response}\n\n")).unwrap();
    }
}

/// No process may end the session in which the call, or its task, may be.
#[tokio::test]
async fn a_call_that_is_sent_again_is_recorded_in_the_new_session() {
    let held = Held::default();
    let calls = held.clone();
    let capabilities = json!({"tools": {}, "tasks": tasks(), "experimental": {"dev.longhaul/idempotency": {}}});
    let peer = legacy_with(capabilities, move |seen| match seen.method() {
        "tools/call" if seen.header("mcp-session-id") == Some("session-1") => plain(404, "session not found"),
        "tools/call" => calls.hold(seen),
        _ => plain(405, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let (journal, other) = (journal(directory.path()).await, journal(directory.path()).await);
    let client = Client::recorded(peer.connection().0, journal);
    let call = client.start("optional", Value::Null).await.unwrap();
    while peer.calls_of("tools/call").len() < 2 {
        tokio::task::yield_now().await;
    }
    let in_use = other.sessions_in_use(peer.url()).await.unwrap();
    let in_use: Vec<&str> = in_use.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(in_use, ["session-2"]);
    assert_eq!(other.may_end_session(peer.url(), "session-2").await, Ok(false));
    // Nobody needs the one that the server has lost.
    assert_eq!(other.may_end_session(peer.url(), "session-1").await, Ok(true));
    held.answer(json!({"task": legacy_task("working", json!({}))}));
    assert!(call.task().await.is_some());
    assert_eq!(states(&other).await, [CallState::Task]);
}

/// Another request may have found that the server has lost the session, and the server may take its time for a new one.
#[tokio::test]
async fn a_handle_is_recorded_while_another_request_connects_again() {
    let (held, sessions) = (Held::default(), AtomicUsize::new(0));
    let (calls, handshakes) = (held.clone(), Held::default());
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.error(400, -32000, json!("no session")),
        // The second one is never answered.
        "initialize" if sessions.fetch_add(1, Ordering::SeqCst) > 0 => handshakes.hold(seen),
        "initialize" => {
            let mut answer = seen.result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "tasks": tasks()},
            }));
            answer
                .headers_mut()
                .insert("mcp-session-id", "session-1".parse().unwrap());
            answer
        }
        "tools/list" => seen.result(json!({"tools": [{
            "name": "build", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"},
        }]})),
        "tools/call" => calls.hold(seen),
        "x/other" => plain(404, "session not found"),
        _ => plain(202, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let journal = journal(directory.path()).await;
    let client = Client::recorded(peer.connection().0, journal.clone());
    let call = client.start("build", Value::Null).await.unwrap();
    while peer.calls_of("tools/call").is_empty() {
        tokio::task::yield_now().await;
    }
    let recorded = async {
        while peer.calls_of("initialize").len() < 2 {
            tokio::task::yield_now().await;
        }
        held.answer(json!({"task": legacy_task("working", json!({}))}));
        let task = call.task().await.unwrap();
        assert_eq!(states(&journal).await, [CallState::Task]);
        assert_eq!(task.id(), "t-1");
    };
    tokio::select! {
        () = recorded => {}
        sent = client.connection().send("x/other", Value::Null) => panic!("{sent:?}"),
    }
}

/// How long a legacy server may take to name the task of a call that is cancelled.
const LAST_WORD: Duration = Duration::from_secs(2);

/// A clock with which that time is over when the test says so, and every other pause at once.
#[derive(Default)]
struct LastWordClock {
    has_begun: Notify,
    is_over: Arc<Notify>,
}

impl Clock for LastWordClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        match duration {
            LAST_WORD => {
                self.has_begun.notify_one();
                let is_over = Arc::clone(&self.is_over);
                Box::pin(async move { is_over.notified().await })
            }
            // Its session is not looked at.
            long if long > Duration::from_secs(60) => Box::pin(pending()),
            _ => Box::pin(tokio::task::yield_now()),
        }
    }
}

/// A call that is cancelled before its answer came. The task is cancelled once `cancel` of the request has an answer without an error.
async fn cancel_before_the_answer(
    cancel: impl Fn(&ReceivedRequest, usize) -> Response<Body> + Send + Sync + 'static,
    ended: &'static str,
    is_answered: bool,
) -> (Result<Outcome, CallError>, Vec<CallState>, usize) {
    let (held, cancels, has_ended) = (Held::default(), AtomicUsize::new(0), AtomicBool::new(false));
    let calls = held.clone();
    let peer = legacy(tasks(), move |seen| match seen.method() {
        "tools/call" => calls.hold(seen),
        "tasks/cancel" => {
            let answer = cancel(seen, cancels.fetch_add(1, Ordering::SeqCst));
            has_ended.store(answer.status() == 200, Ordering::SeqCst);
            answer
        }
        "tasks/get" if has_ended.load(Ordering::SeqCst) => seen.result(legacy_task(ended, json!({}))),
        "tasks/get" => seen.result(legacy_task("working", json!({}))),
        "tasks/result" => seen.result(json!({"content": []})),
        _ => plain(405, ""),
    });
    let directory = tempfile::tempdir().unwrap();
    let journal = journal(directory.path()).await;
    let clock = Arc::new(LastWordClock::default());
    let (connection, _) = peer.connection_with(|options| options.clock = clock.clone());
    let client = Client::recorded(connection, journal.clone());
    let call = client.start("optional", Value::Null).await.unwrap();
    while peer.calls_of("tools/call").is_empty() {
        tokio::task::yield_now().await;
    }
    let answering = async {
        clock.has_begun.notified().await;
        match is_answered {
            true => held.answer(json!({"task": legacy_task("working", json!({}))})),
            false => clock.is_over.notify_one(),
        }
    };
    let (cancelled, ()) = tokio::join!(call.cancel(), answering);
    match is_answered {
        true => cancelled.unwrap(),
        false => assert!(
            matches!(cancelled, Err(CallError::OutcomeUnknown { .. })),
            "{cancelled:?}"
        ),
    }
    let outcome = call.result().await;
    (outcome, states(&journal).await, peer.calls_of("tasks/cancel").len())
}

/// A legacy server that was asked for a task goes on with it whoever has left, so without its id nobody could cancel it.
#[tokio::test]
async fn a_task_that_is_named_after_the_cancellation_is_cancelled() {
    let cancelled = |seen: &ReceivedRequest, _| seen.result(legacy_task("cancelled", json!({})));
    let (outcome, states, cancels) = cancel_before_the_answer(cancelled, "cancelled", true).await;
    assert!(matches!(outcome, Ok(Outcome::Cancelled)), "{outcome:?}");
    assert_eq!(states, [CallState::Finished(Finished::Cancelled)]);
    assert_eq!(cancels, 1);

    let (outcome, states, cancels) = cancel_before_the_answer(cancelled, "cancelled", false).await;
    assert!(matches!(outcome, Err(CallError::OutcomeUnknown { .. })), "{outcome:?}");
    assert!(matches!(states.as_slice(), [CallState::Unknown { .. }]), "{states:?}");
    assert_eq!(cancels, 0);
}

#[tokio::test]
async fn a_task_that_ended_before_its_cancellation_keeps_its_outcome() {
    let refused = |seen: &ReceivedRequest, _| seen.error(200, -32602, Value::Null);
    let (outcome, states, cancels) = cancel_before_the_answer(refused, "completed", true).await;
    assert!(matches!(outcome, Ok(Outcome::Result { .. })), "{outcome:?}");
    assert_eq!(states, [CallState::Finished(Finished::Completed)]);
    assert_eq!(cancels, 1);
}

#[tokio::test]
async fn a_cancellation_is_sent_again_until_the_server_has_it() {
    let busy = |seen: &ReceivedRequest, nth| match nth {
        0..3 => plain(503, "busy"),
        _ => seen.result(legacy_task("cancelled", json!({}))),
    };
    let (outcome, states, cancels) = cancel_before_the_answer(busy, "cancelled", true).await;
    assert!(matches!(outcome, Ok(Outcome::Cancelled)), "{outcome:?}");
    assert_eq!(states, [CallState::Finished(Finished::Cancelled)]);
    assert_eq!(cancels, 4);
}
