//! Against servers of 2024-11-05, and servers that only look like one.

use crate::peer::{Peer, ReceivedRequest, event_stream, plain};
use axum::{body::Body, http::Response};
use longhaul_client::{CallResponse, EraChoice, Event, InputResponse, Inputs, Options, Outcome, RequestError};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// The stream of the latest session, and how many there were.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<(usize, Option<mpsc::UnboundedSender<String>>)>>);

impl Sessions {
    /// Opens the stream of a new session.
    fn open(&self) -> Response<Body> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut sessions = self.0.lock().unwrap();
        *sessions = (sessions.0 + 1, Some(sender.clone()));
        let endpoint = format!("event: endpoint\ndata: /messages/{}\n\n", sessions.0);
        sender.send(endpoint).unwrap();
        event_stream(receiver)
    }

    /// Sends a message on the stream, if it is open.
    fn send(&self, message: &Value) {
        let sessions = self.0.lock().unwrap();
        if let Some(stream) = &sessions.1 {
            let _ = stream.send(format!("event: message\ndata: {message}\n\n"));
        }
    }

    fn end(&self) {
        self.0.lock().unwrap().1 = None;
    }
}

/// A server whose tool asks, reports progress, and returns the answer.
fn asking_server(sessions: &Sessions) -> Peer {
    let sessions = sessions.clone();
    Peer::start(move |seen: &ReceivedRequest| {
        if seen.verb == "GET" {
            return sessions.open();
        }
        if seen.path == "/mcp" {
            return plain(405, "Method Not Allowed");
        }
        let reply = |result: Value| sessions.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}));
        match seen.method() {
            "initialize" => reply(json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}})),
            "tools/list" => reply(json!({"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]})),
            "tools/call" => {
                let token = &seen.params()["_meta"]["progressToken"];
                sessions.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}));
                sessions.send(
                    &json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": token}}),
                );
            }
            // Which it may not answer.
            "notifications/initialized" => {
                sessions.send(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "unknown"}}));
            }
            // The answer to the question.
            "" => {
                let call = &seen.body["result"]["content"]["call"];
                sessions.send(
                    &json!({"jsonrpc": "2.0", "id": call, "result": {"content": [{"type": "text", "text": "asked"}]}}),
                );
            }
            _ => {}
        }
        plain(202, "Accepted")
    })
}

fn inputs(options: &mut Options) {
    // The text of the question is the id of the call.
    let answer = |question: longhaul_client::InputRequest| async move {
        Ok(InputResponse::accept(json!({"call": question.params["message"]})))
    };
    options.inputs = Some(Inputs::new().elicit(answer).into());
}

#[tokio::test]
async fn a_server_of_2024_11_05_is_found_last_and_again_after_its_stream_has_ended() {
    for era in [EraChoice::Auto, EraChoice::Legacy] {
        let sessions = Sessions::default();
        let peer = asking_server(&sessions);
        let (connection, _) = peer.connection_with(|options| {
            inputs(options);
            options.era = era;
        });
        for session in 1..3 {
            let tools = connection.list_tools().await.unwrap();
            let (arguments, mut progress) = (Map::new(), 0);
            let mut count = |event: Event<'_>| progress += usize::from(matches!(event, Event::Progress(_)));
            let called = connection.call_tool(&tools[0], &arguments, &mut count).await.unwrap();
            let CallResponse::Done(Outcome::Result { json, .. }) = called else {
                panic!()
            };
            assert!(json.as_str().contains("asked"));
            assert_eq!(progress, 1);
            assert_eq!(connection.server().await.unwrap().version, "2024-11-05");
            for method in ["initialize", "notifications/initialized", "tools/call"] {
                let mut sent = peer.calls_of(method).into_iter().filter(|sent| sent.path != "/mcp");
                assert_eq!(sent.clone().count(), session, "{method}");
                assert_eq!(sent.next_back().unwrap().path, format!("/messages/{session}"));
            }

            sessions.end();
            // The first request after the end may be the one that notices it.
            if connection.list_tools().await.is_err() {
                connection.list_tools().await.unwrap();
            }
        }
        let opened = peer.seen().into_iter().filter(|seen| seen.verb == "GET");
        assert_eq!(opened.count(), 3);
        connection.close().await;
    }
}

#[tokio::test]
async fn what_is_no_stream_of_2024_11_05_is_refused() {
    let other = Peer::start(|_| plain(202, ""));
    let elsewhere = format!("event: endpoint\ndata: {}\n\n", other.url());
    let cases: [(String, &str); 4] = [
        (elsewhere, "it wants messages at another origin"),
        (
            "event: endpoint\ndata: http://[\n\n".to_owned(),
            "its endpoint is not a URL",
        ),
        // The push stream of a later revision.
        (
            "id: 1\ndata:\n\nevent: endpoint\ndata: /messages\n\n".to_owned(),
            "HTTP status 405",
        ),
        (String::new(), "HTTP status 405"),
    ];
    for (first, expected) in cases {
        let peer = Peer::start(move |seen| match seen.verb.as_str() {
            "GET" => Response::builder()
                .header("content-type", "text/event-stream")
                .body(Body::from(first.clone()))
                .unwrap(),
            _ => plain(405, ""),
        });
        let (connection, _) = peer.connection();
        let error = connection.list_tools().await.unwrap_err();
        assert!(matches!(error, RequestError::HandshakeFailed(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(peer.seen().iter().all(|seen| seen.path == "/mcp"));
    }
    assert!(other.seen().is_empty());
}
