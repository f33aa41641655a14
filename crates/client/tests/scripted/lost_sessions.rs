//! Sessions that a server has lost, and answers that only look like that.

use crate::peer::{Peer, ReceivedRequest, event_stream, legacy, modern, plain};
use axum::{
    body::Body,
    http::{Method, Response},
};
use futures_util::future::join;
use longhaul_client::{CallResponse, Inputs, Outcome, RequestError};
use serde_json::{Map, Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::{Notify, mpsc};

fn task(status: &str) -> Value {
    json!({"taskId": "t-1", "status": status, "createdAt": "x", "lastUpdatedAt": "x", "ttl": null, "pollInterval": 100})
}

/// A refusal whose body is JSON, with this id.
fn refusal(status: u16, id: &Value, code: i32) -> Response<Body> {
    let error = json!({"code": code, "message": "Bad Request: No valid session ID provided"});
    json_body(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn json_body(status: u16, body: &Value) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(body.to_string().into())
        .unwrap()
}

fn is_in(seen: &ReceivedRequest, session: &str) -> bool {
    seen.header("mcp-session-id") == Some(session)
}

async fn call(peer: &Peer) -> Result<CallResponse, RequestError> {
    let (connection, _) = peer.connection();
    let tool = connection.list_tools().await.unwrap().remove(0);
    connection.call_tool(&tool, &Map::new(), &mut |_| {}).await
}

/// The ids of a server's requests begin anew in each session.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]
async fn the_question_of_a_lost_session_is_withdrawn_and_never_answered() {
    let is_lost = Arc::new(AtomicBool::new(false));
    let (lost, streams) = (Arc::clone(&is_lost), Mutex::new(Vec::new()));
    let peer = legacy(json!({}), move |seen| match seen.method() {
        _ if lost.load(Ordering::Relaxed) && is_in(seen, "session-1") => plain(404, "session not found"),
        "x/ask" => {
            let message = if is_in(seen, "session-1") { "A" } else { "B" };
            let (stream, events) = mpsc::unbounded_channel();
            let question = json!({
                "jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": message, "requestedSchema": {}},
            });
            stream.send(format!("data: {question}\n\n")).unwrap();
            streams.lock().unwrap().push(stream);
            event_stream(events)
        }
        "x/other" => seen.result(json!({})),
        _ if seen.verb == Method::GET => plain(405, ""),
        _ => plain(202, ""),
    });
    let (asked, mut is_asked) = mpsc::unbounded_channel();
    let (open, mut has_ended) = mpsc::channel::<()>(1);
    let user = Arc::new(Notify::new());
    let answers = Arc::clone(&user);
    let inputs = Inputs::new().elicit(move |question| {
        let (message, answers) = (question.message().to_owned(), Arc::clone(&answers));
        let open = Some(open.clone()).filter(|_| message == "A");
        asked.send(message.clone()).unwrap();
        async move {
            let _open = open;
            if message == "A" {
                answers.notified().await;
            }
            Ok(longhaul_client::InputResponse::accept(json!({"to": message})))
        }
    });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
    let losing = async {
        assert_eq!(is_asked.recv().await.unwrap(), "A");
        is_lost.store(true, Ordering::Relaxed);
        connection.send("x/other", Value::Null).await.unwrap();
        // The user answers what the lost session has asked.
        user.notify_one();
        let asking = connection.clone();
        let second = tokio::task::spawn(async move { asking.send("x/ask", Value::Null).await });
        assert_eq!(is_asked.recv().await.unwrap(), "B");
        let is_answer = |seen: &ReceivedRequest| seen.body["result"]["content"]["to"].is_string();
        loop {
            let answers: Vec<_> = peer.seen().into_iter().filter(is_answer).collect();
            if answers
                .iter()
                .any(|answer| answer.body["result"]["content"]["to"] == "B")
            {
                second.abort();
                break answers;
            }
            tokio::task::yield_now().await;
        }
    };
    let answers = tokio::select! {
        answers = losing => answers,
        ended = connection.send("x/ask", Value::Null) => panic!("{ended:?}"),
    };
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(is_in(&answers[0], "session-2"));
    drop(connection);
    assert_eq!(has_ended.recv().await, None, "A is withdrawn");
}

/// What has answered the call itself has processed it.
#[tokio::test]
async fn a_modern_call_is_sent_once_whatever_status_its_answer_has() {
    let refused = modern(|seen| seen.error(400, -32000, Value::Null));
    let error = call(&refused).await.unwrap_err();
    assert!(
        matches!(&error, RequestError::Rpc(failure) if failure.code == -32000),
        "{error}"
    );

    let odd = modern(|seen| {
        let mut answer = seen.result(json!({"resultType": "complete", "content": []}));
        *answer.status_mut() = axum::http::StatusCode::NOT_FOUND;
        answer
    });
    assert!(matches!(
        call(&odd).await.unwrap(),
        CallResponse::Done(Outcome::Result { .. })
    ));

    let lost = modern(|_| plain(404, "not here"));
    let error = call(&lost).await.unwrap_err();
    assert!(matches!(error, RequestError::Http { status: 404, .. }), "{error}");

    for (peer, probes) in [(refused, 1), (odd, 1), (lost, 2)] {
        assert_eq!(peer.calls_of("tools/call").len(), 1);
        assert_eq!(peer.calls_of("server/discover").len(), probes);
    }
}

#[tokio::test]
async fn a_call_that_a_legacy_server_refused_is_sent_again_after_the_handshake() {
    let is_replaced = AtomicBool::new(false);
    let peer = Peer::start(move |seen| {
        let has_session = seen.header("mcp-protocol-version") == Some("2025-11-25");
        match (seen.method(), is_replaced.load(Ordering::Relaxed)) {
            ("server/discover", false) => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
            ("tools/list", false) => seen.result(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
            ("tools/call", _) if !has_session => {
                is_replaced.store(true, Ordering::Relaxed);
                refusal(400, &Value::Null, -32000)
            }
            ("tools/call", _) => seen.result(json!({"content": []})),
            ("initialize", _) => seen.result(json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
            ("notifications/initialized", _) => plain(202, ""),
            _ => refusal(400, &Value::Null, -32000),
        }
    });
    call(&peer).await.unwrap();
    assert_eq!(peer.calls_of("tools/call").len(), 2);
    assert_eq!(peer.calls_of("initialize").len(), 1);
}

/// A legacy server that refuses its first session with `refuse` from the second request on.
fn loses_first_session(refuse: fn(&ReceivedRequest) -> Response<Body>) -> Peer {
    let is_lost = AtomicBool::new(false);
    legacy(json!({}), move |seen| {
        if is_in(seen, "session-1") && is_lost.swap(true, Ordering::Relaxed) {
            return refuse(seen);
        }
        match seen.method() {
            "tools/call" => seen.result(json!({"content": []})),
            _ => seen.result(task("working")),
        }
    })
}

/// Status 404, and what servers answer instead of it.
#[tokio::test]
async fn every_way_to_say_that_a_session_is_lost_is_understood() {
    let ways: [fn(&ReceivedRequest) -> Response<Body>; 7] = [
        |_| plain(404, "session not found"),
        |_| json_body(404, &json!({"error": "Session not found"})),
        |_| refusal(404, &Value::Null, -32001),
        // The Python SDK.
        |_| refusal(404, &json!("server-error"), -32600),
        |seen| refusal(404, &seen.body["id"], -32001),
        // `server-everything` 2026.8.
        |seen| refusal(400, &seen.body["id"], -32000),
        |_| plain(400, "Bad Request: No valid session ID provided"),
    ];
    for (way, refuse) in ways.into_iter().enumerate() {
        let peer = loses_first_session(refuse);
        let (connection, _) = peer.connection();
        for _ in 0..3 {
            connection.task("t-1").get().await.unwrap();
        }
        assert_eq!(peer.calls_of("initialize").len(), 2, "way {way}");
        assert_eq!(peer.calls_of("tasks/get").len(), 4, "way {way}");
    }
}

#[tokio::test]
async fn a_call_that_fails_in_a_session_that_answers_a_ping_is_not_sent_again() {
    let peer = legacy(json!({}), |seen| match seen.method() {
        "ping" => seen.result(json!({})),
        _ => refusal(400, &seen.body["id"], -32000),
    });
    let error = call(&peer).await.unwrap_err();
    assert!(
        matches!(&error, RequestError::Rpc(failure) if failure.code == -32000),
        "{error}"
    );
    assert_eq!(peer.calls_of("tools/call").len(), 1);
    assert_eq!(peer.calls_of("initialize").len(), 1);
}

#[tokio::test]
async fn a_session_that_answers_a_ping_is_kept() {
    let peer = legacy(json!({}), |seen| match seen.method() {
        "ping" => seen.result(json!({})),
        _ => refusal(400, &seen.body["id"], -32000),
    });
    let (connection, _) = peer.connection();
    let task = connection.task("t-1");
    let (one, two) = join(task.get(), task.get()).await;
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert!(
            matches!(&error, RequestError::Rpc(failure) if failure.code == -32000),
            "{error}"
        );
    }
    assert_eq!(peer.calls_of("initialize").len(), 1);
    assert_eq!(peer.calls_of("tasks/get").len(), 2);
}
