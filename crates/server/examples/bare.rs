//! What Longhaul is measured beside: axum and nothing else. `bare --listen ADDR`
//!
//! `/mcp` parses the request as JSON and answers JSON, both as trees. `/fixed` reads the body and answers a fixed text of the same size.
//! The answer is as large as a `tasks/get` answer.

use axum::{Json, Router, body::Bytes, routing::post};
use http::{HeaderValue, header};
use serde_json::{Value, json};

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","taskId":"01m7wbhd1ycj66wa174tprwdgx5jnevbr0n0","status":"completed","createdAt":"2026-11-20T11:30:16.766Z","lastUpdatedAt":"2026-11-20T11:30:17.820Z","ttlMs":86401054,"result":{"content":[{"text":"3","type":"text"}],"isError":false,"resultType":"complete"},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"0.1.0"}}}}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(2).ok_or("usage: bare --listen ADDR")?;
    let socket = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/mcp", socket.local_addr()?);
    let app = Router::new().route("/mcp", post(answer)).route("/fixed", post(fixed));
    axum::serve(
        axum::serve::ListenerExt::tap_io(socket, |stream| drop(stream.set_nodelay(true))),
        app,
    )
    .await?;
    Ok(())
}

async fn answer(Json(request): Json<Value>) -> Json<Value> {
    Json(json!({
        "jsonrpc": "2.0",
        "id": request["id"],
        "result": {
            "resultType": "complete",
            "taskId": request["params"]["taskId"],
            "status": "completed",
            "createdAt": "2026-11-20T11:30:16.766Z",
            "lastUpdatedAt": "2026-11-20T11:30:17.820Z",
            "ttlMs": 86_401_054,
            "result": {"content": [{"text": "3", "type": "text"}], "isError": false, "resultType": "complete"},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bench", "version": "0.1.0"}},
        },
    }))
}

async fn fixed(body: Bytes) -> ([(header::HeaderName, HeaderValue); 1], &'static str) {
    std::hint::black_box(body);
    (
        [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        ANSWER,
    )
}
