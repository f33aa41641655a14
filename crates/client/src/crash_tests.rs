//! A client that is killed at every write of its journal and around every message, and then started again.

use crate::{
    CallFilter, CallState, Client, ClientJournal, Connection, EraChoice, InputResponse, Inputs, Options, Outcome,
    Outgoing, Reply, RequestError, Transport, journal::crash_point_reached, transport::Http,
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response},
    routing::any,
};
use futures_util::StreamExt;
use longhaul_core::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
};
use tokio::runtime::Runtime;

const DIRECTORY: &str = "LONGHAUL_TEST_DIRECTORY";
const SERVER: &str = "LONGHAUL_TEST_SERVER";
const KIND: &str = "LONGHAUL_TEST_KIND";
const KILL_AT: &str = "LONGHAUL_TEST_KILL_AT";
const CHILD: &str = "crash_tests::child";

/// What the server is like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Takes idempotency keys, and makes a task that asks.
    Keys,
    /// Takes idempotency keys, asks, and answers at once.
    KeysDirect,
    /// Takes no keys, and makes a task that asks.
    NoKeys,
    /// 2025-11-25, with a session to which the task is bound.
    Legacy,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Keys, Self::KeysDirect, Self::NoKeys, Self::Legacy];

    fn takes_keys(self) -> bool {
        matches!(self, Self::Keys | Self::KeysDirect)
    }

    fn name(self) -> String {
        format!("{self:?}")
    }
}

/// What the server has seen, whoever was killed.
#[derive(Default)]
struct Seen {
    /// By idempotency key, or by number.
    executions: BTreeMap<String, Execution>,
    sessions: usize,
    deleted: BTreeSet<String>,
}

#[derive(Default)]
struct Execution {
    session: Option<String>,
    polls: usize,
    answers: Vec<Value>,
}

struct Server {
    kind: Kind,
    seen: Mutex<Seen>,
}

impl Server {
    fn start(kind: Kind, runtime: &Runtime) -> (Arc<Self>, SocketAddr) {
        let server = Arc::new(Self {
            kind,
            seen: Mutex::default(),
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
        let keys = match self.kind.takes_keys() {
            true => json!({"dev.longhaul/idempotency": {}}),
            false => json!({}),
        };
        match (self.kind, request["method"].as_str().unwrap_or_default()) {
            (Kind::Legacy, "initialize") => {
                seen.sessions += 1;
                Ok(json!({
                    "protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "0"},
                    "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
                }))
            }
            (_, "server/discover") if self.kind != Kind::Legacy => {
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
                if kind == Kind::KeysDirect {
                    execution.answers.push(params["inputResponses"]["q"].clone());
                    return Ok(json!({"resultType": "complete", "content": []}));
                }
                execution.session = session.map(str::to_owned);
                let task = self.task(&id, "working");
                match kind {
                    Kind::Legacy => Ok(json!({"task": task})),
                    _ => {
                        let mut task = task;
                        task["resultType"] = "task".into();
                        Ok(task)
                    }
                }
            }
            (kind, "tasks/get") => {
                let id = params["taskId"].as_str().unwrap();
                let execution = seen
                    .executions
                    .get_mut(id)
                    .filter(|known| known.session.as_deref() == session);
                let execution = execution.ok_or((200, -32602))?;
                execution.polls += 1;
                let asks = kind != Kind::Legacy && execution.answers.is_empty();
                let status = match (asks, execution.polls) {
                    (true, _) => "input_required",
                    (false, 0..3) => "working",
                    (false, _) => "completed",
                };
                let mut task = self.task(id, status);
                match status {
                    "input_required" => task["inputRequests"] = json!({"q": question()}),
                    "completed" if kind != Kind::Legacy => task["result"] = json!({"content": []}),
                    _ => {}
                }
                Ok(task)
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
        let (ttl, interval) = match self.kind {
            Kind::Legacy => ("ttl", "pollInterval"),
            _ => ("ttlMs", "pollIntervalMs"),
        };
        json!({
            "resultType": "complete", "taskId": id, "status": status, "createdAt": "2026-11-20T09:00:00Z",
            "lastUpdatedAt": "2026-11-20T09:00:00Z", ttl: null, interval: 20,
        })
    }
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

/// HTTP that is a place to be killed before each message, behind it, and behind each message that comes back.
struct Places(Http);

impl Transport for Places {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            crash_point_reached();
            let mut reply = self.0.send(message).await?;
            crash_point_reached();
            let (status, session) = (reply.status, reply.session.clone());
            let mut messages = Vec::new();
            while let Some(message) = reply.next().await? {
                messages.push(Ok(message));
            }
            crash_point_reached();
            Ok(Reply::new(futures_util::stream::iter(messages).boxed()).with_head(status, session))
        })
    }

    fn listen(&self, headers: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>> {
        self.0.listen(headers)
    }

    fn close(&self, headers: HeaderMap) -> BoxFuture<'_, ()> {
        self.0.close(headers)
    }

    fn is_session(&self) -> bool {
        false
    }

    fn address(&self) -> &str {
        self.0.address()
    }
}

/// What an author would write: it finishes what was begun, and else makes the call, once.
async fn work(directory: &Path, url: &str, kind: Kind) {
    let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
    let mut options = Options::named("test", "0");
    options.era = match kind {
        Kind::Legacy => EraChoice::Legacy,
        _ => EraChoice::Modern,
    };
    let asked = directory.join("asked");
    let inputs = Inputs::new().elicit(move |_| {
        // A person who never says the same twice.
        let count = std::fs::read_dir(&asked).map_or(0, Iterator::count);
        std::fs::create_dir_all(asked.join(count.to_string())).unwrap();
        async move { Ok(InputResponse::accept(json!({"answer": count}))) }
    });
    options.inputs = Some(inputs.into());
    let http = Http::new(url.parse().unwrap(), &options);
    let client = Client::recorded(Connection::over(Places(http), options), journal.clone());
    for task in client.tasks().await.unwrap() {
        let outcome = task.wait(&mut |_| {}).await.unwrap();
        task.finish(&outcome).await.unwrap();
    }
    let calls = journal.list(CallFilter::default()).await.unwrap();
    let must_call = match calls.as_slice() {
        [] => true,
        [call] => call.state == CallState::Interrupted && kind.takes_keys(),
        _ => panic!("{calls:?}"),
    };
    if must_call {
        let called = client.call("build", Value::Object(Map::new())).await;
        assert!(matches!(called.unwrap(), Outcome::Result { is_error: false, .. }));
    }
    client.close().await;
}

fn run_child(directory: &Path, address: SocketAddr, kind: Kind, kill_at: Option<usize>) -> ExitStatus {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", CHILD, "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(SERVER, format!("http://{address}/mcp"))
        .env(KIND, kind.name())
        .stdin(Stdio::null());
    if let Some(place) = kill_at {
        command.env(KILL_AT, place.to_string());
    }
    let child = command.output().unwrap();
    let is_expected = child.status.success() || (kill_at.is_some() && child.status.signal() == Some(9));
    let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(is_expected, "{kind:?}, killed at {kill_at:?}: {text}");
    child.status
}

/// Kills the client at one place after the other, and lets the next process go on.
fn kill_everywhere(kind: Kind) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut places = 0;
    loop {
        places += 1;
        let directory = tempfile::tempdir().unwrap();
        let (server, address) = Server::start(kind, &runtime);
        let was_killed = !run_child(directory.path(), address, kind, Some(places)).success();
        if was_killed {
            run_child(directory.path(), address, kind, None);
        }
        let path = directory.path().join("client/handles.db");
        let calls = runtime.block_on(async {
            let journal = ClientJournal::open(&path).await.unwrap();
            journal.list(CallFilter::default()).await.unwrap()
        });
        let [call] = calls.as_slice() else {
            panic!("{kind:?}, killed at {places}: {calls:?}")
        };
        let seen = server.seen.lock();
        let executed = seen.executions.len();
        match &call.state {
            CallState::Finished(_) => assert_eq!(executed, 1, "{kind:?}, killed at {places}"),
            // Nobody knows, and it was not made again.
            CallState::Interrupted if !kind.takes_keys() => {
                assert!(executed <= 1);
                // The handle is on disk before the task is read.
                assert!(
                    seen.executions.values().all(|execution| execution.polls == 0),
                    "killed at {places}"
                );
            }
            other => panic!("{kind:?}, killed at {places}: {other:?}"),
        }
        for execution in seen.executions.values() {
            let answers: BTreeSet<String> = execution.answers.iter().map(Value::to_string).collect();
            assert!(answers.len() <= 1, "{kind:?}, killed at {places}: {answers:?}");
        }
        if kind == Kind::Legacy && matches!(call.state, CallState::Finished(_)) {
            // The last process has fetched the result, and ended the session.
            assert!(seen.sessions <= 2 && seen.deleted.len() <= 1, "killed at {places}");
        }
        if !was_killed {
            break;
        }
    }
    assert!(places > 20, "{kind:?}: there are only {places} places");
}

#[test]
fn a_call_with_a_key_ends_once_wherever_the_client_is_killed() {
    kill_everywhere(Kind::Keys);
}

#[test]
fn a_call_with_a_key_that_is_answered_at_once_ends_once() {
    kill_everywhere(Kind::KeysDirect);
}

#[test]
fn a_call_without_a_key_is_never_repeated() {
    kill_everywhere(Kind::NoKeys);
}

#[test]
fn a_legacy_task_is_found_again_in_its_session() {
    kill_everywhere(Kind::Legacy);
}

#[tokio::test]
#[ignore = "started by the tests of this file"]
async fn child() {
    let (Some(directory), Ok(url), Ok(kind)) = (
        env::var_os(DIRECTORY).map(PathBuf::from),
        env::var(SERVER),
        env::var(KIND),
    ) else {
        return;
    };
    let kind = Kind::ALL.into_iter().find(|known| known.name() == kind).unwrap();
    work(&directory, &url, kind).await;
}
