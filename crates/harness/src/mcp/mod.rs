//! An MCP client for both eras. It shares no code with the server, because it checks the server.

mod http;

use http::{Connection, Reply};
use serde_json::{Value, json};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";
const IDEMPOTENCY_KEY: &str = "dev.longhaul/idempotency-key";

/// The era of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEra {
    Legacy,
    Modern,
}

impl ClientEra {
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// A request failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The server may or may not have received the request.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    #[error("refused with {code}: {message}")]
    Refused {
        /// Of HTTP.
        status: u16,
        code: i64,
        message: String,
        data: Value,
    },
    #[error("an invalid response: {0}")]
    Invalid(String),
}

/// The outcome of a task, the same for both eras.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    Cancelled,
    Result { is_error: bool, text: String },
    Error { code: i64, message: String },
}

impl CallOutcome {
    /// The status that a legacy client reads.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Result { is_error: false, .. } => "completed",
            Self::Result { is_error: true, .. } | Self::Error { .. } => "failed",
        }
    }

    /// Whether it is this text, and no error.
    pub fn is(&self, expected: &str) -> bool {
        matches!(self, Self::Result { is_error: false, text } if text == expected)
    }
}

/// The result of `tasks/get`.
#[derive(Debug)]
pub enum TaskState {
    /// The task has not ended.
    Live,
    /// The task waits for the answers to these questions.
    Asks(Vec<String>),
    /// The task has ended; a legacy server returns only its status.
    EndedStatus(String),
    /// The task has ended with this outcome.
    Ended(CallOutcome),
}

/// The response to a call.
#[derive(Debug)]
pub enum CallResponse {
    /// With a task.
    Task(String),
    /// With its result.
    Result(CallOutcome),
}

impl CallResponse {
    /// The result, unless it is a task.
    pub fn outcome(self) -> Option<CallOutcome> {
        match self {
            Self::Task(_) => None,
            Self::Result(outcome) => Some(outcome),
        }
    }
}

/// A client. Its legacy session outlives its connections and the server's process.
pub struct Client {
    era: ClientEra,
    session: Option<String>,
    connection: Connection,
    requests: u64,
}

impl Client {
    /// A client of a server that is not there yet: see [`moved`](Self::moved).
    pub fn of_nobody(era: ClientEra) -> Self {
        Self::new(era, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    pub fn new(era: ClientEra, address: SocketAddr) -> Self {
        Self {
            era,
            session: None,
            connection: Connection::new(address),
            requests: 0,
        }
    }

    /// A client whose requests fail after this time.
    pub fn with_timeout(era: ClientEra, address: SocketAddr, timeout: Duration) -> Self {
        Self {
            connection: Connection::with_timeout(address, timeout),
            ..Self::new(era, address)
        }
    }

    /// Another client in the same session, with a connection of its own. Its first request has this id, which no other request of the session may have.
    pub fn in_same_session(&mut self, address: SocketAddr, first_id: u64) -> Result<Self, RequestError> {
        Ok(Self {
            era: self.era,
            session: Some(self.session()?),
            connection: Connection::new(address),
            requests: first_id - 1,
        })
    }

    pub fn era(&self) -> ClientEra {
        self.era
    }

    /// Sends later requests to this address.
    pub fn moved(&mut self, address: SocketAddr) {
        self.connection = Connection::new(address);
    }

    /// Calls a tool as a task; `Ok` is the acknowledgement.
    pub fn create(&mut self, tool: &str, arguments: Value) -> Result<String, RequestError> {
        self.create_with(tool, json!({"name": tool, "arguments": arguments}))
    }

    /// As [`create`](Self::create), with an idempotency key: made again, it finds the same task.
    pub fn create_keyed(&mut self, tool: &str, arguments: Value, key: &str) -> Result<String, RequestError> {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {IDEMPOTENCY_KEY: key}});
        self.create_with(tool, params)
    }

    fn create_with(&mut self, tool: &str, mut params: Value) -> Result<String, RequestError> {
        if self.era == ClientEra::Legacy {
            params["task"] = json!({});
        }
        let result = self.request("tools/call", tool, params)?;
        let task = match self.era {
            ClientEra::Legacy => &result["task"]["taskId"],
            ClientEra::Modern => &result["taskId"],
        };
        task.as_str()
            .map(str::to_owned)
            .ok_or_else(|| RequestError::Invalid(result.to_string()))
    }

    /// The number of tools on the first page of the list.
    pub fn list_tools(&mut self) -> Result<usize, RequestError> {
        let result = self.request("tools/list", "", json!({}))?;
        Ok(result["tools"].as_array().map_or(0, Vec::len))
    }

    /// Calls a tool and waits for its result. Legacy only.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<CallOutcome, RequestError> {
        let result = self.request("tools/call", tool, json!({"name": tool, "arguments": arguments}))?;
        read_result(&result)
    }

    /// Calls a tool, and returns its result or task. Modern only.
    pub fn begin(&mut self, tool: &str, arguments: Value) -> Result<CallResponse, RequestError> {
        let result = self.request("tools/call", tool, json!({"name": tool, "arguments": arguments}))?;
        Ok(match result["taskId"].as_str() {
            Some(task) => CallResponse::Task(task.to_owned()),
            None => CallResponse::Result(read_result(&result)?),
        })
    }

    /// `tasks/get`.
    pub fn get(&mut self, task: &str) -> Result<TaskState, RequestError> {
        let shown = self.request("tasks/get", task, json!({"taskId": task}))?;
        let status = shown["status"].as_str().unwrap_or_default();
        match (status, self.era) {
            ("working", _) => Ok(TaskState::Live),
            ("input_required", _) => {
                let questions = shown["inputRequests"].as_object();
                let keys = questions.map(|questions| questions.keys().cloned().collect());
                Ok(TaskState::Asks(keys.unwrap_or_default()))
            }
            ("cancelled", _) => Ok(TaskState::Ended(CallOutcome::Cancelled)),
            ("completed" | "failed", ClientEra::Legacy) => Ok(TaskState::EndedStatus(status.to_owned())),
            ("completed", ClientEra::Modern) => Ok(TaskState::Ended(read_result(&shown["result"])?)),
            ("failed", ClientEra::Modern) => Ok(TaskState::Ended(read_error(&shown["error"])?)),
            _ => Err(RequestError::Invalid(shown.to_string())),
        }
    }

    /// `tasks/cancel`. In the legacy era `Ok` means that the task is cancelled; in the modern one, that it was asked to end.
    pub fn cancel(&mut self, task: &str) -> Result<(), RequestError> {
        let shown = self.request("tasks/cancel", task, json!({"taskId": task}))?;
        match self.era {
            ClientEra::Legacy if shown["status"] != "cancelled" => Err(RequestError::Invalid(shown.to_string())),
            _ => Ok(()),
        }
    }

    /// `tasks/update`: accepts a form with these contents. Modern only.
    pub fn answer(&mut self, task: &str, question: &str, contents: Value) -> Result<(), RequestError> {
        let answers = json!({question: {"action": "accept", "content": contents}});
        let params = json!({"taskId": task, "inputResponses": answers});
        self.request("tasks/update", task, params).map(drop)
    }

    /// Deletes a task that has ended.
    pub fn delete(&mut self, task: &str) -> Result<(), RequestError> {
        let params = json!({"taskId": task});
        self.request("dev.longhaul/tasks/delete", task, params).map(drop)
    }

    /// `tasks/result`: waits for the end. Legacy only.
    pub fn result(&mut self, task: &str) -> Result<CallOutcome, RequestError> {
        match self.request("tasks/result", task, json!({"taskId": task})) {
            Ok(result) => read_result(&result),
            Err(RequestError::Refused { data, .. }) if data["status"] == "cancelled" => Ok(CallOutcome::Cancelled),
            Err(RequestError::Refused {
                status: 200,
                code: -32603,
                message,
                ..
            }) => Ok(CallOutcome::Error { code: -32603, message }),
            Err(trouble) => Err(trouble),
        }
    }

    fn request(&mut self, method: &str, name: &str, mut params: Value) -> Result<Value, RequestError> {
        match self.era {
            ClientEra::Legacy => {
                let session = self.session()?;
                let headers = [("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", &session)];
                self.exchange(method, params, &headers)
            }
            ClientEra::Modern => {
                let meta = &mut params["_meta"];
                meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
                meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "xtask", "version": "0"});
                meta["io.modelcontextprotocol/clientCapabilities"] =
                    json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}});
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
    fn session(&mut self) -> Result<String, RequestError> {
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
        let session = session.ok_or_else(|| RequestError::Invalid("initialize without a session id".to_owned()))?;
        let headers = [("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", session.as_str())];
        self.post("notifications/initialized", None, json!({}), &headers)?;
        self.session = Some(session.clone());
        Ok(session)
    }

    fn exchange(&mut self, method: &str, params: Value, headers: &[(&str, &str)]) -> Result<Value, RequestError> {
        let id = self.next_id();
        let reply = self.post(method, Some(id), params, headers)?;
        let mut message = read_message(&reply, id)?;
        if let Some(error) = message.get("error") {
            return Err(RequestError::Refused {
                status: reply.status(),
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
    ) -> Result<Reply, RequestError> {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(id) = id {
            message["id"] = id.into();
        }
        Ok(self.connection.post(headers, &message.to_string())?)
    }
}

/// The response with our id, alone or at the end of a stream.
fn read_message(reply: &Reply, id: u64) -> Result<Value, RequestError> {
    let body = String::from_utf8_lossy(reply.body());
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
        // A server that stops ends its streams.
        _ if stream && text.trim().is_empty() => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        _ => Err(RequestError::Invalid(format!("HTTP {}: {body}", reply.status()))),
    }
}

fn read_result(result: &Value) -> Result<CallOutcome, RequestError> {
    let text = result["content"][0]["text"].as_str();
    let text = text
        .ok_or_else(|| RequestError::Invalid(result.to_string()))?
        .to_owned();
    Ok(CallOutcome::Result {
        is_error: result["isError"] == true,
        text,
    })
}

fn read_error(error: &Value) -> Result<CallOutcome, RequestError> {
    match (error["code"].as_i64(), error["message"].as_str()) {
        (Some(code), Some(message)) => Ok(CallOutcome::Error {
            code,
            message: message.to_owned(),
        }),
        _ => Err(RequestError::Invalid(error.to_string())),
    }
}
