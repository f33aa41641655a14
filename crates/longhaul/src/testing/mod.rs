//! Tests of servers: a client in memory, and [crash tests](crash).
//!
//! ```
//! use longhaul::{Era, Server, TaskContext, Tool, ToolResult, testing::Client};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Name { name: String }
//!
//! async fn greet(cx: TaskContext) -> ToolResult<String> {
//!     let user: Name = cx.elicit("Who are you?").key("who").await?;
//!     Ok(format!("Hello, {}!", user.name))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new("greeter", "1.0.0").tool(Tool::new("greet", greet)).start().await?;
//! for era in [Era::Legacy, Era::Modern] {
//!     let client = Client::connect(&server, era)
//!         .answering(|question| json!({"action": "accept", "content": {"name": "Ann"}}))
//!         .await?;
//!     assert_eq!(client.call("greet", json!({})).await?.text(), "Hello, Ann!");
//! }
//! # Ok(()) }
//! ```

mod connection;
pub mod crash;
mod schema_check;
mod task;

pub use connection::RequestError;
pub use task::Task;

use crate::{Era, ServeError, Server, ServerHandle};
use connection::{AnswerQuestion, Connection};
use longhaul_core::BoxFuture;
use schema_check::SchemaCheck;
use serde_json::{Map, Value, json};
use std::{future::IntoFuture, sync::Arc};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
/// How many rounds of questions a modern request may have.
const MAX_ROUNDS: usize = 20;

impl Server {
    /// Starts the server and connects a client of this era, which declares all capabilities and refuses all questions. For a client that answers use
    /// [`Client::connect`].
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn in_memory(self, era: Era) -> Result<Client, ServeError> {
        let server = self.start().await?;
        match Client::connect(&server, era).await {
            Ok(client) => Ok(client),
            Err(_) => Err(ServeError::Stopped),
        }
    }
}

/// A client in memory. Dropping it closes its connection; the server keeps running.
pub struct Client {
    server: ServerHandle,
    era: Era,
    capabilities: Value,
    connection: Arc<Connection>,
}

/// A client that is not connected yet; made by [`Client::connect`]. Awaiting it connects.
#[must_use = "nothing is connected until it is awaited"]
pub struct Connect {
    server: ServerHandle,
    era: Era,
    capabilities: Value,
    answering: Arc<AnswerQuestion>,
    check_schemas: bool,
}

impl Connect {
    /// Answers the server's questions. `question` is `{"method":…,"params":…}`, and `answer` returns the result of that request. By default all
    /// questions are refused.
    pub fn answering(mut self, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        self.answering = Arc::new(move |question| Ok(answer(question)));
        self
    }

    /// Declares these capabilities; by default all.
    pub fn declaring(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Whether messages are checked against the schemas, in our own tests. Of hundreds of processes with the same messages, one is enough.
    fn check_schemas(mut self, check_schemas: bool) -> Self {
        self.check_schemas = check_schemas;
        self
    }

    async fn connect(self) -> Result<Client, RequestError> {
        let connection = Connection::open(&self.server, self.answering, SchemaCheck::new(self.check_schemas))
            .ok_or_else(|| RequestError::new("the server has stopped"))?;
        let client = Client {
            server: self.server,
            era: self.era,
            capabilities: self.capabilities,
            connection,
        };
        if client.era == Era::Legacy {
            let params = json!({
                "protocolVersion": LEGACY,
                "clientInfo": client_info(),
                "capabilities": client.capabilities,
            });
            client.request("initialize", params).await?;
            client
                .connection
                .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
                .await?;
        }
        Ok(client)
    }
}

impl IntoFuture for Connect {
    type Output = Result<Client, RequestError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}

fn client_info() -> Value {
    json!({"name": "longhaul-testing", "version": env!("CARGO_PKG_VERSION")})
}

/// All capabilities.
fn all_capabilities() -> Value {
    json!({
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}},
        "roots": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    })
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallToolResult {
    /// The `CallToolResult`.
    pub result: Value,
}

impl CallToolResult {
    /// All text of the result, concatenated.
    pub fn text(&self) -> String {
        let blocks = self.result["content"].as_array().into_iter().flatten();
        blocks.filter_map(|block| block["text"].as_str()).collect()
    }

    /// Its structured content; null if it has none.
    pub fn structured(&self) -> &Value {
        &self.result["structuredContent"]
    }

    /// Whether it is the error of a tool.
    pub fn is_error(&self) -> bool {
        self.result["isError"] == true
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.schemas.panic_on_violation();
    }
}

impl Client {
    /// Connects to a server. By default the client declares all capabilities and refuses all questions.
    pub fn connect(server: &ServerHandle, era: Era) -> Connect {
        Connect {
            server: server.clone(),
            era,
            capabilities: all_capabilities(),
            answering: Arc::new(|question| Err(format!("the test does not answer {question}"))),
            check_schemas: true,
        }
    }

    /// The server it is connected to.
    pub fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// Calls a tool and returns its result. Questions are answered, and a task is followed to its end.
    ///
    /// # Errors
    /// The JSON-RPC error of the call or its task.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, RequestError> {
        let params = json!({"name": tool, "arguments": arguments});
        match self.send("tools/call", params).await {
            Ok(result) if result["resultType"] == "task" => self.task(&result)?.wait().await,
            Ok(result) => Ok(CallToolResult { result }),
            // A legacy client may call this tool as a task only.
            Err(failure) if failure.code == -32601 && self.era == Era::Legacy => {
                self.start(tool, arguments).await?.wait().await
            }
            Err(failure) => Err(failure),
        }
    }

    /// Calls a tool as a task.
    ///
    /// # Errors
    /// The JSON-RPC error the call was answered with; also if it was answered with its result.
    pub async fn start(&self, tool: &str, arguments: Value) -> Result<Task<'_>, RequestError> {
        self.create(json!({"name": tool, "arguments": arguments})).await
    }

    /// Makes a call with these params as a task.
    async fn create(&self, mut params: Value) -> Result<Task<'_>, RequestError> {
        if self.era == Era::Legacy {
            params["task"] = json!({});
        }
        let created = self.send("tools/call", params).await?;
        self.task(&created)
    }

    /// A task that was created before, on another connection or by an earlier server on the same store.
    pub fn follow(&self, id: impl Into<String>) -> Task<'_> {
        Task::new(self, id.into())
    }

    fn task(&self, created: &Value) -> Result<Task<'_>, RequestError> {
        let task = if self.era == Era::Legacy {
            &created["task"]
        } else {
            created
        };
        match task["taskId"].as_str() {
            Some(id) => Ok(Task::new(self, id.to_owned())),
            None => Err(RequestError::new(format!("the call did not become a task: {created}"))),
        }
    }

    /// Sends a request, answers its questions, and returns its result.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn send(&self, method: &str, params: Value) -> Result<Value, RequestError> {
        let mut next = params.clone();
        for _ in 0..MAX_ROUNDS {
            let result = self.request(method, next).await?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            next = params.clone();
            next["inputResponses"] = self.connection.answers(&result["inputRequests"])?;
            if let Some(state) = result.get("requestState") {
                next["requestState"] = state.clone();
            }
        }
        Err(RequestError::new(format!(
            "no result after {MAX_ROUNDS} rounds of questions"
        )))
    }

    /// Sends one request; a modern one gets the required `_meta`. A legacy client answers questions that arrive before the result; for a modern
    /// client they are the result.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn request(&self, method: &str, mut params: Value) -> Result<Value, RequestError> {
        self.add_meta(&mut params);
        let answer = self.connection.request(method, params).await;
        self.connection.schemas.panic_on_violation();
        answer
    }

    /// Adds the `_meta` that a modern message needs.
    fn add_meta(&self, params: &mut Value) {
        if self.era == Era::Legacy {
            return;
        }
        let meta = [
            ("io.modelcontextprotocol/protocolVersion", json!(MODERN)),
            ("io.modelcontextprotocol/clientInfo", client_info()),
            ("io.modelcontextprotocol/clientCapabilities", self.capabilities.clone()),
        ];
        let mut all: Map<String, Value> = meta.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        all.extend(params["_meta"].as_object().cloned().unwrap_or_default());
        params["_meta"] = Value::Object(all);
    }

    /// Sends a notification; a modern one gets the required `_meta`.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn notify(&self, method: &str, mut params: Value) -> Result<(), RequestError> {
        self.add_meta(&mut params);
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.connection.send(&message).await
    }

    /// Waits for the next notification of this method and returns its params.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn notification(&self, method: &str) -> Result<Value, RequestError> {
        self.connection.notification(method).await
    }

    /// The first page of the list of tools.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn tools(&self) -> Result<Vec<Value>, RequestError> {
        let result = self.request("tools/list", json!({})).await?;
        Ok(result["tools"].as_array().cloned().unwrap_or_default())
    }

    /// Fills in a prompt; its questions are answered.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn get_prompt(&self, name: &str, arguments: Value) -> Result<Value, RequestError> {
        self.send("prompts/get", json!({"name": name, "arguments": arguments}))
            .await
    }

    /// The contents of a resource; its questions are answered.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn read(&self, uri: &str) -> Result<Vec<Value>, RequestError> {
        let result = self.send("resources/read", json!({"uri": uri})).await?;
        Ok(result["contents"].as_array().cloned().unwrap_or_default())
    }
}
