//! Compares the time of a plain `tools/call` on Longhaul, of its own tool and of an rmcp handler, with that on rmcp's own server:
//! `cargo bench -p longhaul-rmcp`.
//!
//! One client sends a line over a pipe in memory and waits for the answer. Everything but SQLite's writer runs on one thread. The servers are
//! measured in turns, so that other load on the machine affects all alike. `LONGHAUL_BENCH_RETAINED` sets how many finished tasks the server
//! in memory has at the start (default 0). The results are in `docs/performance.md`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark may panic and read the clock"
)]

use longhaul::{Server, ServerHandle};
use longhaul_core::{
    Json, NodeId, Origin, Outcome, Owner, Principal, Quota, SpecId, TaskHeader, ToolSpec, UnixMillis,
    store::{NewTask, QueueStore, TaskStore},
};
use longhaul_store::MemoryStore;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split};

/// How many calls a turn has.
const CALLS: u32 = 500;
/// How many turns each server has; the first is for warming up.
const TURNS: usize = 21;

struct Adder;

impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
        Ok(ListToolsResult::with_all_items(vec![Tool::new("add", "Adds", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let sum = arguments.values().filter_map(Value::as_i64).sum::<i64>();
        Ok(CallToolResult::success(vec![ContentBlock::text(sum.to_string())]).into())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: i64,
    b: i64,
}

/// Longhaul's own tool that does the same.
fn native() -> Server {
    let add = |numbers: Numbers| async move { (numbers.a + numbers.b).to_string() };
    Server::new("bench", "1").tool(longhaul::Tool::new("add", add).description("Adds"))
}

/// A client of 2025-11-25, whose calls are plain calls.
struct Client {
    lines: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    next_id: u64,
}

impl Client {
    /// Initializes a session.
    async fn connect(stream: DuplexStream) -> Self {
        let (reader, writer) = split(stream);
        let mut client = Self {
            lines: BufReader::new(reader),
            writer,
            next_id: 1,
        };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        client.request("initialize", &params).await;
        client
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        client
    }

    async fn send(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn request(&mut self, method: &str, params: &Value) -> String {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        let mut line = String::new();
        self.lines.read_line(&mut line).await.unwrap();
        line
    }

    async fn turn(&mut self) -> Duration {
        let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
        let start = Instant::now();
        for _ in 0..CALLS {
            let answer = self.request("tools/call", &params).await;
            assert!(answer.contains(r#""text":"3""#), "{answer}");
        }
        start.elapsed() / CALLS
    }
}

async fn on_rmcp() -> Client {
    let (near, far) = duplex(1 << 16);
    tokio::spawn(async move { Adder.serve(split(far)).await.unwrap().waiting().await });
    Client::connect(near).await
}

async fn behind_longhaul(server: ServerHandle) -> Client {
    let (near, far) = duplex(1 << 16);
    let (reader, writer) = split(far);
    tokio::spawn(async move { server.serve_lines(reader, writer).await });
    Client::connect(near).await
}

/// A store with `count` finished tasks of one owner, to be retained for a day.
async fn retained(count: usize) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let spec = ToolSpec {
        id: SpecId::named("add"),
        kind: "bench".into(),
        definition: Json::trusted("{}"),
    };
    store.put_spec(spec).await.unwrap();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    for nth in 0..count {
        let new = NewTask {
            header: TaskHeader {
                id: format!("00-{nth:07}").parse().unwrap(),
                owner: Owner {
                    principal: Principal::local(),
                    session: None,
                },
                tool: "add".into(),
                spec: SpecId::named("add"),
                origin: Origin::Modern,
                accepted_by: NodeId(0),
                created_at: UnixMillis(now),
                deadline: None,
                queue_timeout: None,
                retention: 86_400_000,
                lineage: None,
                labels: longhaul_core::Labels::default(),
                group: None,
            },
            announced: true,
            in_memory: false,
            priority: longhaul_core::Priority::default(),
            arguments: Json::trusted(r#"{"a":1,"b":2}"#),
            requestor: Json::trusted("{}"),
            claim: None,
            confirmation: None,
            outcome: Some(Outcome::result(Json::trusted(r#"{"content":[]}"#))),
            idempotency: None,
            unique: None,
            quota: Quota::default(),
            parent: None,
            history: None,
            replaces: None,
            schedule: None,
        };
        store.create(new).await.unwrap();
    }
    store
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let count = std::env::var("LONGHAUL_BENCH_RETAINED").map_or(0, |text| text.parse().unwrap());
    let handler = || async { longhaul_rmcp::server(Adder).await.unwrap() };
    let servers = [
        ("a tool, in memory", native().store(retained(count).await)),
        ("a tool, `data_dir`", native().data_dir(directories[0].path())),
        (
            "an rmcp handler, in memory",
            handler().await.store(retained(count).await),
        ),
        (
            "an rmcp handler, `data_dir`",
            handler().await.data_dir(directories[1].path()),
        ),
    ];
    let mut clients = vec![("rmcp", on_rmcp().await)];
    for (name, server) in servers {
        clients.push((name, behind_longhaul(server.start().await.unwrap()).await));
    }
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        let mut turn = Vec::new();
        for (_, client) in &mut clients {
            turn.push(client.turn().await.as_secs_f64() * 1e6);
        }
        turns.push(turn);
    }
    println!("| server | µs per call | times rmcp |\n| --- | --- | --- |");
    for (nth, (name, _)) in clients.iter().enumerate() {
        let micros = median(turns[1..].iter().map(|turn| turn[nth]));
        let times_rmcp = median(turns[1..].iter().map(|turn| turn[nth] / turn[0]));
        println!("| {name} | {micros:.0} | {times_rmcp:.2} |");
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
