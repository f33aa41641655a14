//! Whole requests.

use crate::deterministic;
use gungraun::prelude::*;
use longhaul_command::in_process::{self, function};
use longhaul_core::{HostId, Json, Outcome, Quota, TaskPolicy, text_result};
use longhaul_runtime::{Catalog, Engine, EngineOptions, ExecutionEnd, Tool, ToolSettings};
use longhaul_server::{Limits, ProtocolServer, ProtocolServerOptions, bench_api};
use longhaul_store::{MemoryStore, PlainCallStore};
use longhaul_wire::Headers;
use serde_json::{Value, json};
use std::{hint::black_box, pin::pin, sync::Arc};
use tokio::runtime::Runtime;

/// A server and a request to it.
pub(crate) struct Case {
    runtime: Runtime,
    protocol: Arc<ProtocolServer>,
    session: Option<String>,
    modern: bool,
    method: &'static str,
    name: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Case {
    /// Sends the request once.
    pub(crate) fn send(&self) -> String {
        let headers = Headers {
            protocol_version: Some(if self.modern { b"2026-07-28" } else { b"2025-11-25" }),
            method: self.modern.then_some(self.method.as_bytes()),
            name: self.name.as_ref().filter(|_| self.modern).map(String::as_bytes),
            session_id: self.session.as_ref().map(String::as_bytes),
            ..Headers::default()
        };
        // Pinned, since `block_on` moves what it is given: copying a future of some KB is no cost of the server's.
        let answer = pin!(bench_api::answer(&self.protocol, headers, &self.body));
        self.runtime.block_on(answer)
    }

    fn result(&self) -> Value {
        let answer: Value = serde_json::from_str(&self.send()).unwrap();
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Sets the request.
    fn set_request(&mut self, method: &'static str, params: Value) -> &mut Self {
        let mut params = params;
        self.name = ["name", "taskId"]
            .iter()
            .find_map(|key| params[*key].as_str().map(str::to_owned));
        self.method = method;
        if self.modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "counted", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            });
        }
        let request = json!({"jsonrpc": "2.0", "id": 17, "method": method, "params": params});
        self.body = request.to_string().into_bytes();
        self
    }

    fn start(modern: bool) -> Self {
        let runtime = deterministic::runtime();
        let protocol = runtime.block_on(serve());
        let mut case = Self {
            runtime,
            protocol,
            session: None,
            modern,
            method: "",
            name: None,
            body: Vec::new(),
        };
        if !modern {
            case.session = Some(case.initialize());
        }
        case
    }

    fn initialize(&mut self) -> String {
        let client =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        self.set_request("initialize", client);
        self.runtime
            .block_on(bench_api::session(&self.protocol, &self.body))
            .unwrap()
    }

    /// Sends the request a few times, so that one-time work is done.
    fn warm(self) -> Self {
        for _ in 0..3 {
            self.result();
        }
        self
    }
}

async fn serve() -> Arc<ProtocolServer> {
    let (engine, _) = Engine::start(EngineOptions {
        store: Arc::new(PlainCallStore::in_front_of(Arc::new(MemoryStore::default()))),
        ports: deterministic::ports(),
        node: HostId("counted".into()).into(),
        lost_after: longhaul_runtime::HOST_LOST_AFTER,
        catalog: Catalog::new([tool("add", TaskPolicy::Never), tool("slow_add", TaskPolicy::Always)]).unwrap(),
        providers: Vec::new(),
        max_running: None,
        quota: Quota::default(),
        suspend_after: longhaul_runtime::SUSPEND_AFTER,
        build: longhaul_runtime::BuildId::named("test"),
        step_observer: None,
        may_begin: None,
        cipher: None,
    })
    .await
    .unwrap();
    let protocol = ProtocolServer::new(ProtocolServerOptions {
        engine,
        server_info: longhaul_server::ServerInfo::new("counted", "1"),
        max_body: 1 << 20,
        strict_headers: false,
        limits: Limits::default(),
        authentication: longhaul_server::auth::Authentication::default(),
        http: longhaul_server::http::HttpOptions::default(),
        events: None,
        audit: None,
    });
    Arc::new(protocol.await.unwrap())
}

fn tool(name: &str, policy: TaskPolicy) -> Tool {
    let executor = function(|_, _| async { ExecutionEnd::Finished(Outcome::result(text_result("3", false))) });
    Tool::new(ToolSettings {
        description: "Adds two numbers".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
            "additionalProperties": false,
        }),
        policy,
        ..ToolSettings::new(name, in_process::KIND, Json::trusted("{}"), executor)
    })
    .unwrap()
}

fn add(tool: &str) -> Value {
    json!({"name": tool, "arguments": {"a": 1, "b": 2}})
}

fn call(modern: bool) -> Case {
    let mut case = Case::start(modern);
    case.set_request("tools/call", add("add"));
    case.warm()
}

fn create(modern: bool) -> Case {
    let mut case = Case::start(modern);
    let mut params = add("slow_add");
    if !modern {
        params["task"] = json!({"ttl": 60_000});
    }
    case.set_request("tools/call", params);
    case.warm()
}

/// A finished task with a small result; its id is in the body.
pub(crate) fn get(modern: bool) -> Case {
    let mut case = create(modern);
    let created = case.result();
    let task = created["task"]["taskId"]
        .as_str()
        .or(created["taskId"].as_str())
        .unwrap()
        .to_owned();
    case.set_request("tasks/get", json!({"taskId": task}));
    while case.result()["status"] != "completed" {}
    case.warm()
}

fn without_params(modern: bool, method: &'static str) -> Case {
    let mut case = Case::start(modern);
    case.set_request(method, json!({}));
    case.warm()
}

#[library_benchmark]
#[bench::tasks_get_modern(get(true))]
#[bench::tasks_get_legacy(get(false))]
#[bench::tools_call_modern(call(true))]
#[bench::tools_call_legacy(call(false))]
#[bench::create_task_modern(create(true))]
#[bench::create_task_legacy(create(false))]
#[bench::tools_list_modern(without_params(true, "tools/list"))]
#[bench::tools_list_legacy(without_params(false, "tools/list"))]
#[bench::discover(without_params(true, "server/discover"))]
#[bench::ping(without_params(false, "ping"))]
fn answer(case: Case) -> (Case, String) {
    let text = black_box(case.send());
    (case, text)
}

library_benchmark_group!(name = requests, benchmarks = [answer]);
