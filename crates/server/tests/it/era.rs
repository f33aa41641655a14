//! Era by message, and the order in which a request is checked (docs/protocol-coverage.md).

use crate::{
    request::{CAPABILITIES_KEY, Post, VERSION_KEY},
    server::{Options, Server, get, other},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

const VERSION: &str = "MCP-Protocol-Version";

#[tokio::test]
async fn invariant_7_era_is_decided_per_message() {
    let (server, session) = Server::with_session().await;
    let mut client = server.connect().await;
    let legacy = |method: &str, params: Value| Post::legacy(Some(&session), method, params);
    // One connection, one task, both eras, turn by turn.
    let task = server.legacy_task(&session, "wait").await;
    for _ in 0..3 {
        let flat = client.result(&get(&task)).await;
        assert!(flat["resultType"] == "complete" && flat.get("ttlMs").is_some() && flat.get("ttl").is_none());
        let old = client.result(&legacy("tasks/get", json!({"taskId": task}))).await;
        assert!(old.get("ttl").is_some() && old.get("ttlMs").is_none());
        assert_eq!(client.error(&legacy("tasks/update", json!({}))).await, (200, -32601));
        client.result(&legacy("ping", json!({}))).await;
        for removed in ["tasks/list", "ping"] {
            assert_eq!(client.error(&Post::modern(removed, json!({}))).await, (404, -32601));
        }
        client.result(&Post::modern_plain("server/discover", json!({}))).await;
        assert_eq!(client.error(&legacy("server/discover", json!({}))).await, (200, -32601));
    }
    // A modern message has no session, so not even a dead one matters.
    let carried = get(&task).with("Mcp-Session-Id", "dead").with("Last-Event-ID", "7");
    let reply = client.exchange(&carried).await;
    assert_eq!((reply.status(), reply.head.header("mcp-session-id")), (200, None));
    // Declared once is not declared for good.
    let undeclared = Post::modern_plain("tasks/get", json!({"taskId": task}));
    assert_eq!(client.error(&undeclared).await, (400, -32021));

    server.stage.released.count();
    server.poll(&task, "completed").await;
    let old = client.result(&legacy("tasks/get", json!({"taskId": task}))).await;
    // A legacy Task holds no result.
    assert!(old["status"] == "completed" && old.get("result").is_none());
}

/// Drops a member of `_meta`.
fn without_meta(mut post: Post, key: &str) -> Post {
    post.body["params"]["_meta"].as_object_mut().unwrap().remove(key);
    post
}

fn with_meta(mut post: Post, key: &str, value: Value) -> Post {
    post.body["params"]["_meta"][key] = value;
    post
}

/// Each request has the flaw of its row and, where it can, every flaw of the rows below: the first one is what counts.
#[tokio::test]
async fn requests_are_checked_in_the_order_of_the_protocol() {
    const HEADER: (u16, i64) = (400, -32020);
    const CAPABILITY: (u16, i64) = (400, -32021);
    const UNKNOWN: (u16, i64) = (400, -32022);
    const METHOD: (u16, i64) = (404, -32601);
    let server = Server::start().await;
    let id = || json!({"taskId": "x"});
    let unknown_task = || Post::modern_plain("tasks/get", id());
    let misnamed = || unknown_task().with("Mcp-Name", "y");
    let bad_method = || misnamed().with("Mcp-Method", "tools/call");
    let of_body = |version: &str| with_meta(bad_method(), VERSION_KEY, json!(version));
    let modern = |method: &str| Post::modern(method, json!({}));
    let mut missing_params = modern("tools/list");
    missing_params.body["params"] = json!({});
    let no_version = without_meta(bad_method().without("Mcp-Name"), VERSION_KEY);
    let no_capabilities = without_meta(bad_method().with(VERSION, "2025-11-25"), CAPABILITIES_KEY);
    let bad_capabilities = with_meta(bad_method(), CAPABILITIES_KEY, json!(true));
    let legacy_version = of_body("2025-11-25").with(VERSION, "2025-11-25");
    let nameless = Post::plain_call("always", "say").without("Mcp-Name");
    let broken_name = unknown_task().with("Mcp-Name", "=?base64?!?=");
    let legacy_capability = Post::modern_with("tasks/get", id(), json!({"tasks": {}}));

    let table: Vec<(&str, Post, (u16, i64))> = vec![
        ("no _meta under a modern header", missing_params, (400, -32602)),
        ("no version in _meta", no_version, (400, -32602)),
        ("no capabilities", no_capabilities, (400, -32602)),
        ("capabilities are no object", bad_capabilities, (400, -32602)),
        ("header and body name different versions", of_body("v999.0.0"), HEADER),
        ("no version header", bad_method().without(VERSION), HEADER),
        ("two version headers", bad_method().and(VERSION, "2026-07-28"), HEADER),
        ("unknown version", of_body("v999").with(VERSION, "v999"), UNKNOWN),
        ("a legacy version in a modern shape", legacy_version, UNKNOWN),
        ("another method in the header", bad_method(), HEADER),
        ("no method header", misnamed().without("Mcp-Method"), HEADER),
        ("other case", misnamed().with("Mcp-Method", "Tasks/Get"), HEADER),
        ("no such method", modern("unknown/method"), METHOD),
        ("a removed method, without its name", modern("tasks/result"), METHOD),
        ("initialize", modern("initialize"), METHOD),
        ("another name in the header", misnamed(), HEADER),
        ("no name for a tool", nameless, HEADER),
        ("a name that is broken base64", broken_name, HEADER),
        ("the extension is not declared", unknown_task(), CAPABILITY),
        ("only the legacy capability", legacy_capability, CAPABILITY),
        ("params lack a member", modern("tasks/get"), (200, -32602)),
        ("no such task", Post::modern("tasks/get", id()), (200, -32602)),
    ];
    let mut client = server.connect().await;
    for (flaw, post, expected) in table {
        let post = post.id(json!(format!("for {flaw}")));
        assert_eq!(client.error(&post).await, expected, "{flaw}");
    }
}

#[tokio::test]
async fn header_values_may_be_padded_wrapped_and_named_in_any_case() {
    let server = Server::start().await;
    let task = server.task(&Post::call("optional", "say")).await;
    let wrapped = STANDARD.encode(&task);
    for post in [
        get(&task).with("Mcp-Name", &format!("  {task} \t")),
        get(&task).without("mcp-name").with("mCp-NaMe", &task),
        get(&task).with("Mcp-Name", &format!("=?base64?{wrapped}?=")),
        get(&task).without("Mcp-Name"),
    ] {
        server.result(&post).await;
    }
}

#[tokio::test]
async fn strict_headers_want_the_name_of_every_task() {
    let server = Server::with(Options::with(|options| options.strict_headers = true)).await;
    let task = server.task(&Post::call("optional", "say")).await;
    server.result(&get(&task)).await;
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let post = Post::modern(method, json!({"taskId": task, "inputResponses": {}}));
        assert_eq!(server.error(&post.clone().without("Mcp-Name")).await, (400, -32020));
        assert_eq!(server.error(&post.with("Mcp-Name", "other")).await, (400, -32020));
    }
}

#[tokio::test]
async fn legacy_requests_are_checked_by_header_and_session() {
    let (server, session) = Server::with_session().await;
    let ping = || Post::ping(Some(&session));
    let unknown = Post::legacy(Some(&session), "x", json!({}));
    for (flaw, post, expected) in [
        ("unknown version", ping().with(VERSION, "x"), (400, -32022)),
        ("no such session", ping().with("Mcp-Session-Id", "x"), (404, -32600)),
        ("a modern header", ping().with(VERSION, "2026-07-28"), (400, -32602)),
        ("no such method", unknown, (200, -32601)),
    ] {
        assert_eq!(server.error(&post).await, expected, "{flaw}");
    }
    // Clients of 2025-03-26 know the session and not the header.
    server.result(&ping().without(VERSION)).await;
    // Others know the header and not the session.
    server.result(&ping().without("Mcp-Session-Id")).await;
}

#[tokio::test]
async fn other_verbs_are_not_allowed() {
    let (server, session) = Server::with_session().await;
    let mut client = server.connect().await;
    let modern = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2026-07-28\r\n");
    let accept = "Accept: text/event-stream\r\n";
    for (method, headers) in [
        ("GET", accept),
        ("GET", &format!("{accept}{modern}")),
        ("DELETE", ""),
        ("DELETE", &modern),
        ("PUT", ""),
    ] {
        client.send(other(method, headers).as_bytes()).await;
        let head = client.reply().await.head;
        let allow = head.header("allow");
        assert_eq!(
            (head.status, allow),
            (405, Some("POST, GET, DELETE")),
            "{method} {headers}"
        );
    }
    server.result(&Post::ping(Some(&session))).await;
}
