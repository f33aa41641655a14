//! The era of a server, and what it adds to each request.

use crate::{
    Options, ServerDescription,
    server_description::TASKS_EXTENSION,
    transport::{PROTOCOL_VERSION, SESSION_ID},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_core::Json;
use longhaul_wire::{Generation, Method, NameSource, Version, header::encode_value, meta};
use serde_json::{Map, Value, json};

/// The era of a server, as the probe detected it.
#[derive(Debug)]
pub(crate) enum Era {
    /// Every request is self-contained.
    Modern(ServerDescription),
    /// A handshake has been made.
    Legacy(LegacySession),
}

/// The result of the handshake.
#[derive(Debug)]
pub(crate) struct LegacySession {
    pub(crate) version: Version,
    /// The session id, sent with every later message (T-12).
    pub(crate) session: Option<HeaderValue>,
    /// Whether `tools/call` may carry `task` (G1-06).
    pub(crate) tool_tasks: bool,
    /// Whether another process has opened it, with capabilities of its own.
    pub(crate) is_resumed: bool,
    pub(crate) server: ServerDescription,
}

impl Era {
    pub(crate) fn legacy(&self) -> Option<&LegacySession> {
        match self {
            Self::Modern(_) => None,
            Self::Legacy(legacy) => Some(legacy),
        }
    }

    pub(crate) fn server(&self) -> &ServerDescription {
        match self {
            Self::Modern(server) => server,
            Self::Legacy(legacy) => &legacy.server,
        }
    }

    /// Adds the `_meta` that the era requires in every request.
    pub(crate) fn add_meta(&self, params: &mut Map<String, Value>, options: &Options) {
        match self {
            Self::Modern(_) => add_modern_meta(params, options),
            Self::Legacy(_) => {}
        }
    }

    /// The headers of a message.
    pub(crate) fn headers(&self, method: &str, params: &Map<String, Value>) -> HeaderMap {
        match self {
            Self::Modern(_) => modern_headers(method, params),
            Self::Legacy(legacy) => legacy.headers(),
        }
    }
}

impl LegacySession {
    /// A session that another process has opened, with a server that has tasks.
    pub(crate) fn resumed(version: Version, session: HeaderValue) -> Self {
        Self {
            version,
            session: Some(session),
            tool_tasks: true,
            is_resumed: true,
            server: ServerDescription::read(version, &Value::Null),
        }
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        insert(&mut headers, PROTOCOL_VERSION, self.version.as_str());
        if let Some(session) = &self.session {
            headers.insert(HeaderName::from_static(SESSION_ID), session.clone());
        }
        headers
    }
}

/// Adds the `_meta` of a modern request (L-05), which declares the tasks extension (G2-04).
pub(crate) fn add_modern_meta(params: &mut Map<String, Value>, options: &Options) {
    let mut capabilities = options.declared();
    let extensions = capabilities.entry("extensions").or_insert_with(|| json!({}));
    extensions[TASKS_EXTENSION] = json!({});
    let mut own = json!({
        meta::PROTOCOL_VERSION: Version::V2026_07_28.as_str(),
        meta::CLIENT_INFO: options.client.to_json(),
        meta::CLIENT_CAPABILITIES: capabilities,
    });
    if let Some(logging) = &options.logging {
        own[meta::LOG_LEVEL] = logging.level().as_str().into();
    }
    match (params.get_mut("_meta").and_then(Value::as_object_mut), own) {
        (Some(meta), Value::Object(own)) => meta.extend(own),
        (_, own) => drop(params.insert("_meta".to_owned(), own)),
    }
}

/// Takes the declaration of the tasks extension out of a modern request (G2-03). A legacy one has none.
pub(crate) fn withdraw_tasks(params: &mut Map<String, Value>) {
    let meta = params.get_mut("_meta").and_then(Value::as_object_mut);
    let declared = meta.and_then(|meta| meta.get_mut(meta::CLIENT_CAPABILITIES)?.as_object_mut());
    if let Some(extensions) = declared.and_then(|declared| declared.get_mut("extensions")?.as_object_mut()) {
        extensions.remove(TASKS_EXTENSION);
    }
}

/// The headers that repeat parts of a modern request (T-23, T-24).
pub(crate) fn modern_headers(method: &str, params: &Map<String, Value>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    insert(&mut headers, PROTOCOL_VERSION, Version::V2026_07_28.as_str());
    insert(&mut headers, "mcp-method", method);
    let source = Method::parse(method, Generation::Modern).and_then(Method::name_source);
    let name = match source {
        Some(NameSource::Name) => params.get("name"),
        Some(NameSource::Uri) => params.get("uri"),
        Some(NameSource::TaskId) => params.get("taskId"),
        None => None,
    };
    if let Some(name) = name.and_then(Value::as_str) {
        insert(&mut headers, "mcp-name", &encode_value(name));
    }
    headers
}

/// Sets a header. The values are plain ASCII, so none is lost.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Builds a request with the text of its `arguments` as it is.
pub(crate) fn build_call_message(method: &str, id: u64, mut params: Map<String, Value>, arguments: &Json) -> String {
    params.remove("arguments");
    let params = Value::from(params).to_string();
    // There is always a member before it: the tool's name.
    let params = params.strip_suffix('}').unwrap_or_default();
    let (method, arguments) = (Value::from(method), arguments.as_str());
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params},"arguments":{arguments}}}}}"#)
}

/// Builds a JSON-RPC message: a notification if `id` is `None`.
pub(crate) fn build_message(method: &str, id: Option<u64>, params: Map<String, Value>) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    if !params.is_empty() {
        message["params"] = params.into();
    }
    message.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_arguments_is_sent_byte_for_byte() {
        let arguments = Json::parse(r#"{"n": 12345678901234567890.10, "n":1E2 }"#).unwrap();
        let params = Map::from_iter([
            ("name".to_owned(), "t".into()),
            ("arguments".to_owned(), json!({"n": 1})),
        ]);
        let sent = build_call_message("tools/call", 7, params, &arguments);
        assert!(
            sent.contains(&format!(r#""arguments":{}"#, arguments.as_str())),
            "{sent}"
        );
        let parsed: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!((&parsed["id"], &parsed["params"]["name"]), (&json!(7), &json!("t")));
    }
}
