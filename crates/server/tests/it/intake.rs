//! Tools that ask for what is missing before there is a task.

use crate::{
    questions::request,
    request::{Post, act, everything_and_tasks},
    rounds::{accept, answer},
    server::{Server, cancel, get, task_of, text},
    stage::{HandlerFuture, form},
};
use longhaul_core::{Json, TaskPolicy};
use longhaul_runtime::{Intake, RequestContext, ToolSettings};
use serde_json::{Value, json};
use std::sync::Arc;

/// Asks for a name and passes it to the tool.
struct AskName;

impl Intake for AskName {
    fn take(self: Arc<Self>, _: Json, cx: RequestContext) -> HandlerFuture<Json> {
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
        server.put_tool(settings).await;
    }
    server
}

fn call(tool: &str) -> Post {
    Post::modern_with("tools/call", act(tool, "say"), everything_and_tasks())
}

fn answered(call: &Post, round: &Value) -> Post {
    assert_eq!(round["resultType"], "input_required");
    let asked: Vec<_> = round["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(asked, ["user_name"]);
    assert!(round.get("taskId").is_none());
    call.retry(round, answer("user_name", "Alice")).id(json!(2))
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
        assert_eq!(server.text_of(&task).await, "Alice");
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
    assert_eq!(text(&result), "Alice");
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
    let modern = Post::call("greet", "say");
    assert_eq!(server.error(&modern).await, (400, -32021));
    let session = server.session().await;
    let plain = Post::legacy_call(Some(&session), "chat", "say");
    assert_eq!(server.result(&plain).await["isError"], true);
    // An accepted call gets a task.
    let create = Post::legacy_task(Some(&session), "greet", "say");
    let task = server.task(&create).await;
    server.poll(&task, "completed").await;
    let get = Post::on_task(&session, "tasks/get", &task);
    assert_eq!(server.result(&get).await["status"], "failed");
}

#[tokio::test]
async fn a_legacy_client_that_waits_is_asked_on_the_stream_of_its_call() {
    let server = server().await;
    let session = server.session_that_can_be_asked().await;
    let call = Post::legacy_call(Some(&session), "either", "say");
    let mut client = server.stream(&call).await;
    let asked = request(&mut client).await;
    server.answer(&session, &asked, accept("user_name", "Alice")).await;
    assert_eq!(text(&client.only_result(&call).await), "Alice");
}

/// A client that requests a task gets its id first, and is asked within the task.
#[tokio::test]
async fn g1_11_a_legacy_task_is_announced_before_its_tool_asks() {
    let server = server().await;
    let session = server.session_that_can_be_asked().await;
    let mut push = server.listen(&session).await;
    let call = Post::legacy_task(Some(&session), "either", "say");
    let created = server.result(&call).await;
    assert_eq!(created["task"]["status"], "working");
    let task = task_of(&created);
    server.poll(&task, "input_required").await;
    assert_eq!(server.stage.begun.get(), 0, "nothing began before it was answered");
    let asked = push.next("elicitation/create").await;
    let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], task.as_str());
    server.answer(&session, &asked, accept("user_name", "Alice")).await;
    assert_eq!(server.text_of(&task).await, "Alice");
}

/// A cancelled task asks no more questions, and its work does not begin.
#[tokio::test]
async fn a_task_is_cancelled_while_its_tool_asks_first() {
    let server = server().await;
    let session = server.session_that_can_be_asked().await;
    let task = server.task(&Post::legacy_task(Some(&session), "either", "say")).await;
    server.poll(&task, "input_required").await;
    server.result(&cancel(&task)).await;
    server.poll(&task, "cancelled").await;
    assert_eq!(server.stage.begun.get(), 0);
}

/// Reports progress, and asks nothing.
struct Counts;

impl Intake for Counts {
    fn take(self: Arc<Self>, arguments: Json, cx: RequestContext) -> HandlerFuture<Json> {
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
    server.put_tool(settings).await;
    let post = Post::plain_call("counting", "tell 1 7").progress_token(json!("t"));
    let mut client = server.stream(&post).await;
    let messages = client.messages(&post).await;
    let figures: Vec<&Value> = messages.iter().map(|message| &message["params"]["progress"]).collect();
    assert_eq!(figures, [&json!(5), &json!(7), &json!(null)]);
}
