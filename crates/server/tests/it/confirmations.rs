//! Tools whose calls somebody confirms: what each kind of client sees, and whose answers count.

use crate::{
    questions::request,
    request::{Post, act, act_as_task, everything, everything_and_tasks},
    server::{Server, text, update},
};
use longhaul_core::{ConfirmBy, InputKey, Json, TaskPolicy};
use longhaul_runtime::{ConfirmSettings, HandlerError, Handoff, Intake, RequestContext, ToolSettings};
use serde_json::{Value, json};
use std::sync::Arc;

const QUESTION: &str = "Deploy say?";

fn confirmed(server: &Server, name: &str, by: ConfirmBy) -> ToolSettings {
    let request = |arguments: &Json| {
        let arguments: Value = serde_json::from_str(arguments.as_str()).unwrap();
        let message = format!("Deploy {}?", arguments["act"].as_str().unwrap());
        let form = json!({"type": "object", "properties": {}});
        let params = json!({"mode": "form", "message": message, "requestedSchema": form});
        Json::from(json!({"method": "elicitation/create", "params": params}))
    };
    ToolSettings {
        confirm: Some(ConfirmSettings {
            request: Arc::new(request),
            by,
        }),
        handoff: Handoff::Default,
        ..server.stage.settings(name, TaskPolicy::Optional)
    }
}

async fn server() -> Server {
    let server = Server::start().await;
    for (name, by) in [("deploy", ConfirmBy::Client), ("reset", ConfirmBy::Operator)] {
        server.put_tool(confirmed(&server, name, by)).await;
    }
    server
}

fn asking_client(method: &str, params: Value) -> Post {
    Post::modern_with(method, params, everything_and_tasks())
}

async fn created(server: &Server, tool: &str) -> String {
    let reply = server.result(&asking_client("tools/call", act(tool, "say"))).await;
    assert_eq!(
        (&reply["resultType"], &reply["status"]),
        (&json!("task"), &json!("working"))
    );
    reply["taskId"].as_str().unwrap().to_owned()
}

async fn read(server: &Server, task: &str) -> Value {
    server
        .result(&asking_client("tasks/get", json!({"taskId": task})))
        .await
}

async fn by_operator(server: &Server, task: &str, action: &str) {
    let answer = Json::from(json!({ "action": action }));
    let id = task.parse().unwrap();
    server.engine.answer_any(&id, InputKey::nth(1), answer).await.unwrap();
}

fn in_1(action: &str) -> Value {
    json!({"in-1": {"action": action}})
}

#[tokio::test]
async fn a_modern_client_confirms_its_task() {
    let server = server().await;
    let task = created(&server, "deploy").await;
    let asking = read(&server, &task).await;
    assert_eq!(asking["status"], "input_required");
    assert_eq!(asking["inputRequests"]["in-1"]["params"]["message"], QUESTION);
    // What is not shown to a client that has not declared that it can be asked.
    let unasked = server.result(&Post::modern("tasks/get", json!({"taskId": task}))).await;
    assert_eq!(unasked["status"], "working");
    assert!(unasked.get("inputRequests").is_none() && unasked["statusMessage"].as_str().unwrap().contains("operator"));
    assert_eq!(server.stage.begun.get(), 0);
    server.result(&update(&task, in_1("accept"))).await;
    assert_eq!(server.text_of(&task).await, "done");

    let task = created(&server, "deploy").await;
    server.result(&update(&task, in_1("decline"))).await;
    let failed = read(&server, &task).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["data"]["reason"]),
        (&json!("failed"), &json!("declined"))
    );
    assert!(
        failed["statusMessage"]
            .as_str()
            .unwrap()
            .starts_with("declined by the client's user")
    );
}

#[tokio::test]
async fn a_legacy_client_confirms_its_task() {
    let server = server().await;
    let session = server.session_that_can_be_asked().await;
    for (action, status) in [("accept", "completed"), ("decline", "failed"), ("cancel", "failed")] {
        let call = Post::legacy(Some(&session), "tools/call", act_as_task("deploy", "say"));
        let reply = server.result(&call).await;
        assert_eq!(reply["task"]["status"], "working");
        let task = reply["task"]["taskId"].as_str().unwrap();
        let mut stream = server.stream(&Post::on_task(&session, "tasks/result", task)).await;
        let asked = request(&mut stream).await;
        assert_eq!(asked["params"]["message"], QUESTION);
        server.answer(&session, &asked, json!({ "action": action })).await;
        assert_eq!(server.poll(task, status).await["status"], status);
    }
}

/// Its client sees a task that waits, and every answer of a client is refused.
#[tokio::test]
async fn only_an_operator_confirms_what_clients_must_not() {
    let server = server().await;
    for (action, status) in [("decline", "failed"), ("accept", "completed")] {
        let task = created(&server, "reset").await;
        let seen = read(&server, &task).await;
        assert_eq!((&seen["status"], seen.get("inputRequests")), (&json!("working"), None));
        assert_eq!(seen["statusMessage"], "waits for an operator to confirm it");
        let refused = server.exchange(&update(&task, in_1("accept"))).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        // A response to a request that was never sent.
        let session = server.session_that_can_be_asked().await;
        let forged = json!(format!("{task}.in-1.1"));
        let response = Post::response(&session, &forged, ("result", json!({"action": "accept"})));
        server.exchange(&response).await;
        let invalid = Post::response(&session, &forged, ("result", json!({"action": "accept", "content": 1})));
        server.exchange(&invalid).await;
        assert_eq!(read(&server, &task).await["status"], "working");
        assert_eq!(server.stage.begun.get(), 0);
        by_operator(&server, &task, action).await;
        server.poll(&task, status).await;
    }
}

/// They are not asked in their call: the hand-off says what it waits for, and `task_wait` asks.
#[tokio::test]
async fn plain_callers_are_handed_off_at_once() {
    for era in [0, 1] {
        let server = server().await;
        let session = server.session_that_can_be_asked().await;
        let plain = |tool: &str, arguments: Value| {
            let params = json!({"name": tool, "arguments": arguments});
            match era {
                0 => Post::legacy(Some(&session), "tools/call", params),
                _ => Post::modern_with("tools/call", params, everything()),
            }
        };
        for (tool, waits) in [
            ("deploy", "for its confirmation"),
            ("reset", "for an operator to confirm it"),
        ] {
            let reply = server.result(&plain(tool, json!({"act": "say"}))).await;
            let said = text(&reply);
            assert!(
                said.starts_with(&format!("{tool} has not begun")) && said.contains(waits),
                "{said}"
            );
            let task = said.split([' ', '"']).find(|word| word.len() == 36).unwrap().to_owned();
            let status = text(&server.result(&plain("task_status", json!({"task": task}))).await).to_owned();
            assert!(!status.contains("is still running"), "{status}");
            let wait = plain("task_wait", json!({"task": task, "seconds": 1}));
            if tool == "reset" {
                let still = server.result(&wait).await;
                assert!(text(&still).starts_with("reset has not begun after"), "{still}");
                by_operator(&server, &task, "accept").await;
                assert_eq!(text(&server.result(&wait).await), "done");
            } else if era == 0 {
                let mut client = server.stream(&wait).await;
                let asked = request(&mut client).await;
                assert_eq!(asked["params"]["message"], QUESTION);
                server.answer(&session, &asked, json!({"action": "accept"})).await;
                assert_eq!(text(&client.only_result(&wait).await), "done");
            } else {
                let round = server.result(&wait).await;
                assert_eq!(round["inputRequests"]["in-1"]["params"]["message"], QUESTION);
                let result = server.result(&wait.retry(&round, in_1("decline"))).await;
                assert!(
                    result["isError"] == true && text(&result).contains("declined by the client's user"),
                    "{result}"
                );
            }
        }
    }
}

struct Complete;

impl Intake for Complete {
    fn take(self: Arc<Self>, _: Json, cx: RequestContext) -> crate::stage::HandlerFuture<Json> {
        Box::pin(async move {
            let answer = cx.ask(crate::stage::form("what")).await?;
            let answer: Value = serde_json::from_str(answer.as_str()).unwrap();
            let what = answer["content"]["what"].as_str().unwrap_or("nothing");
            Ok::<_, HandlerError>(Json::from(json!({ "act": what })))
        })
    }
}

/// With the arguments that it has completed, for a legacy client that asks for a task, too.
#[tokio::test]
async fn the_intake_asks_before_the_confirmation() {
    let server = server().await;
    let settings = ToolSettings {
        intake: Some(Arc::new(Complete)),
        ..confirmed(&server, "ask_first", ConfirmBy::Client)
    };
    server.put_tool(settings).await;
    let what = json!({"action": "accept", "content": {"what": "say"}});
    let call = asking_client("tools/call", act("ask_first", "x"));
    let round = server.result(&call).await;
    let retry = call.retry(&round, json!({"what": what}));
    let modern = server.result(&retry).await["taskId"].as_str().unwrap().to_owned();
    let session = server.session_that_can_be_asked().await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("ask_first", "x"));
    let mut stream = server.stream(&call).await;
    let asked = request(&mut stream).await;
    server.answer(&session, &asked, what).await;
    let reply = stream.only_result(&call).await;
    let legacy = reply["task"]["taskId"].as_str().unwrap().to_owned();
    for task in [modern, legacy] {
        let asking = read(&server, &task).await;
        assert_eq!(
            asking["inputRequests"]["in-1"]["params"]["message"], QUESTION,
            "{asking}"
        );
    }
}
