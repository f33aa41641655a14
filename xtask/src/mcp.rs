//! A client of either era, small enough to be trusted: it checks our server and shares no code with it.

use crate::http::{Connection, Reply};
use serde_json::{Value, json};
use std::{io, net::SocketAddr};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Whether the server heard of it, nobody knows.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    #[error("refused with {code}: {message}")]
    Refused { code: i64, message: String, data: Value },
    #[error("an answer that is none: {0}")]
    Nonsense(String),
}

/// How a task ended, whichever era was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Cancelled,
    Result { is_error: bool, text: String },
    Error { code: i64, message: String },
}

/// What `tasks/get` shows.
#[derive(Debug)]
pub(crate) enum Look {
    /// Not over.
    Live,
    /// Over; a legacy server shows only its status.
    Over(String),
    /// Over like this.
    Ended(Outcome),
}

/// How a call of a tool was answered.
#[derive(Debug)]
pub(crate) enum Answered {
    /// With a task.
    Task(String),
    /// With its result.
    Result(Outcome),
}

/// One client. Its legacy session outlives its connections, and the server's process.
pub(crate) struct Client {
    address: SocketAddr,
    era: Era,
    session: Option<String>,
    connection: Option<Connection>,
    requests: u64,
}

impl Client {
    pub(crate) fn new(era: Era, address: SocketAddr) -> Self {
        Self {
            address,
            era,
            session: None,
            connection: None,
            requests: 0,
        }
    }

    pub(crate) fn era(&self) -> Era {
        self.era
    }

    /// The server is elsewhere now.
    pub(crate) fn moved(&mut self, address: SocketAddr) {
        self.address = address;
        self.connection = None;
    }

    /// Calls a tool as a task; `Ok` is the acknowledgement.
    pub(crate) fn create(&mut self, tool: &str, arguments: Value) -> Result<String, Trouble> {
        let params = match self.era {
            Era::Legacy => json!({"name": tool, "arguments": arguments, "task": {}}),
            Era::Modern => json!({"name": tool, "arguments": arguments}),
        };
        let result = self.request("tools/call", tool, params)?;
        let task = match self.era {
            Era::Legacy => &result["task"]["taskId"],
            Era::Modern => &result["taskId"],
        };
        task.as_str()
            .map(str::to_owned)
            .ok_or_else(|| Trouble::Nonsense(result.to_string()))
    }

    /// Calls a tool and waits for its result. Legacy only.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Result<Outcome, Trouble> {
        let result = self.request("tools/call", tool, json!({"name": tool, "arguments": arguments}))?;
        read_result(&result)
    }

    /// Calls a tool, and takes whatever it is answered. Modern only.
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> Result<Answered, Trouble> {
        let result = self.request("tools/call", tool, json!({"name": tool, "arguments": arguments}))?;
        Ok(match result["taskId"].as_str() {
            Some(task) => Answered::Task(task.to_owned()),
            None => Answered::Result(read_result(&result)?),
        })
    }

    /// `tasks/get`.
    pub(crate) fn look(&mut self, task: &str) -> Result<Look, Trouble> {
        let shown = self.request("tasks/get", task, json!({"taskId": task}))?;
        let status = shown["status"].as_str().unwrap_or_default();
        match (status, self.era) {
            ("working", _) => Ok(Look::Live),
            ("cancelled", _) => Ok(Look::Ended(Outcome::Cancelled)),
            ("completed" | "failed", Era::Legacy) => Ok(Look::Over(status.to_owned())),
            ("completed", Era::Modern) => Ok(Look::Ended(read_result(&shown["result"])?)),
            ("failed", Era::Modern) => Ok(Look::Ended(read_error(&shown["error"])?)),
            _ => Err(Trouble::Nonsense(shown.to_string())),
        }
    }

    /// `tasks/cancel`. In the legacy era `Ok` means that the task is cancelled; in the modern one, that it was asked to end.
    pub(crate) fn cancel(&mut self, task: &str) -> Result<(), Trouble> {
        let shown = self.request("tasks/cancel", task, json!({"taskId": task}))?;
        match self.era {
            Era::Legacy if shown["status"] != "cancelled" => Err(Trouble::Nonsense(shown.to_string())),
            _ => Ok(()),
        }
    }

    /// `tasks/result`: waits for the end. Legacy only.
    pub(crate) fn result(&mut self, task: &str) -> Result<Outcome, Trouble> {
        match self.request("tasks/result", task, json!({"taskId": task})) {
            Ok(result) => read_result(&result),
            Err(Trouble::Refused { data, .. }) if data["status"] == "cancelled" => Ok(Outcome::Cancelled),
            Err(Trouble::Refused {
                code: -32603, message, ..
            }) => Ok(Outcome::Error { code: -32603, message }),
            Err(trouble) => Err(trouble),
        }
    }

    fn request(&mut self, method: &str, name: &str, mut params: Value) -> Result<Value, Trouble> {
        match self.era {
            Era::Legacy => {
                let session = self.session()?;
                let headers = [("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", &session)];
                self.exchange(method, params, &headers)
            }
            Era::Modern => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientInfo": {"name": "xtask", "version": "0"},
                    "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
                });
                let headers = [
                    ("MCP-Protocol-Version", MODERN),
                    ("Mcp-Method", method),
                    ("Mcp-Name", name),
                ];
                self.exchange(method, params, &headers)
            }
        }
    }

    /// The session's id; the first request begins the session.
    fn session(&mut self) -> Result<String, Trouble> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let hello = json!({
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "xtask", "version": "0"},
        });
        let id = self.next_id();
        let reply = self.post("initialize", Some(id), hello, &[])?;
        let session = reply.header("mcp-session-id").map(str::to_owned);
        let session = session.ok_or_else(|| Trouble::Nonsense("initialize without a session id".to_owned()))?;
        let headers = [("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", session.as_str())];
        self.post("notifications/initialized", None, json!({}), &headers)?;
        self.session = Some(session.clone());
        Ok(session)
    }

    fn exchange(&mut self, method: &str, params: Value, headers: &[(&str, &str)]) -> Result<Value, Trouble> {
        let id = self.next_id();
        let reply = self.post(method, Some(id), params, headers)?;
        let mut message = read_message(&reply, id)?;
        if let Some(error) = message.get("error") {
            return Err(Trouble::Refused {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
                data: error["data"].clone(),
            });
        }
        Ok(message["result"].take())
    }

    fn next_id(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    fn post(
        &mut self,
        method: &str,
        id: Option<u64>,
        params: Value,
        headers: &[(&str, &str)],
    ) -> Result<Reply, Trouble> {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(id) = id {
            message["id"] = id.into();
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.address)?,
        };
        let reply = connection.post(headers, &message.to_string())?;
        // Kept only when it worked: after half an answer the rest would be taken for the next one.
        self.connection = Some(connection);
        Ok(reply)
    }
}

/// The response with our id, alone or at the end of a stream.
fn read_message(reply: &Reply, id: u64) -> Result<Value, Trouble> {
    let body = String::from_utf8_lossy(&reply.body);
    let stream = reply
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("text/event-stream"));
    let text = if stream {
        body.lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .next_back()
            .unwrap_or_default()
    } else {
        &body
    };
    match serde_json::from_str::<Value>(text) {
        Ok(message) if message["id"] == id => Ok(message),
        _ => Err(Trouble::Nonsense(format!("HTTP {}: {body}", reply.status))),
    }
}

fn read_result(result: &Value) -> Result<Outcome, Trouble> {
    let text = result["content"][0]["text"].as_str();
    let text = text.ok_or_else(|| Trouble::Nonsense(result.to_string()))?.to_owned();
    Ok(Outcome::Result {
        is_error: result["isError"] == true,
        text,
    })
}

fn read_error(error: &Value) -> Result<Outcome, Trouble> {
    match (error["code"].as_i64(), error["message"].as_str()) {
        (Some(code), Some(message)) => Ok(Outcome::Error {
            code,
            message: message.to_owned(),
        }),
        _ => Err(Trouble::Nonsense(error.to_string())),
    }
}
