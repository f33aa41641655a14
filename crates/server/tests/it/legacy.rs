//! A legacy client from the handshake to the list of its tasks.

use crate::{
    client::Event,
    request::{self, Post, act, act_as_task},
    server::{Server, other, task_of},
    stage::{LOG, exit},
};
use longhaul_core::TaskPolicy;
use longhaul_runtime::{Tool, ToolSettings};
use serde_json::{Value, json};

fn on_task(session: &str, method: &str, task: &str) -> Post {
    Post::legacy(Some(session), method, json!({"taskId": task}))
}

#[tokio::test]
async fn the_handshake_negotiates_a_revision_and_its_capabilities() {
    let server = Server::start().await;
    let latest = server.result(&Post::initialize("2025-11-25")).await;
    assert_eq!(latest["protocolVersion"], "2025-11-25");
    assert_eq!(
        latest["capabilities"]["tasks"],
        json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
    );
    let older = server.result(&Post::initialize("2025-06-18")).await;
    assert!(older["protocolVersion"] == "2025-06-18" && older["capabilities"].get("tasks").is_none());
    for unknown in ["2026-07-28", "2031-01-01", "x"] {
        let best = server.result(&Post::initialize(unknown)).await;
        assert_eq!(
            best["protocolVersion"], "2025-11-25",
            "the best there is with a handshake"
        );
    }

    let listed = server
        .result(&Post::legacy(Some(&server.session().await), "tools/list", json!({})))
        .await;
    let support = |name: &str| {
        let tools = listed["tools"].as_array().unwrap().iter();
        let tool = tools.clone().find(|tool| tool["name"] == name).unwrap();
        tool["execution"]["taskSupport"].as_str().unwrap().to_owned()
    };
    let all = ["never", "optional", "after_an_hour", "always"].map(support);
    assert_eq!(all, ["forbidden", "optional", "optional", "required"]);
    let session = server.session_of("2025-06-18").await;
    let listed = server
        .result(&Post::legacy(Some(&session), "tools/list", json!({})))
        .await;
    assert!(
        listed["tools"][0].get("execution").is_none(),
        "tasks are not in that revision"
    );
}

#[tokio::test]
async fn a_task_is_created_listed_waited_for_and_read_again() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut client = server.connect().await;
    let created = client
        .result(&Post::legacy(
            Some(&session),
            "tools/call",
            act_as_task("optional", "wait"),
        ))
        .await;
    let task = task_of(&created);
    assert_eq!(created["task"]["status"], "working");
    assert_eq!(
        client.result(&on_task(&session, "tasks/get", &task)).await["status"],
        "working"
    );
    let listed = client
        .result(&Post::legacy(Some(&session), "tasks/list", json!({})))
        .await;
    assert_eq!(listed["tasks"][0]["taskId"], json!(task));

    // Two wait for the result, one as a stream and one not, and a third drops its stream.
    let waiting = on_task(&session, "tasks/result", &task);
    let (mut stream, mut held, mut dropped) = (server.connect().await, server.connect().await, server.connect().await);
    for streamed in [&mut stream, &mut dropped] {
        streamed.send(&waiting.to_bytes()).await;
        assert!(streamed.head().await.is_stream());
        assert_eq!(streamed.event().await, Some(Event::Prime), "the wait has begun");
    }
    drop(dropped);
    let plain = waiting.clone().with("Accept", "application/json");
    held.send(&plain.to_bytes()).await;
    server.stage.released.count();
    let messages = stream.messages(&waiting).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["result"]["content"][0]["text"], "done");
    assert_eq!(held.reply().await.json(), messages[0]);

    assert_eq!(
        client.result(&on_task(&session, "tasks/get", &task)).await["status"],
        "completed"
    );
    assert_eq!(
        client.result(&waiting).await,
        messages[0]["result"],
        "it can be read again"
    );
    let late = on_task(&session, "tasks/cancel", &task);
    assert_eq!(client.error(&late).await, (200, -32602), "what is over is refused");
}

#[tokio::test]
async fn a_cancelled_task_is_cancelled_before_the_answer() {
    let server = Server::start().await;
    let session = server.session().await;
    let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&server.result(&create).await);
    let waiting = on_task(&session, "tasks/result", &task);
    let mut waiter = server.connect().await;
    waiter.send(&waiting.to_bytes()).await;
    waiter.head().await;
    let cancelled = server.result(&on_task(&session, "tasks/cancel", &task)).await;
    assert_eq!(cancelled["status"], "cancelled");
    server.stage.stopped.reaches(1).await;
    let messages = waiter.messages(&waiting).await;
    let error = &messages[0]["error"];
    assert_eq!(error["code"], -32603, "{error}");
    // What its work has written so far is not lost.
    let log = format!("longhaul://task/{task}/log");
    assert_eq!(
        error["data"],
        json!({"taskId": task, "status": "cancelled", "log": log, "output": LOG})
    );
    // Its command still stops.
    let shown = server.result(&on_task(&session, "tasks/get", &task)).await;
    assert_eq!((&shown["status"], &shown["_meta"]), (&json!("cancelled"), &Value::Null));

    server.stage.exited.count();
    let shown = server.result(&on_task(&session, "tasks/get", &task)).await;
    assert_eq!(shown["_meta"], json!({"dev.longhaul/exit": exit()}));
    let asked = on_task(&session, "tasks/result", &task);
    let error = server.connect().await.exchange(&asked).await.json()["error"].clone();
    assert_eq!(error["data"]["dev.longhaul/exit"], exit());
}

#[tokio::test]
async fn every_kind_of_end_reads_as_this_generation_reads_it() {
    let server = Server::start().await;
    let session = server.session().await;
    for (act, status) in [("say", "completed"), ("refuse", "failed"), ("break", "failed")] {
        let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", act));
        let task = task_of(&server.result(&create).await);
        let plain = on_task(&session, "tasks/result", &task).with("Accept", "application/json");
        let reply = server.connect().await.exchange(&plain).await;
        match act {
            "break" => assert_eq!(
                reply.json()["error"]["code"],
                -32002,
                "exactly as the call would have answered"
            ),
            _ => assert_eq!(
                reply.json()["result"]["isError"].as_bool().unwrap_or_default(),
                act == "refuse"
            ),
        }
        let got = server.result(&on_task(&session, "tasks/get", &task)).await;
        assert_eq!(got["status"], status);
        // Why, wherever it is shown.
        let why = match act {
            "refuse" => json!("no"),
            "break" => json!("broken"),
            _ => json!(null),
        };
        assert_eq!(got["statusMessage"], why);
        let list = server
            .result(&Post::legacy(Some(&session), "tasks/list", json!({})))
            .await;
        assert_eq!(list["tasks"][0]["taskId"], task.as_str());
        assert_eq!(list["tasks"][0]["statusMessage"], why);
    }
}

#[tokio::test]
async fn an_accepted_call_with_bad_arguments_gets_a_failed_task() {
    let server = Server::start().await;
    let session = server.session().await;
    let params = json!({"name": "always", "arguments": {}, "task": {}});
    let created = server.result(&Post::legacy(Some(&session), "tools/call", params)).await;
    assert_eq!(created["task"]["status"], "working", "the first status is");
    assert!(created["task"].get("statusMessage").is_none(), "{created}");
    let task = task_of(&created);
    let got = server.result(&on_task(&session, "tasks/get", &task)).await;
    assert_eq!(got["status"], "failed");
    let result = server.result(&on_task(&session, "tasks/result", &task)).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        text,
        "The arguments do not fit always:\n- arguments: \"act\" is a required property"
    );
    // The first line alone does not contain the reason.
    assert_eq!(got["statusMessage"], text.replace("\n-", ""));
    assert_eq!(result["isError"], true);
    assert_eq!(server.stage.begun.get(), 0);
}

#[tokio::test]
async fn a_list_continues_at_its_cursor_and_cursors_belong_to_one_client() {
    let server = Server::start().await;
    let (mine, other) = (server.session().await, server.session().await);
    let mut client = server.connect().await;
    let mut created = Vec::new();
    for _ in 0..120 {
        let create = Post::legacy(Some(&mine), "tools/call", act_as_task("optional", "say"));
        created.push(task_of(&client.result(&create).await));
    }
    let mut listed: Vec<String> = Vec::new();
    let mut params = json!({});
    loop {
        let page = client
            .result(&Post::legacy(Some(&mine), "tasks/list", params.clone()))
            .await;
        listed.extend(
            page["tasks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|task| task["taskId"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page.get("nextCursor").and_then(Value::as_str) else {
            break;
        };
        params = json!({"cursor": next});
        let stolen = Post::legacy(Some(&other), "tasks/list", params.clone());
        assert_eq!(client.error(&stolen).await, (200, -32602));
    }
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(sorted(listed), sorted(created), "each once");
    for wrong in ["", "x", "AAAA"] {
        let list = Post::legacy(Some(&mine), "tasks/list", json!({"cursor": wrong}));
        assert_eq!(client.error(&list).await, (200, -32602), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_client_without_a_session_is_served_as_one_of_the_oldest() {
    let server = Server::start().await;
    let ask = |method: &str, params: Value| Post::legacy(None, method, params);
    server.result(&ask("ping", json!({}))).await;
    let listed = server.result(&ask("tools/list", json!({}))).await;
    assert!(listed["tools"][0].get("execution").is_none());
    let called = server.result(&ask("tools/call", act_as_task("optional", "say"))).await;
    assert_eq!(
        called["content"][0]["text"], "done",
        "its revision has no tasks, so the member is ignored"
    );
    for method in ["tasks/list", "tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(
            server.error(&ask(method, json!({"taskId": "a"}))).await,
            (200, -32601),
            "{method}"
        );
    }
    assert_eq!(
        server.error(&ask("tools/call", act("always", "say"))).await,
        (200, -32601)
    );
}

/// The version it settled on is in its header; its capabilities are unknown, and it has no stream for notifications.
#[tokio::test]
async fn a_client_that_never_sends_its_session_id_back_is_served_at_its_version() {
    let server = Server::start().await;
    let mut initialize = Post::initialize("2025-11-25");
    initialize.body["params"]["capabilities"] = request::everything();
    server.result(&initialize).await;
    let ask =
        |method: &str, params: Value| Post::legacy(None, method, params).with("MCP-Protocol-Version", "2025-11-25");
    let initialized = ask("notifications/initialized", json!({})).without_id();
    assert_eq!(server.connect().await.exchange(&initialized).await.status(), 202);

    let listed = server.result(&ask("tools/list", json!({}))).await;
    assert!(listed["tools"][0]["execution"].is_object(), "its revision has tasks");
    let older = ask("tools/list", json!({})).with("MCP-Protocol-Version", "2025-06-18");
    assert!(server.result(&older).await["tools"][0].get("execution").is_none());
    let called = server.result(&ask("tools/call", act("optional", "say"))).await;
    assert_eq!(called["content"][0]["text"], "done");
    let unasked = server.result(&ask("tools/call", act("optional", "ask"))).await;
    assert_eq!(unasked["isError"], true, "{unasked}");

    let task = task_of(&server.result(&ask("tools/call", act_as_task("optional", "say"))).await);
    server.poll(&task, "completed").await;
    let about = |method: &str| ask(method, json!({"taskId": task}));
    assert_eq!(server.result(&about("tasks/get")).await["status"], "completed");
    assert_eq!(
        server.result(&about("tasks/result")).await["content"][0]["text"],
        "done"
    );
    assert_eq!(server.error(&about("tasks/cancel")).await, (200, -32602), "it is over");

    for (method, params) in [
        ("tasks/list", json!({})),
        ("resources/subscribe", json!({"uri": "acme://a"})),
    ] {
        let refused = server.connect().await.exchange(&ask(method, params)).await;
        assert_eq!(refused.error(), (400, -32600), "{method}");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("Mcp-Session-Id"), "{message}");
    }
    let mut push = server.connect().await;
    push.send(
        other(
            "GET",
            "Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n",
        )
        .as_bytes(),
    )
    .await;
    assert_eq!(push.reply().await.status(), 405);
}

/// A client that has moved to modern requests and still declares the legacy tasks finds the tasks it created before, and no
/// others: what is modern, unknown or no id at all is answered as if it had declared nothing.
#[tokio::test]
async fn a_client_that_changes_to_the_modern_era_finds_its_legacy_tasks() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut client = server.connect().await;
    let created = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&client.result(&created).await);
    let modern = task_of(
        &client
            .result(&Post::modern("tools/call", act("optional", "wait")))
            .await,
    );

    let moved =
        |method: &str, task: &str| Post::modern_with(method, json!({"taskId": task}), json!({"tasks": {"cancel": {}}}));
    let got = client.result(&moved("tasks/get", &task)).await;
    assert_eq!((&got["taskId"], &got["resultType"]), (&json!(task), &json!("complete")));
    assert!(got.get("ttl").is_some() && got.get("ttlMs").is_none(), "{got}");
    for method in ["tasks/get", "tasks/cancel"] {
        for other in [modern.as_str(), "unknown", "no id"] {
            assert_eq!(
                client.error(&moved(method, other)).await,
                (400, -32021),
                "{method} {other}"
            );
        }
    }
    let cancelled = client.result(&moved("tasks/cancel", &task)).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(client.error(&moved("tasks/cancel", &task)).await, (200, -32602), "once");
    server.stage.exited.count();
    let got = client.result(&moved("tasks/get", &task)).await;
    assert_eq!(got["_meta"]["dev.longhaul/exit"], exit());
    server.poll(&modern, "working").await;
    server.stage.released.count();
}

/// The tool's own words, or a sentence with its name.
#[tokio::test]
async fn a_host_gets_the_immediate_response_for_its_model() {
    let server = Server::start().await;
    let own = ToolSettings {
        immediate_response: Some("Go on with something else.".to_owned()),
        ..server.stage.settings("own", TaskPolicy::Optional)
    };
    server.engine.put_tool(Tool::new(own).unwrap()).await.unwrap();
    let session = server.session().await;
    for (tool, text) in [
        (
            "optional",
            "optional has begun and goes on in the background; its result is not here yet.",
        ),
        ("own", "Go on with something else."),
    ] {
        let call = Post::legacy(Some(&session), "tools/call", act_as_task(tool, "say"));
        let created = server.result(&call).await;
        assert_eq!(
            created["_meta"]["io.modelcontextprotocol/model-immediate-response"],
            text
        );
    }
}
