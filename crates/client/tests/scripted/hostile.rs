//! Against servers that send what no server should: each costs bounded memory and time, and gives an error that says what was wrong.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, plain},
    pipe::Server,
};
use axum::{body::Body, http::Response};
use futures_util::{StreamExt, stream};
use longhaul_client::{Event, Inputs, Options, RequestError};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Map, Value, json};
use std::{
    convert::Infallible,
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a server answers the request with this id.
type Answer = Box<dyn Fn(&Value) -> Response<Body> + Send + Sync>;

/// A modern server that answers everything but the probe in this way.
fn server(answer: Answer) -> Peer {
    Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
        _ => answer(&seen.body["id"]),
    })
}

fn response(content_type: &str, body: impl Into<Body>) -> Response<Body> {
    Response::builder()
        .header("content-type", content_type)
        .body(body.into())
        .unwrap()
}

/// The same text for ever.
fn endless(text: impl AsRef<str>) -> Body {
    let texts = stream::repeat(text.as_ref().repeat(100)).map(Ok::<_, Infallible>);
    Body::from_stream(texts.then(|text| async {
        tokio::task::yield_now().await;
        text
    }))
}

/// A text, and then nothing for ever.
fn silent_after(text: &'static str) -> Body {
    let text = stream::iter([Ok::<_, Infallible>(text)]);
    Body::from_stream(text.chain(stream::pending()))
}

async fn read_task(peer: &Peer) -> Result<(), RequestError> {
    let (connection, _) = peer.connection_with(|options| options.request_timeout = Duration::from_millis(500));
    let task = connection.task("t-1");
    let read = tokio::time::timeout(PATIENCE, task.get()).await;
    read.expect("bounded time").map(drop)
}

#[tokio::test]
async fn every_invalid_answer_is_an_error_that_says_what_is_wrong() {
    let json = "application/json";
    let events = "text/event-stream";
    let message = |id: &Value, task: Value| json!({"jsonrpc": "2.0", "id": id, "result": task}).to_string();
    let other = move |id: &Value| message(id, json!({"taskId": "t-2", "status": "working"}));
    let twice = |id: &Value| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"taskId":"t-2","taskId":"t-1","status":"working"}}}}"#)
    };
    let mut cases: Vec<(&str, Answer)> = vec![
        (
            "content type is \"text/html\"",
            Box::new(|_| response("text/html", "<html>")),
        ),
        ("content type is \"\"", Box::new(|_| Response::new(Body::empty()))),
        ("without a response", Box::new(|_| plain(202, ""))),
        (
            "encoded as \"gzip\", which it was not asked for",
            Box::new(move |_| {
                let mut zipped = response(json, "\u{1f}");
                (zipped.headers_mut()).insert("content-encoding", http::HeaderValue::from_static("gzip"));
                zipped
            }),
        ),
        (
            "larger than 100000 bytes",
            Box::new(move |_| response(json, endless(" "))),
        ),
        (
            "larger than 100000 bytes",
            Box::new(move |_| response(events, endless(": comment\n"))),
        ),
        (
            "larger than 100000 bytes",
            Box::new(move |_| response(events, endless("data: x\n"))),
        ),
        (
            "timed out",
            Box::new(move |_| {
                response(
                    events,
                    endless("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"),
                )
            }),
        ),
        (
            "timed out",
            Box::new(move |_| response(json, silent_after("{\"jsonrpc\":"))),
        ),
        (
            "timed out",
            Box::new(move |_| response(events, silent_after("data: {"))),
        ),
        (
            "it answered another request: its id is 1",
            Box::new(move |_| response(json, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
        ),
        (
            "before it answered",
            Box::new(move |_| response(events, "data: half an event")),
        ),
        ("invalid", Box::new(move |_| response(events, "data: no json\n\n"))),
        (
            "invalid",
            Box::new(move |_| response(events, &b"data: \xff\xfe\n\n"[..])),
        ),
        ("invalid", Box::new(move |_| response(json, "[".repeat(10_000)))),
        ("another task", Box::new(move |id| response(json, other(id)))),
        (
            "duplicate field `taskId`",
            Box::new(move |id| response(json, twice(id))),
        ),
    ];
    for (expected, answer) in cases.drain(..) {
        let error = read_task(&server(answer)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected:?}: {error}");
    }
}

/// A call has no time of its own; its caller may give it one, whatever the server sends meanwhile. Nothing that was received is kept.
#[tokio::test]
async fn a_call_that_only_makes_progress_ends_at_its_time() {
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})),
        "tools/list" => seen.result(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
        _ => {
            let token = &seen.params()["_meta"]["progressToken"];
            let progress = json!({
                "jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1e300, "total": 0, "message": "x".repeat(100)},
            });
            response(
                "text/event-stream",
                endless(format!(": keep-alive\n\ndata: {progress}\n\n")),
            )
        }
    });
    let (connection, _) = peer.connection_with(|options| options.call_timeout = Some(Duration::from_millis(500)));
    let tool = connection.list_tools().await.unwrap().remove(0);
    let mut reported = 0_usize;
    let mut count = |_: Event<'_>| reported += 1;
    let called = tokio::time::timeout(PATIENCE, connection.call_tool(&tool, &Map::new(), &mut count)).await;
    let error = called.expect("bounded time").unwrap_err();
    assert!(matches!(error, RequestError::TimedOut { .. }), "{error}");
    // More than a response may have.
    assert!(reported > 100, "{reported}");
}

/// The pages of a list that does not end, and what the error says.
type Pages = (&'static str, fn(usize) -> Value);

#[tokio::test]
async fn a_list_that_does_not_end_is_given_up() {
    fn page(page: usize, prompts: Value) -> Value {
        json!({"prompts": prompts, "nextCursor": page.to_string(), "ttlMs": 0})
    }
    let cases: [Pages; 3] = [
        ("100 pages in a row were empty", |nth| page(nth, json!([]))),
        ("does not end within 1000 pages", |nth| {
            page(nth, json!([{"name": nth.to_string()}]))
        }),
        ("100000 bytes", |nth| {
            page(nth, json!([{"name": nth.to_string().repeat(50_000)}]))
        }),
    ];
    for (expected, pages) in cases {
        let asked = AtomicUsize::new(0);
        let peer = Peer::start(move |seen| match seen.method() {
            "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
            _ => seen.result(pages(asked.fetch_add(1, Ordering::Relaxed))),
        });
        let (connection, _) = peer.connection();
        let read = tokio::time::timeout(PATIENCE, connection.list_prompts()).await;
        let error = read.expect("bounded time").unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected:?}: {error}");
        assert!(peer.calls_of("prompts/list").len() <= 1_000);
    }
}

/// What was listed is of use, though the server never says that it is all.
#[tokio::test]
async fn a_list_whose_cursors_repeat_ends_with_what_was_listed() {
    let page = |name: &str, next: &str| json!({"prompts": [{"name": name}], "nextCursor": next, "ttlMs": 0});
    let cases: [(Vec<Value>, &[&str]); 4] = [
        // The cursor of the page itself, an empty one that means the end, one that is ignored, and a circle.
        (vec![page("a", "x"), page("b", "x")], &["a", "b"]),
        (vec![page("a", ""), json!({"refused": true})], &["a"]),
        (vec![page("a", "1"), page("a", "2")], &["a"]),
        (vec![page("a", "1"), page("b", "2"), page("c", "1")], &["a", "b", "c"]),
    ];
    for (pages, expected) in cases {
        let asked = AtomicUsize::new(0);
        let given = pages.clone();
        let peer = Peer::start(move |seen| match seen.method() {
            "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
            _ => match &given[asked.fetch_add(1, Ordering::Relaxed)] {
                refused if refused["refused"] == true => seen.error(400, -32602, Value::Null),
                page => seen.result(page.clone()),
            },
        });
        let (connection, _) = peer.connection();
        let listed = tokio::time::timeout(PATIENCE, connection.list_prompts()).await;
        let listed = listed.expect("bounded time").unwrap();
        let names: Vec<_> = listed.iter().map(|prompt| prompt["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
        assert_eq!(peer.calls_of("prompts/list").len(), pages.len());
    }
}

#[tokio::test]
async fn a_head_without_an_end_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = std::thread::Builder::new().spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 1024]);
        socket.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
        while socket
            .write_all(format!("x-more: {}\r\n", "x".repeat(1_000)).as_bytes())
            .is_ok()
        {}
    });
    let url = format!("http://{address}/mcp");
    let connection = longhaul_client::Connection::lazy(&url, Options::named("test", "0")).unwrap();
    let read = tokio::time::timeout(PATIENCE, connection.list_tools()).await;
    let error = read.expect("bounded time").unwrap_err();
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    serving.unwrap().join().unwrap();
}

/// A legacy server may ask, but not without end: what the handler works on is bounded, and so are the refusals that wait to be sent.
#[tokio::test]
async fn a_flood_of_requests_is_served_up_to_a_limit() {
    let open = Arc::new(AtomicUsize::new(0));
    let most = Arc::clone(&open);
    let inputs = Inputs::new().elicit(move |_| {
        most.fetch_add(1, Ordering::Relaxed);
        std::future::pending()
    });
    let mut options = Options::named("test", "0");
    options.inputs = Some(inputs.into());
    let (connection, mut server) = Server::connected_with(options, 1 << 10);
    let opening = connection.clone();
    let handshake = async {
        let discover = server.next().await;
        server
            .send(&json!({"jsonrpc": "2.0", "id": discover["id"], "error": {"code": -32601, "message": "?"}}))
            .await;
        let initialize = server.next().await;
        server
            .answer(
                &initialize,
                json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
            )
            .await;
        assert_eq!(server.next().await["method"], "notifications/initialized");
    };
    let (opened, ()) = tokio::join!(opening.server(), handshake);
    opened.unwrap();
    for id in 0..2_000 {
        server
            .send(&json!({"jsonrpc": "2.0", "id": format!("q{id}"), "method": "elicitation/create", "params": {"message": "?"}}))
            .await;
    }
    let refused = server.next().await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    // The client still works.
    let listing = tokio::spawn(async move { connection.list_tools().await });
    let mut refusals = 1;
    let request = loop {
        let message = server.next().await;
        if message["method"] == "tools/list" {
            break message;
        }
        refusals += 1;
    };
    assert!(refusals < 200, "{refusals} refusals were waiting to be sent");
    server.answer(&request, json!({"tools": []})).await;
    assert!(listing.await.unwrap().unwrap().is_empty());
    assert_eq!(open.load(Ordering::Relaxed), 64);
}

/// Whatever the bytes are, there is an answer or an error, soon and without a panic.
#[test]
fn arbitrary_answers_are_survived() {
    type Scripted = (u16, &'static str, Vec<u8>);
    let scripted: Arc<Mutex<Scripted>> = Arc::new(Mutex::new((200, "", Vec::new())));
    let next = Arc::clone(&scripted);
    let peer = server(Box::new(move |id| {
        let (status, content_type, body) = next.lock().unwrap().clone();
        // The id stands wherever the body has a zero.
        let mut sent = Vec::new();
        for byte in body {
            match byte {
                0 => sent.extend_from_slice(id.to_string().as_bytes()),
                byte => sent.push(byte),
            }
        }
        let response = Response::builder().status(status).header("content-type", content_type);
        response.body(sent.into()).unwrap()
    }));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let token = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        proptest::sample::select(vec![
            "data: ",
            "\n\n",
            "id: 7\n",
            "event: endpoint\n",
            "retry: 9999999999999\n",
            "{\"jsonrpc\":\"2.0\",\"id\":",
            "\"result\":",
            "\"error\":",
            "\"method\":\"",
            "{\"taskId\":\"t-1\",",
            "\"status\":\"working\"",
            "}",
            ",",
            "[",
            "\"",
            "null",
            "\u{feff}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let body = proptest::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat());
    let status = proptest::sample::select(vec![200u16, 202, 204, 400, 404, 405, 429, 500, 503]);
    let content_type = proptest::sample::select(vec![
        "application/json",
        "text/event-stream",
        "text/plain",
        "Application/JSON; x=y",
    ]);
    let mut runner = TestRunner::new(Config {
        cases: 300,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&(status, content_type, body), |answer| {
            *scripted.lock().unwrap() = answer;
            runtime.block_on(async {
                let _ = read_task(&peer).await;
            });
            Ok(())
        })
        .unwrap();
}

/// What some servers write that have compressed nothing, and a byte order mark.
#[tokio::test]
async fn a_body_that_is_plain_is_read_whatever_its_header_says() {
    for encoding in ["none", "utf-8", "", "Identity", "identity, identity"] {
        let peer = server(Box::new(move |id| {
            let task = json!({"taskId": "t-1", "status": "working", "createdAt": "2026-11-20T09:00:00Z",
                "lastUpdatedAt": "2026-11-20T09:00:00Z", "ttlMs": null});
            let message = json!({"jsonrpc": "2.0", "id": id, "result": task});
            let mut answer = response("application/json", format!("\u{feff}{message}"));
            (answer.headers_mut()).insert("content-encoding", http::HeaderValue::from_static(encoding));
            answer
        }));
        read_task(&peer).await.unwrap();
    }
}
