//! The server of the crash tests, which outlives its clients.

use super::asks_once::AsksOnce;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response},
    routing::any,
};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
};
use tokio::{runtime::Runtime, sync::watch};

/// What the server is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Takes idempotency keys, and makes a task that asks.
    Keys,
    /// Takes idempotency keys, asks, and answers at once.
    KeysDirect,
    /// Takes no keys, and makes a task that asks.
    NoKeys,
    /// Takes idempotency keys, and has forgotten them when the client is back. It says so.
    ForgetsKeys,
    /// 2025-11-25, with a session to which the task is bound.
    Legacy,
    /// The same; the task asks on the stream of `tasks/result`.
    LegacyAsks,
    /// The same; the task asks on the push stream, which the server closes after each message.
    LegacyPushes,
    /// The same; the task asks two questions, each once and under the same id, on the stream of the `tasks/result` that has waited longest.
    LegacyAsksOnce,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Keys,
        Self::KeysDirect,
        Self::NoKeys,
        Self::ForgetsKeys,
        Self::Legacy,
        Self::LegacyAsks,
        Self::LegacyPushes,
        Self::LegacyAsksOnce,
    ];

    pub(super) fn takes_keys(self) -> bool {
        matches!(self, Self::Keys | Self::KeysDirect | Self::ForgetsKeys)
    }

    pub(super) fn is_legacy(self) -> bool {
        matches!(
            self,
            Self::Legacy | Self::LegacyAsks | Self::LegacyPushes | Self::LegacyAsksOnce
        )
    }

    fn asks(self) -> bool {
        self != Self::Legacy
    }

    pub(super) fn name(self) -> String {
        format!("{self:?}")
    }
}

/// What the server has seen, whoever was killed.
#[derive(Default)]
pub(super) struct ServerRecord {
    /// By idempotency key, or by number.
    pub(super) executions: BTreeMap<String, Execution>,
    pub(super) sessions: usize,
    pub(super) deleted: BTreeSet<String>,
    /// How often a legacy task has asked: each time under another id.
    deliveries: usize,
    pub(super) once: AsksOnce,
}

#[derive(Default)]
pub(super) struct Execution {
    pub(super) calls: usize,
    session: Option<String>,
    is_cancelled: bool,
    pub(super) polls: usize,
    /// Each is that of one question, with its text if there are several.
    pub(super) answers: Vec<Value>,
}

pub(super) struct Server {
    kind: Kind,
    pub(super) seen: Mutex<ServerRecord>,
    /// Changes with each answer.
    answered: watch::Sender<usize>,
}

impl Server {
    pub(super) fn start(kind: Kind, runtime: &Runtime) -> (Arc<Self>, SocketAddr) {
        let server = Arc::new(Self {
            kind,
            seen: Mutex::default(),
            answered: watch::Sender::default(),
        });
        let app = Router::new().fallback(any(serve)).with_state(Arc::clone(&server));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, app).await.unwrap() });
        (server, address)
    }

    fn answer(&self, request: &Value, session: Option<&str>) -> Result<Value, (u16, i32)> {
        let params = &request["params"];
        let mut seen = self.seen.lock();
        let keys = match self.kind {
            Kind::ForgetsKeys => json!({"dev.longhaul/idempotency": {"retentionMs": 0}}),
            kind if kind.takes_keys() => json!({"dev.longhaul/idempotency": {}}),
            _ => json!({}),
        };
        match (self.kind, request["method"].as_str().unwrap_or_default()) {
            (kind, "initialize") if kind.is_legacy() => {
                seen.sessions += 1;
                Ok(json!({
                    "protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "0"},
                    "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
                }))
            }
            (kind, "server/discover") if !kind.is_legacy() => {
                let mut extensions = keys;
                extensions["io.modelcontextprotocol/tasks"] = json!({});
                Ok(json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}, "extensions": extensions},
                }))
            }
            (_, "tools/list") => {
                let tool = json!({
                    "name": "build", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"},
                });
                Ok(json!({"resultType": "complete", "tools": [tool]}))
            }
            (kind, "tools/call") => {
                let next = seen.executions.len();
                let key = &params["_meta"]["dev.longhaul/idempotency-key"];
                let id = key.as_str().map_or_else(|| format!("call-{next}"), str::to_owned);
                if kind == Kind::KeysDirect && params["inputResponses"].is_null() {
                    return Ok(
                        json!({"resultType": "input_required", "requestState": "s", "inputRequests": {"q": question()}}),
                    );
                }
                let execution = seen.executions.entry(id.clone()).or_default();
                execution.calls += 1;
                if kind == Kind::KeysDirect {
                    execution.answers.push(params["inputResponses"]["q"].clone());
                    return Ok(json!({"resultType": "complete", "content": []}));
                }
                execution.session = session.map(str::to_owned);
                let task = self.task(&id, "working");
                if kind.is_legacy() {
                    return Ok(json!({"task": task}));
                }
                let mut task = task;
                task["resultType"] = "task".into();
                Ok(task)
            }
            (Kind::LegacyAsksOnce, "tasks/get") => {
                let id = params["taskId"].as_str().unwrap();
                seen.executions.get_mut(id).unwrap().polls += 1;
                let (status, changes) = seen.once.polled();
                let mut task = self.task(id, status);
                task["lastUpdatedAt"] = format!("2026-11-20T09:00:{changes:02}Z").into();
                Ok(task)
            }
            (kind, "tasks/get") => {
                let id = params["taskId"].as_str().unwrap();
                let execution = seen
                    .executions
                    .get_mut(id)
                    .filter(|known| known.session.as_deref() == session);
                let execution = execution.ok_or((200, -32602))?;
                execution.polls += 1;
                let asks = kind.asks() && execution.answers.is_empty();
                let status = match (asks, execution.polls) {
                    _ if execution.is_cancelled => "cancelled",
                    (true, _) => "input_required",
                    (false, 0..3) => "working",
                    (false, _) => "completed",
                };
                let mut task = self.task(id, status);
                match status {
                    "input_required" if !kind.is_legacy() => task["inputRequests"] = json!({"q": question()}),
                    "completed" if !kind.is_legacy() => task["result"] = json!({"content": []}),
                    _ => {}
                }
                Ok(task)
            }
            (kind, "tasks/cancel") => {
                let id = params["taskId"].as_str().unwrap();
                let execution = seen.executions.get_mut(id).ok_or((200, -32602))?;
                if std::mem::replace(&mut execution.is_cancelled, true) && kind.is_legacy() {
                    return Err((200, -32602));
                }
                Ok(match kind.is_legacy() {
                    true => self.task(id, "cancelled"),
                    false => json!({"resultType": "complete"}),
                })
            }
            (_, "tasks/result") => Ok(json!({"content": []})),
            (_, "tasks/update") => {
                let execution = seen.executions.get_mut(params["taskId"].as_str().unwrap()).unwrap();
                execution.answers.push(params["inputResponses"]["q"].clone());
                Ok(json!({"resultType": "complete"}))
            }
            _ => Err((404, -32601)),
        }
    }

    fn task(&self, id: &str, status: &str) -> Value {
        let (ttl, interval) = match self.kind.is_legacy() {
            true => ("ttl", "pollInterval"),
            false => ("ttlMs", "pollIntervalMs"),
        };
        json!({
            "resultType": "complete", "taskId": id, "status": status, "createdAt": "2026-11-20T09:00:00Z",
            "lastUpdatedAt": "2026-11-20T09:00:00Z", ttl: null, interval: 20,
        })
    }
}

impl Server {
    /// What a task of the session asks.
    fn question_in(&self, session: Option<&str>) -> Option<Value> {
        let mut seen = self.seen.lock();
        let is_open = |execution: &Execution| execution.answers.is_empty() && execution.session.as_deref() == session;
        let task = seen
            .executions
            .iter()
            .find(|(_, execution)| is_open(execution))?
            .0
            .clone();
        seen.deliveries += 1;
        let mut question = question();
        question["jsonrpc"] = "2.0".into();
        question["id"] = format!("question-{}", seen.deliveries).into();
        question["params"]["_meta"] = json!({RELATED_TASK: {"taskId": task}});
        Some(question)
    }

    fn take_answer(&self, result: &Value) {
        let task = result["_meta"][RELATED_TASK]["taskId"].as_str().unwrap();
        let mut answer = result.clone();
        answer.as_object_mut().unwrap().remove("_meta");
        self.seen.lock().executions.get_mut(task).unwrap().answers.push(answer);
        self.answered.send_modify(|answers| *answers += 1);
    }

    /// The question on the stream of `tasks/result`, and then the result.
    fn ask_and_answer(
        self: Arc<Self>,
        request: &Value,
        session: Option<String>,
    ) -> impl futures_util::Stream<Item = String> + Send + use<> {
        let asked = self
            .question_in(session.as_deref())
            .map(|question| question.to_string());
        let result = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}}).to_string();
        let is_answered = {
            let server = Arc::clone(&self);
            async move {
                let mut answered = server.answered.subscribe();
                let is_answered = || {
                    server
                        .seen
                        .lock()
                        .executions
                        .values()
                        .all(|task| !task.answers.is_empty())
                };
                while !is_answered() {
                    answered.changed().await.unwrap();
                }
                result
            }
        };
        stream::iter(asked).chain(stream::once(is_answered))
    }
}

pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// An event stream of these messages.
pub(super) fn events(messages: impl futures_util::Stream<Item = String> + Send + 'static) -> Response<Body> {
    let events = messages.map(|message| Ok::<_, Infallible>(format!("data: {message}\n\n")));
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(events))
        .unwrap()
}

fn question() -> Value {
    json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}})
}

async fn serve(
    State(server): State<Arc<Server>>,
    verb: axum::http::Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let session = headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let response = Response::builder().header("content-type", "application/json");
    if verb == "DELETE" {
        server.seen.lock().deleted.extend(session);
        return response.status(200).body(Body::empty()).unwrap();
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    if verb == "GET" && server.kind == Kind::LegacyPushes {
        let question = server.question_in(session.as_deref());
        return events(stream::iter(question.map(|question| question.to_string())));
    }
    if server.kind == Kind::LegacyAsksOnce
        && let Some(events) = server.seen.lock().ask_once(&request)
    {
        return events.unwrap_or_else(|| response.status(202).body(Body::empty()).unwrap());
    }
    if request["result"].is_object() {
        server.take_answer(&request["result"]);
        return response.status(202).body(Body::empty()).unwrap();
    }
    if server.kind == Kind::LegacyAsks && request["method"] == "tasks/result" {
        return events(Arc::clone(&server).ask_and_answer(&request, session));
    }
    if verb != "POST" || request["id"].is_null() {
        let status = if verb == "POST" { 202 } else { 405 };
        return response.status(status).body(Body::empty()).unwrap();
    }
    let answered = server.answer(&request, session.as_deref());
    let (status, text) = match answered {
        Ok(result) => (200, json!({"jsonrpc": "2.0", "id": request["id"], "result": result})),
        Err((status, code)) => (
            status,
            json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "scripted"}}),
        ),
    };
    let mut response = response.status(status);
    if request["method"] == "initialize" {
        response = response.header("mcp-session-id", format!("session-{}", server.seen.lock().sessions));
    }
    response.body(Body::from(text.to_string())).unwrap()
}
