//! The era of a server, and what it adds to each request.

use crate::{
    Options, ServerDescription,
    offer::server_description::TASKS_EXTENSION,
    options::params_text::{members_of, object_of, params_text},
    transport::{PROTOCOL_VERSION, SESSION_ID},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_core::{Json, JsonMembers, ParsedJson};
use longhaul_wire::{
    Generation, Method, NameSource, Version,
    header::encode_value,
    json::{push_int, push_string},
    meta,
};
use serde_json::{Map, Value};

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
    /// The session id, sent with every later message.
    pub(crate) session: Option<HeaderValue>,
    /// Whether `tools/call` may carry `task`.
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
    pub(crate) fn add_meta(&self, meta: &mut JsonMembers, options: &Options, takes_task: bool) {
        match self {
            Self::Modern(_) => add_modern_meta(meta, options, takes_task),
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
            server: ServerDescription::read(version, &ParsedJson::default()),
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

/// Adds the `_meta` of a modern request. It declares the tasks extension, unless its answer must not be a task.
pub(crate) fn add_modern_meta(members: &mut JsonMembers, options: &Options, takes_task: bool) {
    let mut capabilities = options.declared();
    let mut extensions = capabilities.get("extensions").map(members_of).unwrap_or_default();
    if takes_task {
        extensions.insert(TASKS_EXTENSION.to_owned(), Json::trusted("{}"));
    }
    capabilities.insert("extensions".to_owned(), object_of(&extensions));
    let mut add = |name: &str, value: Json| drop(members.insert(name.to_owned(), value));
    add(
        meta::PROTOCOL_VERSION,
        Value::from(Version::V2026_07_28.as_str()).into(),
    );
    add(meta::CLIENT_INFO, options.client.as_json().clone());
    add(meta::CLIENT_CAPABILITIES, object_of(&capabilities));
    if let Some(logging) = &options.logging {
        add(meta::LOG_LEVEL, Value::from(logging.level().as_str()).into());
    }
}

/// The headers that repeat parts of a modern request.
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

/// Builds a JSON-RPC message: a notification if `id` is `None`.
pub(crate) fn build_message(method: &str, id: Option<u64>, params: Map<String, Value>) -> String {
    let none = JsonMembers::new();
    build_written(method, id, params, &none, &none)
}

/// The same, with members of the params and of `_meta` as someone else has written them.
pub(crate) fn build_written(
    method: &str,
    id: Option<u64>,
    params: Map<String, Value>,
    written: &JsonMembers,
    meta: &JsonMembers,
) -> String {
    let mut message = String::from(r#"{"jsonrpc":"2.0""#);
    if let Some(id) = id {
        message.push_str(",\"id\":");
        push_int(&mut message, id);
    }
    message.push_str(",\"method\":");
    push_string(&mut message, method);
    if !(params.is_empty() && written.is_empty() && meta.is_empty()) {
        message.push_str(",\"params\":");
        message.push_str(&params_text(params, written, meta));
    }
    message.push('}');
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn what_others_have_written_is_sent_byte_for_byte() {
        let arguments = Json::parse(r#"{"n": 12345678901234567890.10, "n":1E2 }"#).unwrap();
        let params = Map::from_iter([
            ("name".to_owned(), "t".into()),
            ("arguments".to_owned(), json!({"n": 1})),
            ("_meta".to_owned(), json!({"own": 1})),
        ]);
        let written = JsonMembers::from([("arguments".to_owned(), arguments.clone())]);
        let meta = ["own", "other"].map(|name| (name.to_owned(), Json::trusted("1E400")));
        let sent = build_written("tools/call", Some(7), params, &written, &meta.into());
        assert!(
            sent.contains(&format!(r#""arguments":{}"#, arguments.as_str())),
            "{sent}"
        );
        assert!(sent.ends_with(r#""_meta":{"other":1E400,"own":1}}}"#), "{sent}");
        let parsed: BTreeMap<String, Json> = serde_json::from_str(&sent).unwrap();
        assert_eq!(parsed["id"].as_str(), "7");
    }
}
