//! Era by message, and the order in which a request is checked (docs/protocol-coverage.md).

use crate::{
    request::{CAPABILITIES_KEY, Post, VERSION_KEY, act, act_as_task},
    server::{Options, Server, get, other, task_of},
};
use serde_json::{Value, json};

#[tokio::test]
async fn invariant_7_era_is_decided_per_message() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut client = server.connect().await;
    let legacy = |method: &str, params: Value| Post::legacy(Some(&session), method, params);
    // One connection, one task, both eras, turn by turn.
    let task = task_of(
        &client
            .result(&legacy("tools/call", act_as_task("optional", "wait")))
            .await,
    );
    for _ in 0..3 {
        let flat = client.result(&get(&task)).await;
        assert!(flat["resultType"] == "complete" && flat.get("ttlMs").is_some() && flat.get("ttl").is_none());
        let old = client.result(&legacy("tasks/get", json!({"taskId": task}))).await;
        assert!(old.get("ttl").is_some() && old.get("ttlMs").is_none());
        assert_eq!(client.error(&legacy("tasks/update", json!({}))).await, (200, -32601));
        assert_eq!(
            client.error(&Post::modern("tasks/list", json!({}))).await,
            (404, -32601)
        );
        client.result(&legacy("ping", json!({}))).await;
        assert_eq!(client.error(&Post::modern("ping", json!({}))).await, (404, -32601));
        client.result(&Post::modern_plain("server/discover", json!({}))).await;
        assert_eq!(client.error(&legacy("server/discover", json!({}))).await, (200, -32601));
    }
    // A modern message has no session, so not even a dead one matters.
    let carried = get(&task).with("Mcp-Session-Id", "dead").with("Last-Event-ID", "7");
    let reply = client.exchange(&carried).await;
    assert_eq!((reply.status(), reply.head.header("mcp-session-id")), (200, None));
    // Declared once is not declared for good.
    assert_eq!(
        client
            .error(&Post::modern_plain("tasks/get", json!({"taskId": task})))
            .await,
        (400, -32021)
    );

    server.stage.released.count();
    server.poll(&task, "completed").await;
    let old = client.result(&legacy("tasks/get", json!({"taskId": task}))).await;
    assert!(
        old["status"] == "completed" && old.get("result").is_none(),
        "a legacy Task holds no result"
    );
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
    let server = Server::start().await;
    let unknown_task = || Post::modern_plain("tasks/get", json!({"taskId": "x"}));
    let misnamed = || unknown_task().with("Mcp-Name", "y");
    let bad_method = || misnamed().with("Mcp-Method", "tools/call");
    let mut missing_params = Post::modern("tools/list", json!({}));
    missing_params.body["params"] = json!({});

    let table: Vec<(&str, Post, (u16, i64))> = vec![
        ("no _meta under a modern header", missing_params, (400, -32602)),
        (
            "no version in _meta",
            without_meta(bad_method().without("Mcp-Name"), VERSION_KEY),
            (400, -32602),
        ),
        (
            "no capabilities",
            without_meta(
                bad_method().with("MCP-Protocol-Version", "2025-11-25"),
                CAPABILITIES_KEY,
            ),
            (400, -32602),
        ),
        (
            "capabilities are no object",
            with_meta(bad_method(), CAPABILITIES_KEY, json!(true)),
            (400, -32602),
        ),
        (
            "header and body name different versions",
            with_meta(bad_method(), VERSION_KEY, json!("v999.0.0")),
            (400, -32020),
        ),
        (
            "no version header",
            bad_method().without("MCP-Protocol-Version"),
            (400, -32020),
        ),
        (
            "two version headers",
            bad_method().and("MCP-Protocol-Version", "2026-07-28"),
            (400, -32020),
        ),
        (
            "unknown version",
            with_meta(bad_method(), VERSION_KEY, json!("v999.0.0")).with("MCP-Protocol-Version", "v999.0.0"),
            (400, -32022),
        ),
        (
            "a legacy version in a modern shape",
            with_meta(bad_method(), VERSION_KEY, json!("2025-11-25")).with("MCP-Protocol-Version", "2025-11-25"),
            (400, -32022),
        ),
        ("another method in the header", bad_method(), (400, -32020)),
        ("no method header", misnamed().without("Mcp-Method"), (400, -32020)),
        (
            "the method in another case",
            misnamed().with("Mcp-Method", "Tasks/Get"),
            (400, -32020),
        ),
        (
            "no such method",
            Post::modern("unknown/method", json!({})),
            (404, -32601),
        ),
        (
            "a removed method, without its name",
            Post::modern("tasks/result", json!({})),
            (404, -32601),
        ),
        ("initialize", Post::modern("initialize", json!({})), (404, -32601)),
        ("another name in the header", misnamed(), (400, -32020)),
        (
            "no name for a tool",
            Post::modern_plain("tools/call", act("always", "say")).without("Mcp-Name"),
            (400, -32020),
        ),
        (
            "a name that is broken base64",
            unknown_task().with("Mcp-Name", "=?base64?!?="),
            (400, -32020),
        ),
        ("the extension is not declared", unknown_task(), (400, -32021)),
        (
            "only the legacy capability is declared",
            Post::modern_with("tasks/get", json!({"taskId": "x"}), json!({"tasks": {}})),
            (400, -32021),
        ),
        (
            "params lack what the method needs",
            Post::modern("tasks/get", json!({})),
            (200, -32602),
        ),
        (
            "no such task",
            Post::modern("tasks/get", json!({"taskId": "x"})),
            (200, -32602),
        ),
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
    let task = task_of(&server.result(&Post::modern("tools/call", act("optional", "say"))).await);
    let wrapped = base64(&task);
    for post in [
        get(&task).with("Mcp-Name", &format!("  {task} \t")),
        get(&task).without("mcp-name").with("mCp-NaMe", &task),
        get(&task).with("Mcp-Name", &format!("=?base64?{wrapped}?=")),
        get(&task).without("Mcp-Name"),
    ] {
        server.result(&post).await;
    }
}

fn base64(text: &str) -> String {
    use ::base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

#[tokio::test]
async fn strict_headers_want_the_name_of_every_task() {
    let server = Server::with(Options {
        strict_headers: true,
        ..Options::default()
    })
    .await;
    let task = task_of(&server.result(&Post::modern("tools/call", act("optional", "say"))).await);
    server.result(&get(&task)).await;
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let post = Post::modern(method, json!({"taskId": task, "inputResponses": {}}));
        assert_eq!(server.error(&post.clone().without("Mcp-Name")).await, (400, -32020));
        assert_eq!(server.error(&post.with("Mcp-Name", "other")).await, (400, -32020));
    }
}

#[tokio::test]
async fn legacy_requests_are_checked_by_header_and_session() {
    let server = Server::start().await;
    let session = server.session().await;
    let ping = || Post::legacy(Some(&session), "ping", json!({}));
    for (flaw, post, expected) in [
        (
            "unknown version",
            ping().with("MCP-Protocol-Version", "x"),
            (400, -32022),
        ),
        ("no such session", ping().with("Mcp-Session-Id", "x"), (404, -32600)),
        (
            "a modern header",
            ping().with("MCP-Protocol-Version", "2026-07-28"),
            (400, -32602),
        ),
        (
            "no such method",
            Post::legacy(Some(&session), "x", json!({})),
            (200, -32601),
        ),
    ] {
        assert_eq!(server.error(&post).await, expected, "{flaw}");
    }
    // Clients of 2025-03-26 know the session and not the header.
    server.result(&ping().without("MCP-Protocol-Version")).await;
    // Others know the header and not the session.
    server.result(&ping().without("Mcp-Session-Id")).await;
}

#[tokio::test]
async fn other_verbs_are_not_allowed() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut client = server.connect().await;
    for (method, headers) in [
        ("GET", "Accept: text/event-stream\r\n".to_owned()),
        (
            "GET",
            format!("Mcp-Session-Id: {session}\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"),
        ),
        ("DELETE", String::new()),
        (
            "DELETE",
            format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2026-07-28\r\n"),
        ),
        ("PUT", String::new()),
    ] {
        client.send(other(method, &headers).as_bytes()).await;
        let reply = client.reply().await;
        assert_eq!(
            (reply.status(), reply.head.header("allow")),
            (405, Some("POST, GET, DELETE")),
            "{method} {headers}"
        );
    }
    server.result(&Post::legacy(Some(&session), "ping", json!({}))).await;
}
