//! A server that a test scripts, and a clock that does not wait.

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, Response, Uri},
    routing::any,
};
use futures_util::stream;
use longhaul_client::{Connection, Options};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use serde_json::{Value, json};
use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Semaphore, mpsc},
};

/// A request that the peer received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) verb: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    /// The JSON-RPC method; empty for a response or no body.
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn params(&self) -> &Value {
        &self.body["params"]
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// HTTP 200 with a JSON-RPC result.
    pub(crate) fn result(&self, result: Value) -> Response<Body> {
        answer(200, json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }

    /// A JSON-RPC error with its HTTP status.
    pub(crate) fn error(&self, status: u16, code: i32, data: Value) -> Response<Body> {
        let error = json!({"code": code, "message": "scripted", "data": data});
        answer(status, json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}))
    }

    /// An event stream: the messages `before`, then the result.
    pub(crate) fn stream(&self, before: &[Value], result: Value) -> Response<Body> {
        let last = json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result});
        let mut text = "id: s-0\nretry: 2000\ndata:\n\n: keep-alive\n\n".to_owned();
        for message in before.iter().chain([&last]) {
            text.push_str(&format!("event: message\ndata: {message}\n\n"));
        }
        Response::builder()
            .header("content-type", "text/event-stream; charset=utf-8")
            .body(Body::from(text))
            .unwrap()
    }
}

fn answer(status: u16, body: Value) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap()
}

/// A response with a plain text.
pub(crate) fn plain(status: u16, text: impl Into<Body>) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("content-type", "text/plain")
        .body(text.into())
        .unwrap()
}

/// A response that is sent once there is a permit.
#[derive(Clone)]
pub(crate) struct HeldUntil(pub(crate) Arc<Semaphore>);

/// An event stream, open until the sender is dropped.
pub(crate) fn event_stream(receiver: mpsc::UnboundedReceiver<String>) -> Response<Body> {
    let events = stream::unfold(receiver, |mut receiver| async move {
        let event = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(event), receiver))
    });
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(events))
        .unwrap()
}

type Script = Arc<dyn Fn(&ReceivedRequest) -> Response<Body> + Send + Sync>;

/// A server on a runtime of its own, so that it can be killed with all its connections.
pub(crate) struct Peer {
    runtime: Option<Runtime>,
    address: SocketAddr,
    script: Script,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Peer {
    pub(crate) fn start(script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut peer = Self {
            runtime: None,
            address,
            script: Arc::new(script),
            seen: Arc::default(),
        };
        peer.run(listener);
        peer
    }

    /// Kills the server; open connections break.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        // The runtime may take a while to end: wait until the port refuses connections.
        while TcpStream::connect(self.address).is_ok() {
            std::thread::yield_now();
        }
    }

    /// Restarts the server at the same address.
    pub(crate) fn restart(&mut self) {
        self.run(TcpListener::bind(self.address).unwrap());
    }

    fn run(&mut self, listener: TcpListener) {
        listener.set_nonblocking(true).unwrap();
        let (script, seen) = (self.script.clone(), self.seen.clone());
        let handler = move |verb: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
            let request = ReceivedRequest {
                verb,
                path: uri.path().to_owned(),
                headers,
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            seen.lock().unwrap().push(request.clone());
            let response = script(&request);
            if let Some(HeldUntil(permits)) = response.extensions().get() {
                permits.acquire().await.unwrap().forget();
            }
            response
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let app = Router::new().fallback(any(handler));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
        self.runtime = Some(runtime);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// All requests of one method.
    pub(crate) fn calls_of(&self, method: &str) -> Vec<ReceivedRequest> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }

    pub(crate) fn connection(&self) -> (Connection, Arc<RecordingClock>) {
        self.connection_with(|_| {})
    }

    pub(crate) fn connection_with(&self, change: impl FnOnce(&mut Options)) -> (Connection, Arc<RecordingClock>) {
        let clock = Arc::new(RecordingClock::default());
        let mut options = Options::named("test", "0");
        options.clock = clock.clone();
        options.jitter_seed = Some(7);
        options.max_response = 100_000;
        change(&mut options);
        (Connection::lazy(&self.url(), options).unwrap(), clock)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A clock that records its sleeps and does not wait. Only the pauses after which a connection looks whether its session is used last until a test
/// [ends](Self::end_idle_time) them.
pub(crate) struct RecordingClock {
    sleeps: Mutex<Vec<Duration>>,
    passed: Mutex<Duration>,
    idle_times: Arc<Semaphore>,
    begun_idle_times: AtomicUsize,
}

/// The pause after which a connection looks whether its session is used.
const IDLE_TIME: Duration = Duration::from_secs(120);

impl Default for RecordingClock {
    fn default() -> Self {
        Self {
            sleeps: Mutex::default(),
            passed: Mutex::default(),
            idle_times: Arc::new(Semaphore::new(0)),
            begun_idle_times: AtomicUsize::new(0),
        }
    }
}

impl RecordingClock {
    pub(crate) fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.lock().unwrap().clone()
    }

    /// So much time passes.
    pub(crate) fn advance(&self, by: Duration) {
        *self.passed.lock().unwrap() += by;
    }

    /// One such pause is over.
    pub(crate) fn end_idle_time(&self) {
        self.idle_times.add_permits(1);
    }

    /// Whether one that is over was not noticed.
    pub(crate) fn is_idle_time_left(&self) -> bool {
        self.idle_times.available_permits() > 0
    }

    /// How many such pauses have begun.
    pub(crate) fn idle_times(&self) -> usize {
        self.begun_idle_times.load(Ordering::SeqCst)
    }
}

impl Clock for RecordingClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        *self.passed.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration == IDLE_TIME {
            self.begun_idle_times.fetch_add(1, Ordering::SeqCst);
            let idle_times = Arc::clone(&self.idle_times);
            return Box::pin(async move { idle_times.acquire().await.unwrap().forget() });
        }
        self.sleeps.lock().unwrap().push(duration);
        Box::pin(tokio::task::yield_now())
    }
}

/// A modern server; `script` responds to everything except `server/discover` and `tools/list`.
pub(crate) fn modern(script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static) -> Peer {
    Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28", "2025-11-25"],
            "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        })),
        "tools/list" => seen.result(tool_list()),
        _ => script(seen),
    })
}

/// A legacy server with sessions that declares `tasks`.
pub(crate) fn legacy(
    tasks: Value,
    script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static,
) -> Peer {
    let capabilities = if tasks.is_null() {
        json!({"tools": {}})
    } else {
        json!({"tools": {}, "tasks": tasks})
    };
    legacy_with(capabilities, script)
}

/// A legacy server with sessions and these capabilities.
pub(crate) fn legacy_with(
    capabilities: Value,
    script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static,
) -> Peer {
    legacy_offering(capabilities, tool_list(), script)
}

/// The same, with this list of tools.
pub(crate) fn legacy_offering(
    capabilities: Value,
    tools: Value,
    script: impl Fn(&ReceivedRequest) -> Response<Body> + Send + Sync + 'static,
) -> Peer {
    let sessions = AtomicUsize::new(0);
    Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.error(400, -32000, json!("no session")),
        "initialize" => {
            let session = format!("session-{}", sessions.fetch_add(1, Ordering::Relaxed) + 1);
            let mut answer = seen.result(json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "peer", "version": "0"},
            }));
            answer.headers_mut().insert("mcp-session-id", session.parse().unwrap());
            answer
        }
        "notifications/initialized" => Response::builder().status(202).body(Body::empty()).unwrap(),
        "tools/list" => seen.result(tools.clone()),
        _ => script(seen),
    })
}

/// A tool for each kind of task support.
fn tool_list() -> Value {
    let tool = |name: &str, support: Option<&str>| {
        let mut tool =
            json!({"name": name, "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}});
        if let Some(support) = support {
            tool["execution"] = json!({"taskSupport": support});
        }
        tool
    };
    let tools = [
        tool("größe", None),
        tool("forbidden", Some("forbidden")),
        tool("optional", Some("optional")),
        tool("required", Some("required")),
    ];
    json!({"resultType": "complete", "tools": tools})
}
