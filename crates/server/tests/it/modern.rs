//! A modern client from discovery to the last acknowledgement.

use crate::{
    request::{Post, TASKS},
    server::{Server, cancel, get, task_of, text, update},
    stage::exit,
};
use serde_json::{Value, json};

/// Of a cancelled task's `_meta`.
const EXIT: &str = "dev.longhaul/exit";

#[tokio::test]
async fn discovery_names_what_is_served_and_nothing_else() {
    let server = Server::start().await;
    let discovered = server.result(&Post::modern_plain("server/discover", json!({}))).await;
    assert_eq!(
        discovered["capabilities"],
        json!({
            "tools": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "logging": {},
            "extensions": {TASKS: {}, "dev.longhaul/idempotency": {"cancel": true, "retentionMs": 3_600_000}, "dev.longhaul/deletion": {}},
        })
    );
    let versions = discovered["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")));

    let listed = server.result(&Post::modern("tools/list", json!({}))).await;
    let tools = listed["tools"].as_array().unwrap();
    for (name, _) in crate::stage::TOOLS {
        assert!(tools.iter().any(|tool| tool["name"] == name), "{name}");
    }
    for tool in tools {
        // Execution is legacy.
        assert!(
            tool.get("execution").is_none() && tool["annotations"].is_object(),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn a_task_is_there_when_it_is_announced_and_holds_its_result_when_it_is_over() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let created = client.result(&Post::call("optional", "wait")).await;
    let task = task_of(&created);
    assert_eq!(created["status"], "working");

    let working = client.result(&get(&task)).await;
    assert_eq!(working["taskId"], *task);
    assert_eq!(working["status"], "working");
    assert!(working["pollIntervalMs"].as_u64().unwrap() > 0);

    server.stage.released.count();
    let completed = server.poll(&task, "completed").await;
    assert_eq!(text(&completed["result"]), "done");
    assert_eq!(client.result(&get(&task)).await, completed, "reading changes nothing");
    client.result(&cancel(&task)).await;
    // Nor does cancelling what is over.
    assert_eq!(client.result(&get(&task)).await, completed);
}

#[tokio::test]
async fn a_cancelled_task_stops_and_shows_it() {
    let server = Server::start().await;
    let task = server.task(&Post::call("always", "wait")).await;
    server.stage.begun.reaches(1).await;
    server.result(&cancel(&task)).await;
    server.result(&cancel(&task)).await;
    server.stage.stopped.reaches(1).await;
    let shown = server.poll(&task, "cancelled").await;
    assert_eq!(shown["_meta"].get(EXIT), None, "there is none of work that left none");
    server.stage.exited.count();
    assert_eq!(server.result(&get(&task)).await["_meta"][EXIT], exit());
    let read = server.stage.exits_read.get();
    assert_eq!(server.result(&get(&task)).await["_meta"][EXIT], exit());
    assert_eq!(server.stage.exits_read.get(), read, "it is final, so it is read once");
    let history = json!({"uri": format!("longhaul://task/{task}/history")});
    let history = server.result(&Post::modern("resources/read", history)).await;
    let history: Value = serde_json::from_str(history["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(history["entries"][0]["state"], "cancelled", "{history}");
}

#[tokio::test]
async fn a_question_is_shown_answered_once_and_removed() {
    let server = Server::start().await;
    let task = server.task(&Post::call("optional", "ask")).await;
    let asking = server.poll(&task, "input_required").await;
    let (key, question) = asking["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");

    let answer = |key: &str, sure: bool| {
        let answers = json!({key: {"action": "accept", "content": {"sure": sure}}});
        update(&task, answers)
    };
    server.result(&answer("no-such-key", false)).await;
    assert_eq!(server.result(&get(&task)).await["status"], "input_required");
    server.result(&answer(key, true)).await;
    server.result(&answer(key, false)).await;
    let completed = server.poll(&task, "completed").await;
    assert!(text(&completed["result"]).contains(r#""sure":true"#), "{completed}");
    // What is over is acknowledged and stays.
    server.result(&answer(key, false)).await;
    assert_eq!(server.result(&get(&task)).await, completed);
}

#[tokio::test]
async fn a_tool_error_is_completed_and_a_broken_tool_has_failed() {
    let server = Server::start().await;
    let refused = server.task(&Post::call("optional", "refuse")).await;
    assert_eq!(server.poll(&refused, "completed").await["result"]["isError"], true);
    let broken = server.task(&Post::call("optional", "break")).await;
    let failed = server.poll(&broken, "failed").await;
    assert_eq!(failed["error"]["message"], "broken");
    assert_eq!(failed["error"]["code"], -32602, "-32002 is a legacy code");
}

#[tokio::test]
async fn arguments_that_do_not_fit_start_nothing() {
    let server = Server::start().await;
    for tool in ["never", "optional", "always", "after_an_hour"] {
        let call = json!({"name": tool, "arguments": {"act": 5}});
        let result = server.result(&Post::modern("tools/call", call)).await;
        assert_eq!(result["isError"], true, "{tool}: the plain result, no task");
        assert!(text(&result).contains("act"));
    }
    let unknown = Post::modern("tools/call", json!({"name": "nobody", "arguments": {}}));
    assert_eq!(server.error(&unknown).await, (200, -32602));
    assert_eq!(server.stage.begun.get(), 0);
}

/// An error names all missing headers, which helps those who write requests by hand.
#[tokio::test]
async fn all_missing_headers_are_named_together() {
    let server = Server::start().await;
    let list = Post::modern_plain("tools/list", json!({}));
    for (post, missing) in [(Post::plain_call("optional", "say"), ", Mcp-Name"), (list, "")] {
        let reply = server.exchange(&Post::of(post.body)).await;
        assert_eq!(reply.error(), (400, -32020));
        let missing = format!("Headers are missing: MCP-Protocol-Version, Mcp-Method{missing}");
        assert_eq!(reply.json()["error"]["message"], missing);
    }
}
