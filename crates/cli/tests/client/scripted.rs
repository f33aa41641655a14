//! A server that a test scripts.

use crate::support::Shell;
use longhaul_client::SystemClock;
use longhaul_core::Clock;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};
use tempfile::TempDir;

/// A request that the server received.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) verb: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
    /// When, by a clock that only runs forward.
    pub(crate) at: Duration,
}

/// What it answers.
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// Whether it is an event stream that stays open.
    is_stream: bool,
}

impl Received {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn result(&self, result: Value) -> Reply {
        Reply::json(200, json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }

    /// A JSON-RPC error with its HTTP status.
    pub(crate) fn error(&self, status: u16, code: i32) -> Reply {
        let error = json!({"code": code, "message": "scripted"});
        Reply::json(status, json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}))
    }
}

impl Reply {
    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.to_string(),
            is_stream: false,
        }
    }

    /// An event stream with this message, which stays open.
    pub(crate) fn stream(message: &Value) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: format!("data: {message}\n\n"),
            is_stream: true,
        }
    }

    /// The same with several.
    pub(crate) fn stream_of(messages: &[Value]) -> Self {
        let events = messages.iter().map(|message| format!("data: {message}\n\n"));
        Self {
            body: events.collect(),
            ..Self::stream(&Value::Null)
        }
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
            is_stream: false,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// A task with `more` members or other values.
pub(crate) fn task(id: &str, status: &str, more: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": id, "status": status, "createdAt": "2026-11-20T09:00:00Z",
        "lastUpdatedAt": "2026-11-20T09:00:00Z", "ttlMs": null, "pollIntervalMs": 50,
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

/// A task of 2025-11-25.
pub(crate) fn legacy_task(id: &str, status: &str) -> Value {
    json!({
        "taskId": id, "status": status, "createdAt": "2026-11-20T09:00:00Z", "lastUpdatedAt": "2026-11-20T09:00:00Z",
        "ttl": null, "pollInterval": 50,
    })
}

/// A task that asks this.
pub(crate) fn asks(id: &str, questions: Value) -> Value {
    task(id, "input_required", json!({"inputRequests": questions}))
}

/// A task that has succeeded with this text.
pub(crate) fn completed(id: &str, text: &str) -> Value {
    let result = json!({"content": [{"type": "text", "text": text}]});
    task(id, "completed", json!({"result": result}))
}

/// A question with a form of these properties.
pub(crate) fn form(message: &str, properties: Value) -> Value {
    let schema = json!({"type": "object", "properties": properties});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

/// The same of the legacy task `task-1`, as a request.
pub(crate) fn legacy_form(id: u64, message: &str, properties: Value) -> Value {
    let mut asked = form(message, properties);
    asked["jsonrpc"] = "2.0".into();
    asked["id"] = id.into();
    asked["params"]["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "task-1"}});
    asked
}

/// A server to the end of this process, and the command run against it.
pub(crate) struct Scripted {
    pub(crate) url: String,
    pub(crate) home: TempDir,
    seen: Arc<Mutex<Vec<Received>>>,
}

type Script = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

/// A server of 2026-07-28 with the tool `t`. `script` answers everything but the handshake and the list of tools.
pub(crate) fn scripted(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Scripted {
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
    scripted_with(&json!({}), tool, script)
}

/// The same with more extensions, and another tool.
pub(crate) fn scripted_with(
    extensions: &Value,
    tool: Value,
    script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
) -> Scripted {
    let mut declared = json!({"io.modelcontextprotocol/tasks": {}});
    declared
        .as_object_mut()
        .unwrap()
        .extend(extensions.as_object().unwrap().clone());
    serving(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": declared},
        })),
        "tools/list" => seen.result(json!({"resultType": "complete", "tools": [tool]})),
        _ => script(seen),
    })
}

/// The same of 2025-11-25, with tasks.
pub(crate) fn scripted_legacy(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Scripted {
    serving(move |seen| match seen.method() {
        "server/discover" => seen.error(400, -32000),
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "scripted", "version": "0"},
                "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}},
            }))
            .header("mcp-session-id", "session-1"),
        "tools/list" => seen.result(json!({
            "tools": [{"name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}],
        })),
        method if method.starts_with("notifications/") => Reply::empty(202),
        _ => script(seen),
    })
}

pub(crate) fn serving(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (script, seen): (Script, _) = (Arc::new(script), Arc::<Mutex<Vec<Received>>>::default());
    let log = Arc::clone(&seen);
    let accepting = std::thread::Builder::new().spawn(move || {
        for stream in listener.incoming() {
            let (script, log) = (Arc::clone(&script), Arc::clone(&log));
            let serving = std::thread::Builder::new().spawn(move || serve(stream.unwrap(), &script, &log));
            serving.unwrap();
        }
    });
    accepting.unwrap();
    Scripted {
        url,
        home: tempfile::tempdir().unwrap(),
        seen,
    }
}

/// Answers one request.
fn serve(mut stream: TcpStream, script: &Script, log: &Mutex<Vec<Received>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    lines.read_line(&mut line).ok()?;
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    let received = Received {
        verb: line.split(' ').next().unwrap_or_default().to_owned(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        at: SystemClock.monotonic(),
    };
    log.lock().unwrap().push(received.clone());
    let reply = script(&received);
    let mut head = format!("HTTP/1.1 {} Scripted\r\nconnection: close\r\n", reply.status);
    head.push_str(&match reply.is_stream {
        true => "content-type: text/event-stream\r\n".to_owned(),
        false => format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            reply.body.len()
        ),
    });
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{}", reply.body).as_bytes()).ok()?;
    if reply.is_stream {
        // Until the client closes it.
        let _ = lines.read(&mut [0]);
    }
    Some(())
}

impl Shell for Scripted {
    fn home(&self) -> &TempDir {
        &self.home
    }

    fn url(&self) -> &str {
        &self.url
    }
}

impl Scripted {
    /// All requests of one method so far.
    pub(crate) fn calls_of(&self, method: &str) -> Vec<Received> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.method() == method).cloned().collect()
    }

    /// All messages so far.
    pub(crate) fn messages(&self) -> Vec<Received> {
        self.seen.lock().unwrap().clone()
    }
}

/// The answer to a call that has become this task.
pub(crate) fn created(id: &str) -> Value {
    task(id, "working", json!({"resultType": "task"}))
}
