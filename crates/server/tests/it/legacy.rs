//! A legacy client from the handshake to the list of its tasks.

use crate::{
    request::{Post, act, act_as_task, everything},
    server::{Server, other, task_of, text},
    stage::{LOG, exit},
};
use longhaul_core::TaskPolicy;
use longhaul_runtime::ToolSettings;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn the_handshake_negotiates_a_revision_and_its_capabilities() {
    let server = Server::start().await;
    let latest = server.result(&Post::initialize("2025-11-25")).await;
    assert_eq!(latest["protocolVersion"], "2025-11-25");
    let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(latest["capabilities"]["tasks"], tasks);
    let older = server.result(&Post::initialize("2025-06-18")).await;
    assert!(older["protocolVersion"] == "2025-06-18" && older["capabilities"].get("tasks").is_none());
    for unknown in ["2026-07-28", "2031-01-01", "x"] {
        // The best there is with a handshake.
        let best = server.result(&Post::initialize(unknown)).await;
        assert_eq!(best["protocolVersion"], "2025-11-25");
    }

    let listed = async |version: &str| {
        let session = server.session_of(version).await;
        let list = Post::legacy(Some(&session), "tools/list", json!({}));
        server.result(&list).await["tools"].clone()
    };
    let tools = listed("2025-11-25").await;
    let support = |name: &str| {
        let mut tools = tools.as_array().unwrap().iter();
        tools.find(|tool| tool["name"] == name).unwrap()["execution"]["taskSupport"].clone()
    };
    let all = ["never", "optional", "after_an_hour", "always"].map(support);
    assert_eq!(all, ["forbidden", "optional", "optional", "required"]);
    // Tasks are not in this revision.
    assert!(listed("2025-06-18").await[0].get("execution").is_none());
}

#[tokio::test]
async fn a_task_is_created_listed_waited_for_and_read_again() {
    let (server, session) = Server::with_session().await;
    let create = Post::legacy_task(Some(&session), "optional", "wait");
    let created = server.result(&create).await;
    let task = task_of(&created);
    assert_eq!(created["task"]["status"], "working");
    let get = Post::on_task(&session, "tasks/get", &task);
    assert_eq!(server.result(&get).await["status"], "working");
    assert_eq!(server.listed(&session).await[0]["taskId"], json!(task));

    // Two wait for the result, one as a stream and one not, and a third drops its stream.
    let waiting = Post::on_task(&session, "tasks/result", &task);
    let mut stream = server.stream(&waiting).await;
    let mut dropped = server.stream(&waiting).await;
    for streamed in [&mut stream, &mut dropped] {
        // The wait has begun.
        streamed.first_id().await;
    }
    drop(dropped);
    let mut held = server.send(&waiting.clone().json_only()).await;
    server.stage.released.count();
    let result = stream.only_result(&waiting).await;
    assert_eq!(text(&result), "done");
    assert_eq!(held.reply().await.json()["result"], result);

    assert_eq!(server.result(&get).await["status"], "completed");
    assert_eq!(server.result(&waiting).await, result, "it can be read again");
    let late = Post::on_task(&session, "tasks/cancel", &task);
    assert_eq!(server.error(&late).await, (200, -32602), "what is over is refused");
}

#[tokio::test]
async fn a_cancelled_task_is_cancelled_before_the_answer() {
    let (server, session) = Server::with_session().await;
    let task = server.legacy_task(&session, "wait").await;
    let waiting = Post::on_task(&session, "tasks/result", &task);
    let mut waiter = server.stream(&waiting).await;
    let cancelled = server.result(&Post::on_task(&session, "tasks/cancel", &task)).await;
    assert_eq!(cancelled["status"], "cancelled");
    server.stage.stopped.reaches(1).await;
    let messages = waiter.messages(&waiting).await;
    let error = &messages[0]["error"];
    assert_eq!(error["code"], -32603, "{error}");
    // What its work has written so far is not lost.
    let log = format!("longhaul://task/{task}/log");
    let data = json!({"taskId": task, "status": "cancelled", "log": log, "output": LOG});
    assert_eq!(error["data"], data);
    // Its command still stops.
    let shown = server.result(&Post::on_task(&session, "tasks/get", &task)).await;
    assert_eq!((&shown["status"], &shown["_meta"]), (&json!("cancelled"), &Value::Null));

    server.stage.exited.count();
    let shown = server.result(&Post::on_task(&session, "tasks/get", &task)).await;
    assert_eq!(shown["_meta"], json!({"dev.longhaul/exit": exit()}));
    let asked = Post::on_task(&session, "tasks/result", &task);
    let error = server.exchange(&asked).await.json()["error"].clone();
    assert_eq!(error["data"]["dev.longhaul/exit"], exit());
}

#[tokio::test]
async fn every_kind_of_end_reads_as_this_generation_reads_it() {
    let (server, session) = Server::with_session().await;
    for (act, status, why) in [
        ("say", "completed", json!(null)),
        ("refuse", "failed", json!("no")),
        ("break", "failed", json!("broken")),
    ] {
        let task = server.legacy_task(&session, act).await;
        let plain = Post::on_task(&session, "tasks/result", &task).json_only();
        let answer = server.exchange(&plain).await.json();
        match act {
            // Exactly as the call would have answered.
            "break" => assert_eq!(answer["error"]["code"], -32002),
            _ => assert_eq!(answer["result"]["isError"] == true, act == "refuse"),
        }
        // Why, wherever it is shown.
        let got = server.result(&Post::on_task(&session, "tasks/get", &task)).await;
        assert_eq!((&got["status"], &got["statusMessage"]), (&json!(status), &why));
        let first = &server.listed(&session).await[0];
        assert_eq!((&first["taskId"], &first["statusMessage"]), (&json!(task), &why));
    }
}

#[tokio::test]
async fn an_accepted_call_with_bad_arguments_gets_a_failed_task() {
    let (server, session) = Server::with_session().await;
    let params = json!({"name": "always", "arguments": {}, "task": {}});
    let created = server.result(&Post::legacy(Some(&session), "tools/call", params)).await;
    assert_eq!(created["task"]["status"], "working", "the first status is");
    assert!(created["task"].get("statusMessage").is_none(), "{created}");
    let task = task_of(&created);
    let got = server.result(&Post::on_task(&session, "tasks/get", &task)).await;
    assert_eq!(got["status"], "failed");
    let result = server.result(&Post::on_task(&session, "tasks/result", &task)).await;
    let text = text(&result);
    let expected = "The arguments do not fit always:\n- arguments: \"act\" is a required property";
    assert_eq!(text, expected);
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
    let (mut created, mut listed) = (BTreeSet::new(), Vec::new());
    for _ in 0..120 {
        let create = Post::legacy_task(Some(&mine), "optional", "say");
        created.insert(client.task(&create).await);
    }
    let list = |session: &str, params| Post::legacy(Some(session), "tasks/list", params);
    let mut params = json!({});
    loop {
        let page = client.result(&list(&mine, params)).await;
        let tasks = page["tasks"].as_array().unwrap().iter();
        listed.extend(tasks.map(|task| task["taskId"].as_str().unwrap().to_owned()));
        let Some(next) = page.get("nextCursor").and_then(Value::as_str) else {
            break;
        };
        params = json!({"cursor": next});
        let stolen = client.error(&list(&other, params.clone())).await;
        assert_eq!(stolen, (200, -32602));
    }
    assert_eq!(listed.len(), created.len(), "each once");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), created);
    for wrong in ["", "x", "AAAA"] {
        let refused = client.error(&list(&mine, json!({"cursor": wrong}))).await;
        assert_eq!(refused, (200, -32602), "{wrong:?}");
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
    // Its revision has no tasks, so the member is ignored.
    assert_eq!(text(&called), "done");
    for method in ["tasks/list", "tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = server.error(&ask(method, json!({"taskId": "a"}))).await;
        assert_eq!(refused, (200, -32601), "{method}");
    }
    let always = ask("tools/call", act("always", "say"));
    assert_eq!(server.error(&always).await, (200, -32601));
}

/// The version it settled on is in its header; its capabilities are unknown, and it has no stream for notifications.
#[tokio::test]
async fn a_client_that_never_sends_its_session_id_back_is_served_at_its_version() {
    const VERSION: &str = "MCP-Protocol-Version";
    let server = Server::start().await;
    let initialize = Post::initialize_with("2025-11-25", everything());
    server.result(&initialize).await;
    let ask = |method: &str, params| Post::legacy(None, method, params).with(VERSION, "2025-11-25");
    let initialized = ask("notifications/initialized", json!({})).without_id();
    server.accepted(&initialized).await;

    let listed = server.result(&ask("tools/list", json!({}))).await;
    assert!(listed["tools"][0]["execution"].is_object(), "its revision has tasks");
    let older = ask("tools/list", json!({})).with(VERSION, "2025-06-18");
    assert!(server.result(&older).await["tools"][0].get("execution").is_none());
    let called = server.result(&ask("tools/call", act("optional", "say"))).await;
    assert_eq!(text(&called), "done");
    let unasked = server.result(&ask("tools/call", act("optional", "ask"))).await;
    assert_eq!(unasked["isError"], true, "{unasked}");

    let task = server.task(&ask("tools/call", act_as_task("optional", "say"))).await;
    server.poll(&task, "completed").await;
    let about = |method: &str| ask(method, json!({"taskId": task}));
    assert_eq!(server.result(&about("tasks/get")).await["status"], "completed");
    assert_eq!(text(&server.result(&about("tasks/result")).await), "done");
    assert_eq!(server.error(&about("tasks/cancel")).await, (200, -32602), "it is over");

    for (method, params) in [
        ("tasks/list", json!({})),
        ("resources/subscribe", json!({"uri": "acme://a"})),
    ] {
        let refused = server.exchange(&ask(method, params)).await;
        assert_eq!(refused.error(), (400, -32600), "{method}");
        let message = refused.json()["error"]["message"].to_string();
        assert!(message.contains("Mcp-Session-Id"), "{message}");
    }
    let mut push = server.connect().await;
    let headers = "Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n";
    push.send(other("GET", headers).as_bytes()).await;
    assert_eq!(push.reply().await.status(), 405);
}

/// A client that has moved to modern requests and still declares the legacy tasks finds the tasks it created before, and no
/// others: what is modern, unknown or no id at all is answered as if it had declared nothing.
#[tokio::test]
async fn a_client_that_changes_to_the_modern_era_finds_its_legacy_tasks() {
    let (server, session) = Server::with_session().await;
    let mut client = server.connect().await;
    let task = server.legacy_task(&session, "wait").await;
    let modern = server.task(&Post::call("optional", "wait")).await;
    let declared = json!({"tasks": {"cancel": {}}});
    let moved = |method: &str, task: &str| Post::modern_with(method, json!({"taskId": task}), declared.clone());
    let got = client.result(&moved("tasks/get", &task)).await;
    assert_eq!((&got["taskId"], &got["resultType"]), (&json!(task), &json!("complete")));
    assert!(got.get("ttl").is_some() && got.get("ttlMs").is_none(), "{got}");
    for method in ["tasks/get", "tasks/cancel"] {
        for other in [modern.as_str(), "unknown", "no id"] {
            let refused = client.error(&moved(method, other)).await;
            assert_eq!(refused, (400, -32021), "{method} {other}");
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
    server.put_tool(own).await;
    let session = server.session().await;
    let default = "optional has begun and goes on in the background; its result is not here yet.";
    for (tool, text) in [("optional", default), ("own", "Go on with something else.")] {
        let call = Post::legacy_task(Some(&session), tool, "say");
        let created = server.result(&call).await;
        let shown = &created["_meta"]["io.modelcontextprotocol/model-immediate-response"];
        assert_eq!(shown, text);
    }
}
