//! How a server of either era wants to be spoken to.

use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_wire::{Method, NameSource, Version, header::encode_value, meta};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// What is known of a server after the probe. A server can change it by being replaced; then it is probed again (L-17).
#[derive(Debug)]
pub(crate) enum Era {
    /// Every request stands alone.
    Modern,
    /// A handshake was made.
    Legacy(Legacy),
}

/// What the handshake settled.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(crate) version: Version,
    /// To be echoed from then on (T-12).
    pub(crate) session: Option<HeaderValue>,
    /// Whether `tools/call` may carry `task` (G1-06).
    pub(crate) tool_tasks: bool,
}

/// How this client calls itself.
#[derive(Debug, Clone)]
pub(crate) struct ClientInfo {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Key of the tasks extension, in `extensions` of either side's capabilities.
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

impl ClientInfo {
    pub(crate) fn to_json(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }
}

impl Era {
    pub(crate) fn legacy(&self) -> Option<&Legacy> {
        match self {
            Self::Modern => None,
            Self::Legacy(legacy) => Some(legacy),
        }
    }

    /// Adds to `params` what the era wants in every request.
    pub(crate) fn complete(&self, params: &mut Map<String, Value>, client: &ClientInfo) {
        match self {
            Self::Modern => complete_modern(params, client),
            Self::Legacy(_) => {}
        }
    }

    /// The headers of a message.
    pub(crate) fn headers(&self, method: Method, params: &Map<String, Value>) -> HeaderMap {
        match self {
            Self::Modern => modern_headers(method, params),
            Self::Legacy(legacy) => legacy.headers(),
        }
    }
}

impl Legacy {
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        insert(&mut headers, "mcp-protocol-version", self.version.as_str());
        if let Some(session) = &self.session {
            headers.insert(HeaderName::from_static(crate::http::SESSION_ID), session.clone());
        }
        headers
    }
}

/// The `_meta` of every modern request (L-05), with the tasks extension declared (G2-04).
pub(crate) fn complete_modern(params: &mut Map<String, Value>, client: &ClientInfo) {
    let own = json!({
        meta::PROTOCOL_VERSION: Version::V2026_07_28.as_str(),
        meta::CLIENT_INFO: client.to_json(),
        meta::CLIENT_CAPABILITIES: {"extensions": {TASKS_EXTENSION: {}}},
    });
    match (params.get_mut("_meta").and_then(Value::as_object_mut), own) {
        (Some(meta), Value::Object(own)) => meta.extend(own),
        (_, own) => drop(params.insert("_meta".to_owned(), own)),
    }
}

/// T-23 and T-24.
pub(crate) fn modern_headers(method: Method, params: &Map<String, Value>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    insert(&mut headers, "mcp-protocol-version", Version::V2026_07_28.as_str());
    insert(&mut headers, "mcp-method", method.as_str());
    let mirrored = match method.name_source() {
        Some(NameSource::Name) => params.get("name"),
        Some(NameSource::Uri) => params.get("uri"),
        Some(NameSource::TaskId) => params.get("taskId"),
        None => None,
    };
    if let Some(name) = mirrored.and_then(Value::as_str) {
        insert(&mut headers, "mcp-name", &encode_value(name));
    }
    headers
}

/// Sets a header whose value is plain ASCII by construction.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// A JSON-RPC message. `id` is absent in a notification.
pub(crate) fn message(method: Method, id: Option<u64>, params: Map<String, Value>) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method.as_str()});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    if !params.is_empty() {
        message["params"] = params.into();
    }
    message.to_string()
}

/// Shortens what a server says to what fits a message.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}
