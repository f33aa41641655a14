//! Hand-off: work continues after a plain call's answer, and three tools follow it.

use crate::{
    clock::TestClock,
    request::{self, Post, act, everything, everything_and_tasks},
    rounds::accept,
    server::{Options, Server, text},
    stage::HANDED_OFF,
};
use longhaul_core::{BoxFuture, TaskPolicy};
use longhaul_runtime::{Handoff, PendingTools, ToolSettings};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The same request in both eras, by clients without tasks; the legacy one in a session of its own.
async fn both(server: &Server, method: &str, params: Value) -> [Post; 2] {
    request::both(&server.session().await, method, params)
}

/// The result of a call in one of the eras.
async fn called(server: &Server, era: usize, params: Value) -> Value {
    server.result(&both(server, "tools/call", params).await[era]).await
}

/// The params of a call of one of the server's own tools.
fn follow(tool: &str, arguments: Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}

/// The tools that a client is shown.
async fn tools(server: &Server, list: &Post) -> Vec<Value> {
    server.result(list).await["tools"].as_array().unwrap().clone()
}

/// The id is the first word that looks like one.
fn task_in(text: &str) -> String {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let id = words.find(|word| word.len() == 36);
    id.unwrap_or_else(|| panic!("no task: {text}")).to_owned()
}

#[tokio::test]
async fn a_long_call_is_handed_off_and_followed() {
    for era in [0, 1] {
        let server = Server::start().await;
        let reply = called(&server, era, act(HANDED_OFF, "wait")).await;
        assert_ne!(reply["isError"], true, "{reply}");
        let task = task_in(text(&reply));
        assert_eq!(server.stage.begun.get(), 1, "it is the same work");

        let wait = follow("task_wait", json!({"task": task, "seconds": 1}));
        let still = called(&server, era, wait).await;
        assert!(text(&still).contains("still running"), "{still}");
        // Hosts stop a model that repeats a call with the same arguments.
        assert!(text(&still).contains(r#""waited":"#), "{still}");

        let status = follow("task_status", json!({"task": task}));
        let running = called(&server, era, status.clone()).await;
        assert!(text(&running).contains("is still running"), "{running}");

        server.stage.released.count();
        let wait = follow("task_wait", json!({"task": task, "waited": 1}));
        // As often as one likes.
        for _ in 0..2 {
            assert_eq!(text(&called(&server, era, wait.clone()).await), "done");
        }
        let ended = called(&server, era, status).await;
        assert!(text(&ended).contains("has ended"), "{ended}");
        let late = called(&server, era, follow("task_cancel", json!({"task": task}))).await;
        assert!(text(&late).contains("over already"), "{late}");
    }
}

/// A tool that is handed off soon says nothing about how long a host waits: a model that had to wait in such steps would give up, or be stopped.
#[tokio::test]
async fn the_model_waits_as_long_as_the_longest_hand_off() {
    let server = Server::start().await;
    let other = ToolSettings {
        handoff: Handoff::After(2_000),
        ..server.stage.settings("other", TaskPolicy::Optional)
    };
    server.put_tool(other).await;
    let task = task_in(text(&called(&server, 1, act(HANDED_OFF, "wait")).await));
    let still = called(&server, 1, wait_for(&task)).await;
    assert!(text(&still).contains("still running after these 2 s"), "{still}");
}

/// A client refuses an answer that does not fit the output schema, and with it the id of the task.
#[tokio::test]
async fn a_hand_off_fits_the_output_schema_that_its_client_is_shown() {
    let server = Server::start().await;
    let list = async |post: Post| {
        let tools = tools(&server, &post).await;
        let tool = tools.iter().find(|tool| tool["name"] == HANDED_OFF);
        tool.expect("it is listed")["outputSchema"].clone()
    };
    // Each twice: first pages are kept.
    for _ in 0..2 {
        for (era, plain) in both(&server, "tools/list", json!({})).await.into_iter().enumerate() {
            let schema = jsonschema::validator_for(&list(plain).await).unwrap();
            let reply = called(&server, era, act(HANDED_OFF, "wait")).await;
            assert!(schema.is_valid(&reply["structuredContent"]), "{reply}");
            assert_eq!(reply["structuredContent"]["task"], task_in(text(&reply)));
            assert!(schema.is_valid(&json!({"total": 1})) && !schema.is_valid(&json!({"sum": 1})));
        }
        // It gets tasks.
        let schema = list(Post::modern("tools/list", json!({}))).await;
        assert_eq!(schema, json!({"type": "object", "required": ["total"]}));
    }
}

fn handing_off(server: &Server, name: &str, policy: TaskPolicy) -> ToolSettings {
    ToolSettings {
        handoff: Handoff::Default,
        ..server.stage.settings(name, policy)
    }
}

/// Clients without tasks can call it, too.
#[tokio::test]
async fn what_only_runs_as_a_task_is_handed_off_at_once() {
    let server = Server::start().await;
    server.put_tool(handing_off(&server, "must", TaskPolicy::Always)).await;
    for post in both(&server, "tools/call", act("must", "wait")).await {
        let reply = server.result(&post).await;
        assert!(text(&reply).contains("must is still running"), "{reply}");
    }
    let [_, list] = both(&server, "tools/list", json!({})).await;
    let listed = tools(&server, &list).await;
    let support = |name: &str| {
        let tool = listed.iter().find(|tool| tool["name"] == name);
        tool.unwrap()["execution"]["taskSupport"].clone()
    };
    assert_eq!([support("must"), support("always")], ["optional", "required"]);
    for post in both(&server, "tools/call", act("always", "say")).await {
        let refused = server.exchange(&post).await.json();
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("always") && message.contains("`handoff`"), "{message}");
    }
}

/// The default reserves no name.
#[tokio::test]
async fn a_tool_with_the_name_of_one_of_ours_ends_the_default() {
    let server = Server::start().await;
    server.engine.remove_tool(HANDED_OFF);
    let list = Post::modern_plain("tools/list", json!({}));
    let named = async |name: &str| {
        let tools = tools(&server, &list).await;
        tools.iter().filter(|tool| tool["name"] == name).count()
    };
    let tool = handing_off(&server, "usual", TaskPolicy::Optional);
    server.put_tool(tool).await;
    assert_eq!((named("task_wait").await, named("task_list").await), (1, 1));
    let declaring = server.result(&Post::modern("tools/list", json!({}))).await.to_string();
    assert!(!declaring.contains("task_wait"), "it follows tasks itself: {declaring}");
    let own = server.stage.settings("task_wait", TaskPolicy::Never);
    server.put_tool(own).await;
    assert_eq!((named("task_wait").await, named("task_list").await), (1, 0));
    let call = Post::plain_call("task_wait", "say");
    assert_eq!(text(&server.result(&call).await), "done");
}

/// For a model that has lost the id.
#[tokio::test]
async fn tasks_are_listed_for_who_created_them() {
    let server = Server::start().await;
    let (session, other) = (server.session().await, server.session().await);
    let call = |session: &str, params| Post::legacy(Some(session), "tools/call", params);
    let handed_off = server.result(&call(&session, act(HANDED_OFF, "wait"))).await;
    let list = json!({"name": "task_list"});
    let listed = server.result(&call(&session, list.clone())).await;
    assert!(text(&listed).contains(&task_in(text(&handed_off))), "{listed}");
    assert!(text(&listed).contains("handed_off is running"), "{listed}");
    let foreign = server.result(&call(&other, list)).await;
    assert_eq!(text(&foreign), "There are no tasks.");
    // Models call the argument by other names, too.
    let status = follow("task_status", json!({"task_id": task_in(text(&handed_off))}));
    let status = server.result(&call(&session, status)).await;
    assert!(text(&status).contains("is still running"), "{status}");
}

/// A client that hears nothing gives up.
#[tokio::test]
async fn a_client_that_asks_for_progress_hears_that_silent_work_goes_on() {
    for era in [0, 1] {
        let clock = TestClock::default();
        let server = Server::with(Options::with_clock(&clock)).await;
        let call = both(&server, "tools/call", act("never", "wait")).await[era].clone();
        let call = call.progress_token(json!("t"));
        let mut client = server.begin(&call).await;
        let hear = async {
            client.stream_head().await;
            [client.message().await.unwrap(), client.message().await.unwrap()]
        };
        let heard = clock.advance_until(Duration::from_secs(1), hear).await;
        let progress = heard.map(|one| one["params"]["progress"].as_f64().unwrap());
        assert!(progress[0] < progress[1], "{progress:?}");
        server.stage.released.count();
        let messages = client.messages(&call).await;
        assert_eq!(text(&messages.last().unwrap()["result"]), "done");
    }
}

#[tokio::test]
async fn handed_off_work_can_be_cancelled() {
    let server = Server::start().await;
    let reply = server.result(&Post::plain_call(HANDED_OFF, "wait")).await;
    let task = task_in(text(&reply));
    let follow = |tool| Post::modern_plain("tools/call", follow(tool, json!({"task": task})));
    server.result(&follow("task_cancel")).await;
    let end = server.result(&follow("task_wait")).await;
    assert!(end["isError"] == true && text(&end).contains("cancelled"), "{end}");
    assert_eq!(server.stage.stopped.get(), 1);
    let status = server.result(&follow("task_status")).await;
    assert!(text(&status).contains("was cancelled"), "{status}");
}

/// What was handed off names the server's own tool.
#[tokio::test]
async fn one_of_ours_comes_before_a_tool_of_the_catalog() {
    let server = Server::start().await;
    let own = server.stage.settings("task_wait", TaskPolicy::Never);
    server.put_tool(own).await;
    let titles = async || -> Vec<Value> {
        let tools = tools(&server, &Post::modern_plain("tools/list", json!({}))).await;
        let named = tools.iter().filter(|tool| tool["name"] == "task_wait");
        named.map(|tool| tool["title"].clone()).collect()
    };
    let call = Post::plain_call("task_wait", "say");
    assert_eq!(titles().await, ["Wait for a task of tested"]);
    let refused = server.result(&call).await;
    assert!(text(&refused).contains("do not fit"), "{refused}");
    server.engine.remove_tool(HANDED_OFF);
    assert_eq!(titles().await.len(), 1);
    assert_eq!(text(&server.result(&call).await), "done", "nothing hands off any more");
}

#[tokio::test]
async fn quick_work_is_not_handed_off() {
    let server = Server::start().await;
    for post in both(&server, "tools/call", act(HANDED_OFF, "say")).await {
        assert_eq!(text(&server.result(&post).await), "done");
    }
}

/// Lists do not depend on the connection, so everybody sees them.
#[tokio::test]
async fn the_tools_that_follow_are_listed_once_one_hands_off() {
    let server = Server::start().await;
    for post in both(&server, "tools/list", json!({})).await {
        let tools = tools(&server, &post).await;
        let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        let own = ["task_wait", "task_status", "task_cancel", "task_list"];
        assert!(names.ends_with(&own), "{names:?}");
    }
    let instructions = async || {
        let described = server.result(&Post::modern_plain("server/discover", json!({}))).await;
        described["instructions"].as_str().unwrap_or_default().to_owned()
    };
    let told = instructions().await;
    let named = told.contains("task_wait") && told.contains("the tasks of tested");
    assert!(named, "{told}");
    server.engine.remove_tool(HANDED_OFF);
    assert!(!instructions().await.contains("task_wait"));
    for post in both(&server, "tools/list", json!({})).await {
        let tools = server.result(&post).await["tools"].to_string();
        assert!(!tools.contains("task_wait"), "{tools}");
    }
    for post in both(&server, "tools/call", wait_for("t")).await {
        assert_eq!(server.error(&post).await, (200, -32602), "an unknown tool");
    }
}

/// The result names the mistake, and a foreign task is like an unknown one.
#[tokio::test]
async fn bad_arguments_are_a_tool_error() {
    let server = Server::start().await;
    for arguments in [
        json!({}),
        json!({"task": 1}),
        json!({"task": "nobody", "more": 1}),
        json!({"task": "nobody"}),
        json!({"task": "../.."}),
        json!({"task": "nobody", "seconds": 0}),
        json!({"task": "nobody", "seconds": 1_000_000}),
    ] {
        for tool in ["task_wait", "task_status", "task_cancel"] {
            for post in both(&server, "tools/call", follow(tool, arguments.clone())).await {
                let refused = server.result(&post).await;
                assert!(refused["isError"] == true && !text(&refused).is_empty(), "{refused}");
            }
        }
    }
}

/// A task that asks while it reports without a pause.
async fn busy(server: &Server) -> String {
    let call = act("optional", "ask_while_talking name");
    let call = Post::modern_with("tools/call", call, everything_and_tasks());
    let task = server.task(&call).await;
    server.poll(&task, "input_required").await;
    task
}

fn wait_for(task: &str) -> Value {
    follow("task_wait", json!({"task": task}))
}

#[tokio::test]
async fn a_modern_client_that_waits_is_asked_what_the_work_asks() {
    let server = Server::start().await;
    let task = busy(&server).await;
    let wait = Post::modern_with("tools/call", wait_for(&task), everything());
    let round = server.result(&wait).await;
    assert_eq!(round["resultType"], "input_required");
    let keys: Vec<_> = round["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["in-1"], "once, however often it looks");
    let retry = wait.retry(&round, json!({"in-1": accept("name", "Ann")}));
    assert_eq!(text(&server.result(&retry).await), accept("name", "Ann").to_string());
}

#[tokio::test]
async fn a_legacy_client_that_waits_is_asked_once_whatever_the_work_reports() {
    let server = Server::start().await;
    let task = busy(&server).await;
    let session = server.session_that_can_be_asked().await;
    let wait = Post::legacy(Some(&session), "tools/call", wait_for(&task)).progress_token(json!("t"));
    let mut client = server.stream(&wait).await;
    let mut asked = Vec::new();
    let mut figures = 0;
    while figures < 300 || asked.is_empty() {
        let message = client.message().await.unwrap();
        match message["method"].as_str() {
            Some("notifications/progress") => figures += 1,
            Some("elicitation/create") => asked.push(message),
            _ => panic!("{message}"),
        }
    }
    assert_eq!(asked.len(), 1);
    server.answer(&session, &asked[0], accept("name", "Ann")).await;
    let messages = client.messages(&wait).await;
    let last = &messages.last().unwrap()["result"];
    assert_eq!(text(last), accept("name", "Ann").to_string());
}

/// Another server is asked for its tools, and does not answer.
struct NeverKnown;

impl PendingTools for NeverKnown {
    fn until_known(&self, _: &str) -> Option<BoxFuture<'static, ()>> {
        Some(Box::pin(std::future::pending()))
    }
}

/// A tool that may come is waited for, and what the server has itself is not.
#[tokio::test]
async fn the_tools_that_follow_work_do_not_wait_for_tools_that_may_come() {
    let clock = TestClock::default();
    let server = Server::with(Options::with_clock(&clock)).await;
    server.engine.catalog().set_pending_tools(Arc::new(NeverKnown));
    let call = |name| Post::modern_plain("tools/call", follow(name, json!({"task": "none"})));
    let status = server.result(&call("task_status")).await;
    assert_eq!(status["isError"], true, "{status}");

    let mut client = server.send(&call("of_another_server")).await;
    let refused = clock.advance_until(Duration::from_secs(1), client.reply()).await;
    assert_eq!(refused.error(), (200, -32603));
    let message = refused.json()["error"]["message"].to_string();
    let named = message.contains("of_another_server") && message.contains("Call it again");
    assert!(named, "{message}");
}
