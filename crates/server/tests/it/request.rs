//! Requests of both eras, for tests to change.

use serde_json::{Value, json};

pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// One POST.
#[derive(Clone)]
pub(crate) struct Post {
    headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Post {
    /// A bare message.
    pub(crate) fn of(body: Value) -> Self {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        Self {
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            body,
        }
    }

    /// A modern request that declares the tasks extension, complete in every header.
    pub(crate) fn modern(method: &str, params: Value) -> Self {
        Self::modern_with(method, params, json!({"extensions": {TASKS: {}}}))
    }

    /// A modern request that declares nothing.
    pub(crate) fn modern_plain(method: &str, params: Value) -> Self {
        Self::modern_with(method, params, json!({}))
    }

    pub(crate) fn modern_with(method: &str, mut params: Value, capabilities: Value) -> Self {
        let name = ["name", "uri", "taskId"]
            .iter()
            .find_map(|member| params[*member].as_str().map(str::to_owned));
        params["_meta"][VERSION_KEY] = "2026-07-28".into();
        params["_meta"][CAPABILITIES_KEY] = capabilities;
        let mut post = Self::of(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
            .with("MCP-Protocol-Version", "2026-07-28")
            .with("Mcp-Method", method);
        if let Some(name) = name {
            post = post.with("Mcp-Name", &name);
        }
        post
    }

    /// A legacy request; without a session it is one of the oldest kind.
    pub(crate) fn legacy(session: Option<&str>, method: &str, params: Value) -> Self {
        let post = Self::of(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        match session {
            Some(session) => post
                .with("MCP-Protocol-Version", "2025-11-25")
                .with("Mcp-Session-Id", session),
            None => post,
        }
    }

    pub(crate) fn initialize(version: &str) -> Self {
        Self::initialize_with(version, json!({}))
    }

    pub(crate) fn initialize_with(version: &str, capabilities: Value) -> Self {
        let client = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
        Self::legacy(None, "initialize", params)
    }

    pub(crate) fn ping(session: Option<&str>) -> Self {
        Self::legacy(session, "ping", json!({}))
    }

    /// A call of one of the stage's tools, by a modern client with tasks.
    pub(crate) fn call(tool: &str, acting: &str) -> Self {
        Self::modern("tools/call", act(tool, acting))
    }

    /// The same, by a modern client that declares nothing.
    pub(crate) fn plain_call(tool: &str, acting: &str) -> Self {
        Self::modern_plain("tools/call", act(tool, acting))
    }

    /// The same, by a legacy client.
    pub(crate) fn legacy_call(session: Option<&str>, tool: &str, acting: &str) -> Self {
        Self::legacy(session, "tools/call", act(tool, acting))
    }

    /// The same, by a legacy client that asks for a task.
    pub(crate) fn legacy_task(session: Option<&str>, tool: &str, acting: &str) -> Self {
        Self::legacy(session, "tools/call", act_as_task(tool, acting))
    }

    /// A legacy request about a task.
    pub(crate) fn on_task(session: &str, method: &str, task: &str) -> Self {
        Self::legacy(Some(session), method, json!({"taskId": task}))
    }

    /// A legacy client's response to a request of the server's: its id, and `result` or `error`.
    pub(crate) fn response(session: &str, id: &Value, member: (&str, Value)) -> Self {
        let mut post = Self::legacy(Some(session), "", json!({}));
        post.body = json!({"jsonrpc": "2.0", "id": id, member.0: member.1});
        post
    }

    /// The same request again, with answers and the state of the last round.
    pub(crate) fn retry(&self, round: &Value, answers: Value) -> Self {
        let mut post = self.clone();
        post.body["params"]["inputResponses"] = answers;
        post.body["params"]["requestState"] = round["requestState"].clone();
        post
    }

    pub(crate) fn id(mut self, id: Value) -> Self {
        self.body["id"] = id;
        self
    }

    /// Without an id a request is a notification.
    pub(crate) fn without_id(mut self) -> Self {
        self.body.as_object_mut().unwrap().remove("id");
        self
    }

    pub(crate) fn progress_token(mut self, token: Value) -> Self {
        self.body["params"]["_meta"]["progressToken"] = token;
        self
    }

    /// Under an idempotency key.
    pub(crate) fn keyed(mut self, key: &str) -> Self {
        self.body["params"]["_meta"]["dev.longhaul/idempotency-key"] = json!(key);
        self
    }

    /// By a client that takes no stream.
    pub(crate) fn json_only(self) -> Self {
        self.with("Accept", "application/json")
    }

    /// Adds a header, or replaces it.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.without(name).and(name, value)
    }

    /// Adds a header, also a second one.
    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// What comes before the body, but for the place it is posted to.
    pub(crate) fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = |(name, value): &(String, String)| (name.clone(), value.clone().into_bytes());
        self.headers.iter().map(bytes).collect()
    }

    /// As it stands on the wire.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_with(self.body.to_string().as_bytes())
    }

    /// The same headers with another body.
    pub(crate) fn to_bytes_with(&self, body: &[u8]) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend(body);
        bytes
    }

    /// The head without the length of the body.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = String::from("POST /mcp HTTP/1.1\r\n");
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.into_bytes()
    }
}

/// The same request in both eras, by clients that declare nothing: modern, legacy.
pub(crate) fn both(session: &str, method: &str, params: Value) -> [Post; 2] {
    let modern = Post::modern_plain(method, params.clone());
    [modern, Post::legacy(Some(session), method, params)]
}

/// `tools/list` of a modern client.
pub(crate) fn list() -> Post {
    Post::modern("tools/list", json!({}))
}

/// Capabilities of a client that can be asked everything.
pub(crate) fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
}

/// The same, and tasks.
pub(crate) fn everything_and_tasks() -> Value {
    let mut capabilities = everything();
    capabilities["extensions"] = json!({TASKS: {}});
    capabilities
}

/// The params of a call of one of the stage's tools.
pub(crate) fn act(tool: &str, act: &str) -> Value {
    json!({"name": tool, "arguments": {"act": act}})
}

/// The same, with the `task` member of legacy clients.
pub(crate) fn act_as_task(tool: &str, act: &str) -> Value {
    json!({"name": tool, "arguments": {"act": act}, "task": {"ttl": 60_000}})
}
