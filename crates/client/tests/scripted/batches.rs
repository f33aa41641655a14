//! Servers of 2025-03-26, which may answer with batches.

use crate::{
    peer::{Peer, ReceivedRequest, plain},
    pipe::Server,
};
use axum::{body::Body, http::Response};
use longhaul_client::{CallResponse, Connection, Event, Options, Outcome, RequestError, Tool};
use serde_json::{Map, Value, json};

/// The messages of a batch that answers the request `id` with `text`, behind what belongs to it.
fn batch(id: &Value, token: &Value, text: &str) -> Value {
    json!([
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
        {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}},
    ])
}

fn of_call(request: &Value) -> Value {
    batch(&request["id"], &request["params"]["_meta"]["progressToken"], "RESULT")
}

/// The text of the result, and how much progress was reported.
async fn call(connection: &Connection, tool: &Tool) -> Result<(String, usize), RequestError> {
    let mut reports = 0;
    let mut observe = |event: Event<'_>| reports += usize::from(matches!(event, Event::Progress(_)));
    match connection.call_tool(tool, &Map::new(), &mut observe).await? {
        CallResponse::Done(Outcome::Result { json, .. }) => Ok((json.as_str().to_owned(), reports)),
        other => panic!("{other:?}"),
    }
}

fn answer(seen: &ReceivedRequest, content_type: &str, body: impl Fn(&Value) -> String) -> Response<Body> {
    match seen.method() {
        "server/discover" => seen.error(400, -32000, json!("no session")),
        "initialize" => seen.result(json!({
            "protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": {"name": "peer", "version": "0"},
        })),
        "tools/list" => seen.result(json!({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})),
        "tools/call" => Response::builder()
            .header("content-type", content_type)
            .body(Body::from(body(&seen.body)))
            .unwrap(),
        _ => plain(202, ""),
    }
}

#[tokio::test]
async fn a_batch_is_read_over_http_as_a_body_and_as_an_event() {
    for content_type in ["application/json", "text/event-stream"] {
        let peer = Peer::start(move |seen| {
            answer(seen, content_type, |request| match content_type {
                "application/json" => of_call(request).to_string(),
                _ => format!("data: {}\n\n", of_call(request)),
            })
        });
        let (connection, _) = peer.connection();
        let tool = connection.list_tools().await.unwrap().remove(0);
        let (text, reports) = call(&connection, &tool).await.unwrap();
        assert!(text.contains("RESULT"), "{text}");
        assert_eq!(reports, 1);
    }
}

#[tokio::test]
async fn a_batch_without_the_answer_is_an_error() {
    for body in [
        "[]",
        "[7]",
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        "[{\"jsonrpc\":",
    ] {
        let peer = Peer::start(move |seen| answer(seen, "application/json", |_| body.to_owned()));
        let (connection, _) = peer.connection();
        let tool = connection.list_tools().await.unwrap().remove(0);
        let refused = call(&connection, &tool).await;
        assert!(matches!(&refused, Err(RequestError::Invalid(_))), "{body}: {refused:?}");
    }
}

/// The answers of two calls in one batch.
#[tokio::test]
async fn a_batch_on_a_pipe_is_sorted_by_its_requests() {
    let (connection, mut server) = Server::connected_with(Options::named("test", "0"), 1 << 20);
    let script = async {
        initialized(&mut server).await;
        let (one, two) = (server.next().await, server.next().await);
        let (one, two) = (of_call(&one), of_call(&two));
        let both: Vec<Value> = [one, two]
            .iter()
            .flat_map(|batch| batch.as_array().unwrap().clone())
            .collect();
        server.send(&both.into()).await;
        // One that cannot be read is not waited for.
        let third = server.next().await;
        let odd = format!(r#"[{{"jsonrpc":"2.0","id":{},"result":{{"x":NaN}}}}]"#, third["id"]);
        server.send_text(&odd).await;
    };
    let calls = async {
        let tool = connection.list_tools().await.unwrap().remove(0);
        let (one, two) = tokio::join!(call(&connection, &tool), call(&connection, &tool));
        for (text, reports) in [one.unwrap(), two.unwrap()] {
            assert!(text.contains("RESULT") && reports == 1, "{text} {reports}");
        }
        let refused = call(&connection, &tool).await.unwrap_err().to_string();
        assert!(refused.contains("batch") && refused.contains("NaN"), "{refused}");
    };
    tokio::join!(calls, script);
}

async fn initialized(server: &mut Server) {
    let discover = server.next().await;
    let refusal = json!({"jsonrpc": "2.0", "id": discover["id"], "error": {"code": -32601, "message": "no"}});
    server.send(&json!([refusal])).await;
    let initialize = server.next().await;
    let server_info = json!({"name": "x", "version": "1"});
    let result = json!({"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": server_info});
    server.answer(&initialize, result).await;
    assert_eq!(server.next().await["method"], "notifications/initialized");
    let list = server.next().await;
    let tools = json!([{"name": "work", "inputSchema": {"type": "object"}}]);
    server.answer(&list, json!({"tools": tools})).await;
}
