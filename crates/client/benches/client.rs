//! What a call, a poll and a task that is waited for cost the client, beside the official Rust SDK's client: `cargo bench -p longhaul-client`.
//!
//! The server is another process, which answers from memory. The clients are measured in turns, so that other load on the machine affects all
//! alike. `LONGHAUL_BENCH_TASKS` sets how many tasks are waited for at once (default 10,000). The results are in `docs/performance-parts.md`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark may panic and read the clock"
)]

use axum::{Json, Router, body::Body, extract::State, http::Response, response::IntoResponse, routing::post};
use futures_util::{StreamExt, stream};
use longhaul_client::{Connection, EraChoice, Options};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{CallToolRequestParams, ClientConfig, GetTaskParams, ProtocolVersion},
    service::RunningService,
    transport::StreamableHttpClientTransport,
};
use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};
use serde_json::{Map, Value, json};
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How many requests a turn has.
const REQUESTS: u32 = 2_000;
/// How many turns each client has; the first is for warming up.
const TURNS: usize = 12;
/// How long tasks are followed.
const FOLLOWED: Duration = Duration::from_secs(30);

/// Seconds of CPU that this process has used.
fn cpu() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The memory of this process in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

// The server

async fn serve() {
    let polls = Arc::new(AtomicU64::new(0));
    let app = Router::new().route("/mcp", post(answer)).with_state(polls);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}/mcp", listener.local_addr().unwrap());
    axum::serve(listener, app).await.unwrap();
}

fn task(id: &Value) -> Value {
    json!({
        "resultType": "complete", "taskId": id, "status": "working", "createdAt": "2026-11-20T09:00:00Z",
        "lastUpdatedAt": "2026-11-20T09:00:00Z", "ttlMs": null, "pollIntervalMs": 1000,
    })
}

async fn answer(State(polls): State<Arc<AtomicU64>>, Json(request): Json<Value>) -> Response<Body> {
    let params = &request["params"];
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "0"},
        }),
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bench", "version": "0"}},
            "serverInfo": {"name": "bench", "version": "0"},
            "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        }),
        "tools/list" => json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "add", "description": "Adds", "inputSchema": {"type": "object"}}],
        }),
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "3"}], "isError": false}),
        "tasks/get" => {
            polls.fetch_add(1, Ordering::Relaxed);
            task(&params["taskId"])
        }
        "bench/polls" => json!({"polls": polls.load(Ordering::Relaxed)}),
        "subscriptions/listen" => {
            let acknowledged = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"taskIds": params["notifications"]["taskIds"]}},
            });
            let events = stream::iter([Ok::<_, std::io::Error>(format!("data: {acknowledged}\n\n"))]);
            return Response::builder()
                .header("content-type", "text/event-stream")
                .body(Body::from_stream(events.chain(stream::pending())))
                .unwrap();
        }
        _ => return axum::http::StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

/// The server's process, which ends with this.
struct Server(Child, String);

impl Server {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--serve")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        Self(child, url.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

// The clients

struct Ours {
    connection: Connection,
    tool: longhaul_client::Tool,
}

impl Ours {
    async fn connect(url: &str, era: EraChoice) -> Self {
        let mut options = Options::named("bench", "0");
        options.era = era;
        let connection = Connection::open(url, options).await.unwrap();
        let tool = connection.list_tools().await.unwrap().remove(0);
        Self { connection, tool }
    }

    async fn call(&self) {
        let called = self.connection.call_tool(&self.tool, &arguments(), &mut |_| {}).await;
        called.unwrap();
    }

    async fn poll(&self) {
        self.connection.task("t-1").get().await.unwrap();
    }
}

type Rmcp = RunningService<RoleClient, ClientConfig>;

async fn rmcp(url: &str, lifecycle: ClientLifecycleMode) -> Rmcp {
    let transport = StreamableHttpClientTransport::from_uri(url);
    ClientConfig::default()
        .serve_with_lifecycle(transport, lifecycle)
        .await
        .unwrap()
}

fn arguments() -> Map<String, Value> {
    Map::from_iter([("a".to_owned(), 1.into()), ("b".to_owned(), 2.into())])
}

/// CPU and time of one request, in microseconds.
async fn measure(work: impl AsyncFn()) -> (f64, f64) {
    let (cpu_before, started) = (cpu(), Instant::now());
    for _ in 0..REQUESTS {
        work().await;
    }
    let per_request = |seconds: f64| seconds * 1e6 / f64::from(REQUESTS);
    (
        per_request(cpu() - cpu_before),
        per_request(started.elapsed().as_secs_f64()),
    )
}

async fn compare(url: &str) {
    let (modern, legacy) = (
        Ours::connect(url, EraChoice::Modern).await,
        Ours::connect(url, EraChoice::Legacy).await,
    );
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let (sdk_modern, sdk_legacy) = (
        rmcp(url, ClientLifecycleMode::Discover { preferred_versions }).await,
        rmcp(url, ClientLifecycleMode::Initialize).await,
    );
    let params = || CallToolRequestParams::new("add").with_arguments(arguments());
    let names = [
        "call, legacy: rmcp",
        "call, legacy: longhaul",
        "call, modern: rmcp",
        "call, modern: longhaul",
        "poll, modern: rmcp",
        "poll, modern: longhaul",
    ];
    let mut figures: [Vec<(f64, f64)>; 6] = Default::default();
    for turn in 0..TURNS {
        let turn_figures = [
            measure(async || drop(sdk_legacy.call_tool(params()).await.unwrap())).await,
            measure(async || legacy.call().await).await,
            measure(async || drop(sdk_modern.call_tool(params()).await.unwrap())).await,
            measure(async || modern.call().await).await,
            measure(async || drop(sdk_modern.get_task(GetTaskParams::new("t-1")).await.unwrap())).await,
            measure(async || modern.poll().await).await,
        ];
        if turn > 0 {
            figures
                .iter_mut()
                .zip(turn_figures)
                .for_each(|(all, new)| all.push(new));
        }
    }
    println!(
        "{:<26} {:>9} {:>9} {:>12}",
        "one client, one request", "CPU µs", "time µs", "CPU / rmcp"
    );
    for (name, (peer, own)) in names.iter().zip([(0, 0), (0, 1), (2, 2), (2, 3), (4, 4), (4, 5)]) {
        let of = |pick: fn(&(f64, f64)) -> f64| median(figures[own].iter().map(pick).collect());
        let ratio = figures[own]
            .iter()
            .zip(&figures[peer])
            .map(|(own, peer)| own.0 / peer.0);
        println!(
            "{name:<26} {:>9.1} {:>9.1} {:>12.2}",
            of(|one| one.0),
            of(|one| one.1),
            median(ratio.collect())
        );
    }
}

/// Many tasks that one client waits for.
async fn follow(url: &str) {
    let tasks: usize = std::env::var("LONGHAUL_BENCH_TASKS").map_or(10_000, |tasks| tasks.parse().unwrap());
    let connection = Ours::connect(url, EraChoice::Modern).await.connection;
    let before = memory();
    for number in 0..tasks {
        let task = connection.task(format!("task-{number:030}"));
        tokio::spawn(async move { task.wait(&mut |_| {}).await.map(drop) });
    }
    let polls = async || {
        let counted = connection.send("bench/polls", Value::Null).await.unwrap();
        serde_json::from_str::<Value>(counted.as_str()).unwrap()["polls"]
            .as_u64()
            .unwrap()
    };
    let base = polls().await;
    // Every task has been read twice, and is in a subscription.
    tokio::time::sleep(FOLLOWED).await;
    let settled = polls().await;
    let (cpu_before, used) = (cpu(), memory() - before);
    tokio::time::sleep(FOLLOWED).await;
    let (cpu, polled) = (cpu() - cpu_before, polls().await - settled);
    println!();
    println!("{tasks} tasks followed at once:");
    println!(
        "  memory of each        {:>8.1} KiB",
        used as f64 / 1024.0 / tasks as f64
    );
    println!(
        "  polls of each at first {:>7.2}",
        (settled - base) as f64 / tasks as f64
    );
    println!(
        "  polls of each, an hour {:>7.1}",
        polled as f64 * 3600.0 / FOLLOWED.as_secs_f64() / tasks as f64
    );
    println!(
        "  CPU while nothing ends {:>7.2} %",
        cpu * 100.0 / FOLLOWED.as_secs_f64()
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if std::env::args().any(|argument| argument == "--serve") {
        return serve().await;
    }
    // The SDK's HTTP client wants one.
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let server = Server::start();
    compare(&server.1).await;
    follow(&server.1).await;
}
