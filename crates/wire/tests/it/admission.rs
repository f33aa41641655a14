//! The order in which a request's flaws are looked for (docs/protocol-coverage.md), and the rules of `Mcp-Name`.

use crate::fixture::request;
use longhaul_wire::{AdmissionRules, Headers, MessageTransport, Method, SessionState, Version, admit};
use serde_json::{Value, json};

struct Probe {
    method: &'static str,
    params: Value,
    tasks: bool,
    name: Option<&'static [u8]>,
    strict: bool,
}

impl Probe {
    fn of(method: &'static str, params: Value) -> Self {
        Self {
            method,
            params,
            tasks: true,
            name: None,
            strict: false,
        }
    }

    fn code(mut self) -> Result<Method, (i64, u16)> {
        let extensions = if self.tasks {
            json!({"io.modelcontextprotocol/tasks": {}})
        } else {
            json!({})
        };
        self.params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": self.method, "params": self.params}).to_string();
        let headers = Headers {
            protocol_version: Some(b"2026-07-28"),
            method: Some(self.method.as_bytes()),
            name: self.name,
            session_id: None,
            params: Vec::new(),
        };
        let transport = MessageTransport::Http {
            headers,
            session: SessionState::None,
            sessionless: false,
        };
        let rules = AdmissionRules {
            strict_headers: self.strict,
            serves: |method| method != Method::PromptsList,
        };
        let admitted = admit(&request(&body), &transport, &rules).map(|admitted| admitted.method);
        admitted.map_err(|error| (error.code(), error.status()))
    }
}

#[test]
fn removed_and_unserved_methods_are_not_found_before_their_headers_are_checked() {
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "unknown/method",
        "",
        "prompts/list",
    ] {
        assert_eq!(Probe::of(method, json!({})).code(), Err((-32601, 404)), "{method}");
    }
}

#[test]
fn the_name_header_is_required_and_must_match_the_body() {
    let get = || Probe::of("tasks/get", json!({"taskId": "t-1"}));
    assert_eq!(get().code(), Ok(Method::TasksGet), "absent is tolerated for tasks");
    assert_eq!(Probe { strict: true, ..get() }.code(), Err((-32020, 400)));
    assert_eq!(
        Probe {
            name: Some(b"t-1"),
            strict: true,
            ..get()
        }
        .code(),
        Ok(Method::TasksGet)
    );
    assert_eq!(
        Probe {
            name: Some(b"t-2"),
            ..get()
        }
        .code(),
        Err((-32020, 400))
    );
    assert_eq!(
        Probe {
            name: Some(b"T-1"),
            ..get()
        }
        .code(),
        Err((-32020, 400)),
        "values keep their case"
    );

    let call = |name: Option<&'static [u8]>| {
        Probe {
            name,
            ..Probe::of("tools/call", json!({"name": "größe"}))
        }
        .code()
    };
    assert_eq!(call(None), Err((-32020, 400)), "only tasks are let off");
    assert_eq!(call(Some("größe".as_bytes())), Err((-32020, 400)), "not as bare UTF-8");
    assert_eq!(call(Some(b"=?base64?Z3LDtsOfZQ==?=")), Ok(Method::ToolsCall));
    assert_eq!(call(Some(b"=?base64?!?=")), Err((-32020, 400)));
    let read = |name: Option<&'static [u8]>| {
        Probe {
            name,
            ..Probe::of("resources/read", json!({"uri": "a:b"}))
        }
        .code()
    };
    assert_eq!(
        (read(None), read(Some(b"a:b"))),
        (Err((-32020, 400)), Ok(Method::ResourcesRead))
    );
    // Nothing to compare with: the params are checked later.
    assert_eq!(
        Probe {
            name: Some(b"x"),
            ..Probe::of("tasks/get", json!({}))
        }
        .code(),
        Ok(Method::TasksGet)
    );
    assert_eq!(Probe::of("tools/list", json!({})).code(), Ok(Method::ToolsList));
}

#[test]
fn capabilities_are_checked_after_the_name_and_before_the_params() {
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let bare = |params| Probe {
            tasks: false,
            ..Probe::of(method, params)
        };
        assert_eq!(bare(json!({"taskId": 5})).code(), Err((-32021, 400)), "{method}");
        assert_eq!(
            Probe {
                name: Some(b"x"),
                ..bare(json!({"taskId": "y"}))
            }
            .code(),
            Err((-32020, 400)),
            "{method}"
        );
    }
    assert!(
        Probe {
            tasks: false,
            name: Some(b"t"),
            ..Probe::of("tools/call", json!({"name": "t"}))
        }
        .code()
        .is_ok()
    );
}

/// The legacy declaration opens two methods and nothing else; the server looks at whose task it is.
#[test]
fn a_legacy_tasks_capability_lets_a_modern_request_read_and_cancel_tasks() {
    let code = |method: &'static str, capabilities: Value| {
        let params = json!({"taskId": "t", "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": capabilities}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let transport = MessageTransport::Stdio { initialized: None };
        let rules = AdmissionRules {
            strict_headers: true,
            serves: |_| true,
        };
        admit(&request(&body), &transport, &rules)
            .map(drop)
            .map_err(|error| error.code())
    };
    let legacy = || json!({"tasks": {"cancel": {}}});
    assert_eq!(code("tasks/get", legacy()), Ok(()));
    assert_eq!(code("tasks/cancel", legacy()), Ok(()));
    assert_eq!(code("tasks/update", legacy()), Err(-32021));
    assert_eq!(code("tasks/get", json!({"tasks": true})), Err(-32021), "no object");
    assert_eq!(code("tasks/list", legacy()), Err(-32601));
}

#[test]
fn legacy_tasks_exist_only_in_the_negotiated_revision() {
    let code = |method: &str, version| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": "t"}}).to_string();
        let transport = MessageTransport::Http {
            headers: Headers::default(),
            session: SessionState::Live(version),
            sessionless: false,
        };
        let request = request(&body);
        let admitted = admit(
            &request,
            &transport,
            &AdmissionRules {
                strict_headers: true,
                serves: |_| true,
            },
        );
        admitted
            .map(|admitted| admitted.method)
            .map_err(|error| (error.code(), error.status()))
    };
    assert_eq!(code("tasks/result", Version::V2025_11_25), Ok(Method::TasksResult));
    assert_eq!(code("tasks/result", Version::V2025_06_18), Err((-32601, 200)));
    assert_eq!(code("tasks/update", Version::V2025_11_25), Err((-32601, 200)));
    assert_eq!(code("server/discover", Version::V2025_11_25), Err((-32601, 200)));
}
