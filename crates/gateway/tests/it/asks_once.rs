//! An upstream of 2025-11-25 with one tool, whose task asks on the stream of `tasks/result`, and does not ask again there, or does under another id.

use crate::world::at_url;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, Response},
    routing::any,
};
use futures_util::stream;
use longhaul_gateway::UpstreamOptions;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// What an upstream does, and has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// It asks on each stream that is opened, under another id.
    pub(crate) repeats: bool,
    /// It takes no answers for now.
    pub(crate) is_busy: bool,
    /// It knows its task in each session.
    pub(crate) keeps_task: bool,
    /// How often it has asked.
    pub(crate) asked: usize,
    /// The ids of the requests that it got an answer to, with what was chosen.
    pub(crate) answers: Vec<(Value, Value)>,
    /// How often it was busy.
    pub(crate) refused: usize,
    pub(crate) calls: usize,
    pub(crate) sessions: usize,
    /// The session that has ended.
    pub(crate) ended: Option<String>,
    /// The session of the task.
    pub(crate) session: Option<String>,
    /// The streams of `tasks/result`, with the ids of their requests. Nobody may read them any more.
    pub(crate) streams: Vec<(Value, UnboundedSender<String>)>,
}

impl Seen {
    /// Whether the answer to the question that is open has come.
    fn is_answered(&self) -> bool {
        let open = match self.repeats {
            true => self.asked,
            false => 1,
        };
        self.answers.iter().any(|(id, _)| *id == open)
    }

    /// What the session was that the task was made in is gone.
    pub(crate) fn end_session(&mut self) {
        self.ended = self.session.take();
        self.streams.clear();
    }

    fn task(&self) -> Value {
        let status = match self.is_answered() {
            true => "completed",
            false => "input_required",
        };
        json!({
            "taskId": "t", "status": status, "createdAt": "2026-11-20T09:00:00Z",
            "lastUpdatedAt": "2026-11-20T09:00:00Z", "ttl": null, "pollInterval": 20,
        })
    }

    fn result(&self) -> Value {
        let chosen = self.answers.last().map(|(_, chosen)| chosen.to_string());
        json!({"content": [{"type": "text", "text": chosen.unwrap_or_default()}], "_meta": {RELATED_TASK: {"taskId": "t"}}})
    }

    fn knows_task(&self, session: Option<&str>) -> bool {
        self.calls > 0 && (self.keeps_task || (session.is_some() && self.session.as_deref() == session))
    }

    fn answer(&mut self, request: &Value, session: Option<&str>) -> Result<Value, i32> {
        match request["method"].as_str().unwrap() {
            "initialize" => {
                self.sessions += 1;
                let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
                Ok(json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "tasks": tasks},
                    "serverInfo": {"name": "asks once", "version": "1"},
                }))
            }
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": [{
                "name": "ask", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"},
            }]})),
            "tools/call" => {
                self.calls += 1;
                self.session = session.map(str::to_owned);
                let mut task = self.task();
                task["status"] = "working".into();
                Ok(json!({"task": task}))
            }
            "tasks/get" if self.knows_task(session) => Ok(self.task()),
            "tasks/result" if self.knows_task(session) => Ok(self.result()),
            "tasks/get" | "tasks/result" => Err(-32602),
            _ => Err(-32601),
        }
    }

    /// The stream of a request for the result, with the question if it is sent there.
    fn hold(&mut self, request: &Value) -> Response<Body> {
        let (sender, receiver) = unbounded_channel();
        if self.asked == 0 || self.repeats {
            self.asked += 1;
            let question = json!({
                "jsonrpc": "2.0", "id": self.asked, "method": "elicitation/create", "params": {
                    "message": "Which?", "_meta": {RELATED_TASK: {"taskId": "t"}},
                    "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}},
                },
            });
            sender.send(question.to_string()).unwrap();
        }
        self.streams.push((request["id"].clone(), sender));
        let events = stream::unfold(receiver, |mut receiver| async {
            let message = receiver.recv().await?;
            Some((Ok::<_, Infallible>(format!("data: {message}\n\n")), receiver))
        });
        let response = Response::builder().header("content-type", "text/event-stream");
        response.body(Body::from_stream(events)).unwrap()
    }

    fn take(&mut self, answer: &Value) -> u16 {
        if self.is_busy {
            self.refused += 1;
            return 503;
        }
        let chosen = answer["result"]["content"]["which"].clone();
        self.answers.push((answer["id"].clone(), chosen));
        if self.is_answered() {
            let result = self.result();
            for (request, stream) in self.streams.drain(..) {
                let _ = stream.send(json!({"jsonrpc": "2.0", "id": request, "result": result}).to_string());
            }
        }
        202
    }
}

/// A running upstream.
pub(crate) struct AsksOnce {
    url: String,
    seen: Arc<Mutex<Seen>>,
}

impl AsksOnce {
    #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
    pub(crate) async fn start(seen: Seen) -> Self {
        let seen = Arc::new(Mutex::new(seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = Router::new().fallback(any(serve)).with_state(Arc::clone(&seen));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, seen }
    }

    pub(crate) fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap())
    }

    pub(crate) fn options(&self) -> UpstreamOptions {
        let target = at_url(self.url.clone());
        UpstreamOptions::new("up", target)
    }
}

async fn serve(State(seen): State<Arc<Mutex<Seen>>>, verb: Method, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let mut seen = seen.lock().unwrap();
    let session = headers.get("mcp-session-id").map(|id| id.to_str().unwrap());
    let empty = |status: u16| Response::builder().status(status).body(Body::empty()).unwrap();
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    if verb != "POST" {
        return empty(if verb == "DELETE" { 200 } else { 405 });
    }
    if session.is_some() && session == seen.ended.as_deref() {
        return empty(404);
    }
    if request["method"].is_null() {
        return empty(seen.take(&request));
    }
    if request["id"].is_null() {
        return empty(202);
    }
    if request["method"] == "tasks/result" && seen.knows_task(session) && !seen.is_answered() {
        return seen.hold(&request);
    }
    let answer = match seen.answer(&request, session) {
        Ok(result) => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
        Err(code) => {
            json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "scripted"}})
        }
    };
    let mut response = Response::builder().header("content-type", "application/json");
    if request["method"] == "initialize" {
        response = response.header("mcp-session-id", format!("session-{}", seen.sessions));
    }
    response.body(Body::from(answer.to_string())).unwrap()
}
