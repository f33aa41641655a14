//! A server without sessions, and one that answers with JSON only.

use crate::{
    request::{Post, act, act_as_task, both, everything},
    server::{Options, Server, get, other, text},
};
use serde_json::{Value, json};

async fn stateless() -> Server {
    Server::with(Options::with(|options| options.http.stateful_mode = false)).await
}

async fn json_only() -> Server {
    Server::with(Options::with(|options| options.http.json_response = true)).await
}

/// The status of a request without a body, and the methods that are allowed.
async fn status(server: &Server, method: &str, headers: &str) -> (u16, Option<String>) {
    let mut client = server.connect().await;
    client.send(other(method, headers).as_bytes()).await;
    let head = client.head().await;
    (head.status, head.header("allow").map(str::to_owned))
}

/// What a server declares to clients of the two eras: legacy, modern.
async fn declared(server: &Server) -> [Value; 2] {
    let legacy = server.result(&Post::initialize("2025-11-25")).await;
    let modern = server.result(&Post::modern_plain("server/discover", json!({}))).await;
    [legacy, modern].map(|declared| declared["capabilities"].clone())
}

/// Why a call that asks has failed.
async fn why_not_asked(server: &Server, ask: &Post) -> String {
    let result = server.result(ask).await;
    assert_eq!(result["isError"], true);
    text(&result).to_owned()
}

/// A legacy request of a client that knows its revision and has no session.
fn alone(method: &str, params: Value) -> Post {
    Post::legacy(None, method, params).with("MCP-Protocol-Version", "2025-11-25")
}

#[tokio::test]
async fn a_server_without_sessions_gives_none_and_takes_none() {
    let (server, elsewhere) = (stateless().await, Server::start().await);
    let mut client = server.connect().await;
    let reply = client.exchange(&Post::initialize("2025-11-25")).await;
    assert_eq!(reply.head.header("mcp-session-id"), None);
    // An id that a client sends all the same says nothing.
    let foreign = elsewhere.session().await;
    let call = Post::legacy_call(Some(&foreign), "optional", "say");
    assert_eq!(server.result(&call).await["content"][0]["text"], "done");
    for method in ["GET", "DELETE"] {
        let headers = format!("Accept: text/event-stream\r\nMcp-Session-Id: {foreign}\r\n");
        assert_eq!(status(&server, method, &headers).await, (405, Some("POST".to_owned())));
    }
    let [legacy, modern] = declared(&server).await;
    assert_eq!((&legacy["tools"], legacy.get("logging")), (&json!({}), None));
    assert_eq!(
        legacy["tasks"],
        json!({"cancel": {}, "requests": {"tools": {"call": {}}}})
    );
    assert_eq!(modern["tools"], json!({"listChanged": true}));
}

#[tokio::test]
async fn without_a_session_tasks_work_and_nobody_is_asked() {
    let server = stateless().await;
    let create = alone("tools/call", act_as_task("optional", "wait"));
    let task = server.task(&create).await;
    server.stage.released.count();
    server.poll(&task, "completed").await;
    let result = alone("tasks/result", json!({"taskId": task})).json_only();
    assert_eq!(text(&server.result(&result).await), "done");

    let ask = alone("tools/call", act("optional", "ask_all a")).json_only();
    let why = why_not_asked(&server, &ask).await;
    assert!(why.contains("this server has no sessions"), "{why}");

    // What is not declared is not served.
    for (method, params) in [
        ("tasks/list", json!({})),
        ("resources/subscribe", json!({"uri": "x://y"})),
        ("resources/unsubscribe", json!({"uri": "x://y"})),
        ("logging/setLevel", json!({"level": "debug"})),
    ] {
        let refused = server.exchange(&alone(method, params)).await.json();
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("this server"), "{message}");
    }
}

#[tokio::test]
async fn a_server_of_json_answers_everything_with_one_message() {
    let server = json_only().await;
    let session = server.session_that_can_be_asked().await;
    for call in both(&session, "tools/call", act("optional", "tell error 1 2")) {
        let call = call.progress_token(json!(7));
        let reply = server.exchange(&call).await;
        assert_eq!(reply.head.header("content-type"), Some("application/json"));
        assert_eq!(text(&reply.json()["result"]), "done");
    }
    let headers = format!("Accept: text/event-stream\r\nMcp-Session-Id: {session}\r\n");
    let allowed = Some("POST, DELETE".to_owned());
    assert_eq!(status(&server, "GET", &headers).await, (405, allowed));

    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let refused = server.exchange(&Post::modern("subscriptions/listen", wanted)).await;
    assert_eq!(refused.status(), 406);
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("JSON only"), "{message}");
    let subscribe = Post::legacy(Some(&session), "resources/subscribe", json!({"uri": "x://y"}));
    assert_eq!(server.exchange(&subscribe).await.status(), 406);
    let set_level = Post::legacy(Some(&session), "logging/setLevel", json!({"level": "debug"}));
    assert_eq!(server.error(&set_level).await.1, -32601);

    for declared in declared(&server).await {
        let logging = declared.get("logging");
        assert_eq!((&declared["tools"], logging), (&json!({}), None), "{declared}");
    }
    assert_eq!(status(&server, "DELETE", &headers).await.0, 204);
}

/// A modern client is asked in rounds, which need no stream; a legacy one would have to be sent a request.
#[tokio::test]
async fn a_server_of_json_asks_modern_clients_only() {
    let server = json_only().await;
    let ask = Post::modern_with("tools/call", act("optional", "ask_all a"), everything());
    let asked = server.result(&ask).await;
    assert_eq!(asked["resultType"], "input_required");
    let answered = ask.retry(&asked, json!({"a": {"action": "decline"}}));
    let result = server.result(&answered).await;
    assert!(text(&result).contains("decline"), "{result}");

    let session = server.session_that_can_be_asked().await;
    let call = Post::legacy_call(Some(&session), "optional", "ask_all a");
    let why = why_not_asked(&server, &call).await;
    assert!(why.contains("answers with JSON only"), "{why}");

    let task = server.legacy_task(&session, "wait").await;
    server.stage.released.count();
    server.poll(&task, "completed").await;
    assert_eq!(server.result(&get(&task)).await["status"], "completed");
}
