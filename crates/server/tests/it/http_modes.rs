//! A server without sessions, and one that answers with JSON only.

use crate::{
    request::{Post, act, act_as_task, everything},
    server::{Options, Server, get, other, task_of},
};
use longhaul_server::http::HttpOptions;
use serde_json::{Value, json};

async fn serving(http: HttpOptions) -> Server {
    Server::with(Options {
        http,
        ..Options::default()
    })
    .await
}

async fn stateless() -> Server {
    serving(HttpOptions {
        stateful_mode: false,
        ..HttpOptions::default()
    })
    .await
}

async fn json_only() -> Server {
    serving(HttpOptions {
        json_response: true,
        ..HttpOptions::default()
    })
    .await
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
    let discover = Post::modern_plain("server/discover", json!({}));
    let both = [Post::initialize("2025-11-25"), discover];
    let [legacy, modern] = both.each_ref().map(|post| server.result(post));
    [
        legacy.await["capabilities"].clone(),
        modern.await["capabilities"].clone(),
    ]
}

/// Why a call that asks has failed.
async fn why_not_asked(server: &Server, ask: &Post) -> String {
    let result = server.result(ask).await;
    assert_eq!(result["isError"], true);
    result["content"][0]["text"].as_str().unwrap().to_owned()
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
    let call = Post::legacy(Some(&foreign), "tools/call", act("optional", "say"));
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
    let created = server
        .result(&alone("tools/call", act_as_task("optional", "wait")))
        .await;
    let task = task_of(&created);
    server.stage.released.count();
    server.poll(&task, "completed").await;
    let result = server
        .result(&alone("tasks/result", json!({"taskId": task})).with("Accept", "application/json"))
        .await;
    assert_eq!(result["content"][0]["text"], "done");

    let ask = alone("tools/call", act("optional", "ask_all a")).with("Accept", "application/json");
    let why = why_not_asked(&server, &ask).await;
    assert!(why.contains("this server has no sessions"), "{why}");

    // What is not declared is not served.
    for (method, params) in [
        ("tasks/list", json!({})),
        ("resources/subscribe", json!({"uri": "x://y"})),
        ("resources/unsubscribe", json!({"uri": "x://y"})),
        ("logging/setLevel", json!({"level": "debug"})),
    ] {
        let mut client = server.connect().await;
        let refused = client.exchange(&alone(method, params)).await.json();
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("this server"), "{message}");
    }
}

#[tokio::test]
async fn a_client_that_can_be_asked_lacks_the_capability() {
    let server = Server::start().await;
    let session = server.session().await;
    let asked = act("optional", "ask_all a");
    let ask = Post::legacy(Some(&session), "tools/call", asked.clone()).with("Accept", "application/json");
    let why = why_not_asked(&server, &ask).await;
    assert!(why.contains("the client has not declared"), "{why}");
    let ask = alone("tools/call", asked).with("Accept", "application/json");
    let why = why_not_asked(&server, &ask).await;
    assert!(why.contains("the request came without a session"), "{why}");
}

#[tokio::test]
async fn a_server_of_json_answers_everything_with_one_message() {
    let server = json_only().await;
    let session = server.session_that_can_be_asked().await;
    let report = act("optional", "tell error 1 2");
    let calls = [
        Post::legacy(Some(&session), "tools/call", report.clone()).progress_token(json!(7)),
        Post::modern_plain("tools/call", report).progress_token(json!(7)),
    ];
    for call in calls {
        let mut client = server.connect().await;
        client.send(&call.to_bytes()).await;
        let reply = client.reply().await;
        assert_eq!(reply.head.header("content-type"), Some("application/json"));
        assert_eq!(reply.json()["result"]["content"][0]["text"], "done");
    }
    let headers = format!("Accept: text/event-stream\r\nMcp-Session-Id: {session}\r\n");
    let allowed = Some("POST, DELETE".to_owned());
    assert_eq!(status(&server, "GET", &headers).await, (405, allowed));

    let listen = Post::modern(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    let mut client = server.connect().await;
    let refused = client.exchange(&listen).await;
    assert_eq!(refused.status(), 406);
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("JSON only")
    );
    let subscribe = Post::legacy(Some(&session), "resources/subscribe", json!({"uri": "x://y"}));
    assert_eq!(client.exchange(&subscribe).await.status(), 406);
    let set_level = Post::legacy(Some(&session), "logging/setLevel", json!({"level": "debug"}));
    assert_eq!(client.exchange(&set_level).await.json()["error"]["code"], -32601);

    for declared in declared(&server).await {
        assert_eq!(
            (&declared["tools"], declared.get("logging")),
            (&json!({}), None),
            "{declared}"
        );
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
    let mut answered = ask;
    answered.body["params"]["requestState"] = asked["requestState"].clone();
    answered.body["params"]["inputResponses"] = json!({"a": {"action": "decline"}});
    let result = server.result(&answered).await;
    assert!(
        result["content"][0]["text"].as_str().unwrap().contains("decline"),
        "{result}"
    );

    let session = server.session_that_can_be_asked().await;
    let call = |act: &str| {
        Post::legacy(
            Some(&session),
            "tools/call",
            json!({"name": "optional", "arguments": {"act": act}}),
        )
    };
    let why = why_not_asked(&server, &call("ask_all a")).await;
    assert!(why.contains("answers with JSON only"), "{why}");

    let task = task_of(
        &server
            .result(&Post::legacy(
                Some(&session),
                "tools/call",
                act_as_task("optional", "wait"),
            ))
            .await,
    );
    server.stage.released.count();
    server.poll(&task, "completed").await;
    assert_eq!(server.result(&get(&task)).await["status"], "completed");
}
