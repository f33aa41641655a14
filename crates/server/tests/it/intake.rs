//! Tools that ask for what is missing before there is a task.

use crate::{
    questions::{request, response},
    request::{Post, act, act_as_task, everything},
    rounds::accept,
    server::{Server, get, task_of},
    stage::form,
};
use longhaul_core::{BoxFuture, Json, TaskPolicy};
use longhaul_runtime::{HandlerError, Intake, RequestContext, Tool, ToolSettings};
use serde_json::{Value, json};
use std::sync::Arc;

/// Asks for a name and passes it to the tool.
struct AskName;

impl Intake for AskName {
    fn take(self: Arc<Self>, _: Json, cx: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move {
            let answer: Value = serde_json::from_str(cx.ask(form("user_name")).await?.as_str()).unwrap();
            let name = answer["content"]["user_name"].as_str().unwrap();
            Ok(Json::from(json!({"act": format!("echo {name}")})))
        })
    }
}

async fn server() -> Server {
    let server = Server::start().await;
    for (name, policy) in [
        ("greet", TaskPolicy::Always),
        ("chat", TaskPolicy::Never),
        ("either", TaskPolicy::Optional),
    ] {
        let settings = ToolSettings {
            intake: Some(Arc::new(AskName)),
            ..server.stage.settings(name, policy)
        };
        server.engine.put_tool(Tool::new(settings).unwrap()).await.unwrap();
    }
    server
}

fn call(tool: &str) -> Post {
    let mut capabilities = everything();
    capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    Post::modern_with("tools/call", act(tool, "say"), capabilities)
}

fn answered(call: &Post, round: &Value) -> Post {
    assert_eq!(round["resultType"], "input_required");
    assert_eq!(
        round["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["user_name"]
    );
    assert!(round.get("taskId").is_none());
    let mut post = call.clone().id(json!(2));
    post.body["params"]["inputResponses"] = json!({"user_name": accept("user_name", "Alice")});
    post.body["params"]["requestState"] = round["requestState"].clone();
    post
}

#[tokio::test]
async fn g2_17_rounds_come_first_and_leave_nothing_in_the_task() {
    let server = server().await;
    for tool in ["greet", "either"] {
        let call = call(tool);
        let round = server.result(&call).await;
        let created = server.result(&answered(&call, &round)).await;
        assert_eq!(created["resultType"], "task");
        for leaked in ["requestState", "inputRequests"] {
            assert!(created.get(leaked).is_none(), "{created}");
        }
        let task = task_of(&created);
        let done = server.poll(&task, "completed").await;
        assert_eq!(done["result"]["content"][0]["text"], "Alice");
        assert!(server.result(&get(&task)).await.get("requestState").is_none());
    }
    assert_eq!(server.stage.begun.get(), 2, "nothing began before it was answered");
}

#[tokio::test]
async fn a_plain_call_asks_first_too() {
    let server = server().await;
    let call = call("chat");
    let round = server.result(&call).await;
    let result = server.result(&answered(&call, &round)).await;
    assert_eq!(result["content"][0]["text"], "Alice");
}

#[tokio::test]
async fn bad_arguments_are_found_before_anything_is_asked() {
    let server = server().await;
    let mut call = call("greet");
    call.body["params"]["arguments"] = json!({});
    assert_eq!(server.result(&call).await["isError"], true);
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_gets_an_error() {
    let server = server().await;
    let modern = Post::modern("tools/call", act("greet", "say"));
    assert_eq!(server.error(&modern).await, (400, -32021));
    let session = server.session().await;
    let plain = Post::legacy(Some(&session), "tools/call", act("chat", "say"));
    assert_eq!(server.result(&plain).await["isError"], true);
    // An accepted call gets a task.
    let created = server
        .result(&Post::legacy(Some(&session), "tools/call", act_as_task("greet", "say")))
        .await;
    let task = task_of(&created);
    server.poll(&task, "completed").await;
    let get = Post::legacy(Some(&session), "tasks/get", json!({"taskId": task}));
    assert_eq!(server.result(&get).await["status"], "failed");
}

#[tokio::test]
async fn a_legacy_client_that_waits_is_asked_on_the_stream_of_its_call() {
    let server = server().await;
    let session = server.session_that_can_be_asked().await;
    let call = Post::legacy(Some(&session), "tools/call", act("either", "say"));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    client.head().await;
    let asked = request(&mut client).await;
    let post = response(&session, &asked, accept("user_name", "Alice"));
    assert_eq!(server.connect().await.exchange(&post).await.status(), 202);
    let rest = client.messages(&call).await;
    assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], "Alice");
}

/// A client that requests a task gets its id first, and is asked within the task.
#[tokio::test]
async fn g1_11_a_legacy_task_is_announced_before_its_tool_asks() {
    let server = server().await;
    let session = server.session_that_can_be_asked().await;
    let mut push = server.listen(&session).await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("either", "say"));
    let created = server.result(&call).await;
    assert_eq!(created["task"]["status"], "working");
    let task = task_of(&created);
    server.poll(&task, "input_required").await;
    assert_eq!(server.stage.begun.get(), 0, "nothing began before it was answered");
    let asked = loop {
        let message = push.pushed().await;
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], task.as_str());
    let post = response(&session, &asked, accept("user_name", "Alice"));
    assert_eq!(server.connect().await.exchange(&post).await.status(), 202);
    let done = server.poll(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Alice");
}

/// A cancelled task asks no more questions, and its work does not begin.
#[tokio::test]
async fn a_task_is_cancelled_while_its_tool_asks_first() {
    let server = server().await;
    let session = server.session_that_can_be_asked().await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("either", "say"));
    let task = task_of(&server.result(&call).await);
    server.poll(&task, "input_required").await;
    server
        .result(&Post::modern("tasks/cancel", json!({"taskId": task})))
        .await;
    server.poll(&task, "cancelled").await;
    assert_eq!(server.stage.begun.get(), 0);
}

/// Reports progress, and asks nothing.
struct Counts;

impl Intake for Counts {
    fn take(self: Arc<Self>, arguments: Json, cx: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>> {
        cx.progress(5.0, None, None);
        Box::pin(std::future::ready(Ok(arguments)))
    }
}

#[tokio::test]
async fn u_01_progress_rises_from_the_intake_on() {
    let server = Server::start().await;
    let settings = ToolSettings {
        intake: Some(Arc::new(Counts)),
        ..server.stage.settings("counting", TaskPolicy::Never)
    };
    server.engine.put_tool(Tool::new(settings).unwrap()).await.unwrap();
    let post = Post::modern_plain("tools/call", act("counting", "tell 1 7")).progress_token(json!("t"));
    let mut client = server.connect().await;
    client.send(&post.to_bytes()).await;
    assert!(client.head().await.is_stream());
    let messages = client.messages(&post).await;
    let figures: Vec<&Value> = messages.iter().map(|message| &message["params"]["progress"]).collect();
    assert_eq!(figures, [&json!(5), &json!(7), &json!(null)]);
}
