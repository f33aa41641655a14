//! Calls of tools that the author answers.

use super::{Members, capabilities, connect_http};
use crate::{ERAS, connect, start};
use longhaul::{
    CallAnswer, Era, Error, RawJson, RequestContext, Server, ServerHandle, StepError, TaskContext, Tool, ToolCall,
    ToolResult, schemars::JsonSchema, testing::Client,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[derive(Deserialize, JsonSchema)]
struct Year {
    year: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Consent {
    agreed: bool,
}

async fn list(_: RequestContext, _: Members) -> Result<RawJson, Error> {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}, "com.example/made": true});
    Ok(json!({"tools": [tool("raw"), tool("render")]}).into())
}

async fn call(cx: RequestContext, call: ToolCall) -> Result<CallAnswer, Error> {
    match &*call.name {
        "raw" => {
            let text = format!(
                "{} {} {}",
                call.arguments.as_str(),
                call.meta["com.example/k"],
                call.takes_task
            );
            Ok(CallAnswer::result(json!({
                "content": [{"type": "text", "text": text}], "isError": true, "com.example/extra": [1],
            })))
        }
        "ask" => {
            let consent: Consent = cx.elicit("Go on?").key("consent").await?;
            Ok(CallAnswer::text(consent.agreed.to_string()))
        }
        "render" | "confirm" => Ok(CallAnswer::call_of(&*call.name, call.arguments)),
        "year" => {
            let Year { year } = call.arguments()?;
            Ok(CallAnswer::text(year.to_string()))
        }
        "broken" => Err(Error::rpc(7, "the disk is gone").with_data(json!({"disk": 1}))),
        "lost" => Ok(CallAnswer::call_of("gone", json!({}))),
        "text" => Ok(CallAnswer::result(Value::from("no object"))),
        _ => Err(Error::not_found()),
    }
}

async fn render(cx: TaskContext, args: Year) -> ToolResult<String> {
    let frames = cx.step("render", async || Ok::<_, StepError>(24)).await?;
    Ok(format!("{frames} frames of {}", args.year))
}

async fn confirm(cx: TaskContext) -> ToolResult<String> {
    let consent: Consent = cx.elicit("Sure?").key("sure").await?;
    Ok(format!("confirmed: {}", consent.agreed))
}

fn answering(server: Server, calls: &Arc<AtomicUsize>) -> Server {
    let calls = Arc::clone(calls);
    server
        .tool(Tool::durable("render", render))
        .tool(Tool::new("confirm", confirm))
        .method("tools/list", list)
        .method("tools/call", move |cx: RequestContext, of: ToolCall| {
            calls.fetch_add(1, Ordering::Relaxed);
            call(cx, of)
        })
}

async fn consenting(server: &ServerHandle, era: Era) -> Client {
    let answer = |_: &Value| json!({"action": "accept", "content": {"agreed": true}});
    Client::connect(server, era).answering(answer).await.unwrap()
}

#[tokio::test]
async fn an_author_answers_calls_as_they_come() {
    let calls = Arc::default();
    let server = start(|server| answering(server, &calls)).await;
    for era in ERAS {
        let client = consenting(&server, era).await;
        let listed = client.request("tools/list", json!({})).await.unwrap();
        assert_eq!(listed["tools"][0]["com.example/made"], true, "{listed}");

        // Whatever the arguments are, and whether or not there is such a tool: the result is sent as it is.
        let params = json!({"name": "raw", "arguments": {"b": 1.0, "a": [null]}, "_meta": {"com.example/k": "v"}});
        let result = client.request("tools/call", params).await.unwrap();
        let modern = era == Era::Modern;
        assert_eq!(
            result["content"][0]["text"],
            format!(r#"{{"b":1.0,"a":[null]}} "v" {modern}"#)
        );
        assert_eq!(
            (&result["isError"], &result["com.example/extra"]),
            (&json!(true), &json!([1]))
        );
        assert_eq!(result.get("resultType").is_some(), modern, "{result}");

        // It can ask, in rounds where the era has them.
        assert_eq!(client.call("ask", json!({})).await.unwrap().text(), "true");

        let unknown = client.call("other", json!({})).await.unwrap_err();
        assert_eq!((unknown.code, &*unknown.message), (-32602, "Unknown tool: other"));
        let broken = client.call("broken", json!({})).await.unwrap_err();
        assert_eq!((broken.code, &broken.data), (7, &json!({"disk": 1})));
        let wrong = client.call("year", json!({"year": "x"})).await.unwrap_err();
        assert!(
            wrong.code == -32602 && wrong.message.starts_with("arguments: "),
            "{wrong}"
        );
        assert_eq!(client.call("text", json!({})).await.unwrap_err().code, -32603);
        // What the protocol does not allow does not reach the author.
        let before = calls.load(Ordering::Relaxed);
        let nameless = client
            .request("tools/call", json!({"arguments": {}}))
            .await
            .unwrap_err();
        let listed = client
            .request("tools/call", json!({"name": "raw", "arguments": []}))
            .await
            .unwrap_err();
        assert_eq!((nameless.code, listed.code), (-32602, -32602));
        assert_eq!(calls.load(Ordering::Relaxed), before);
    }
}

#[tokio::test]
async fn a_call_is_a_task_if_its_author_passes_it_on_to_a_tool() {
    let calls = Arc::default();
    let server = start(|server| answering(server, &calls)).await;
    for era in ERAS {
        let client = consenting(&server, era).await;
        let task = client.start("render", json!({"year": 2026})).await.unwrap();
        assert_eq!(task.wait().await.unwrap().text(), "24 frames of 2026");
        // A plain call of the tool, where the client wants no task.
        let plain = Client::connect(&server, era)
            .declaring(json!({"elicitation": {"form": {}}}))
            .answering(|_| json!({"action": "accept", "content": {"agreed": true}}))
            .await
            .unwrap();
        let rendered = plain
            .request("tools/call", json!({"name": "render", "arguments": {"year": 1}}))
            .await
            .unwrap();
        assert_eq!(rendered["content"][0]["text"], "24 frames of 1", "{rendered}");
        // The questions of the tool are answered to the tool, and the author is not asked again.
        calls.store(0, Ordering::Relaxed);
        assert_eq!(
            plain.call("confirm", json!({})).await.unwrap().text(),
            "confirmed: true"
        );
        assert_eq!(calls.load(Ordering::Relaxed), 1);

        let wrong = plain.call("render", json!({"year": "x"})).await.unwrap();
        assert!(wrong.is_error(), "{wrong:?}");
        let lost = plain.call("lost", json!({})).await.unwrap_err();
        assert!(lost.code == -32603 && lost.message.contains("the tool gone"), "{lost}");
    }
    // A legacy client that asks for a task gets the author's result, which is none.
    let legacy = connect(&server, Era::Legacy).await;
    let params = json!({"name": "raw", "task": {}, "_meta": {"com.example/k": 1}});
    let result = legacy.request("tools/call", params).await.unwrap();
    assert_eq!(result["content"][0]["text"], "{} 1 true");
}

/// A call under an idempotency key is one task, also if the author passes it on each time.
#[tokio::test]
async fn a_call_that_is_passed_on_keeps_its_idempotency_key() {
    let calls = Arc::default();
    let server = start(|server| answering(server, &calls)).await;
    let client = connect(&server, Era::Modern).await;
    let params = json!({"name": "render", "arguments": {"year": 3}, "_meta": {"dev.longhaul/idempotency-key": "k"}});
    let first = client.request("tools/call", params.clone()).await.unwrap();
    let second = client.request("tools/call", params).await.unwrap();
    assert!(first["taskId"].is_string(), "{first}");
    assert_eq!(first["taskId"], second["taskId"]);
}

/// Clients rely on what is declared: a key that is not remembered, and a task that there cannot be, are not.
#[tokio::test]
async fn tasks_and_keys_are_declared_as_far_as_the_author_leaves_them() {
    let calls = Arc::default();
    let with_tools = start(|server| answering(server, &calls)).await;
    let without = start(|server| server.method("tools/list", list).method("tools/call", call)).await;
    for era in ERAS {
        let client = connect(&with_tools, era).await;
        let declared = capabilities(&client, era).await;
        let (tasks, own) = match era {
            Era::Legacy => (&declared["tasks"], &declared["experimental"]),
            Era::Modern => (
                &declared["extensions"]["io.modelcontextprotocol/tasks"],
                &declared["extensions"],
            ),
        };
        assert!(
            tasks.is_object() && own.get("dev.longhaul/idempotency").is_none(),
            "{declared}"
        );
        let client = connect(&without, era).await;
        let declared = capabilities(&client, era).await;
        assert!(declared["tools"].is_object(), "{declared}");
        for absent in ["tasks", "experimental", "extensions"] {
            assert!(declared.get(absent).is_none(), "{declared}");
        }
        let params = json!({"name": "raw", "task": {}, "_meta": {"com.example/k": 1}});
        assert_eq!(client.request("tools/call", params).await.unwrap()["isError"], true);
    }
}

#[tokio::test]
async fn calls_are_answered_over_http_as_text_of_any_type() {
    let server = start(|server| {
        server
            .method("tools/list", list)
            .method("tools/call", async |_: RequestContext, params: RawJson| {
                Ok::<RawJson, Error>(json!({"content": [], "structuredContent": {"got": params.as_str()}}).into())
            })
    })
    .await;
    for era in ERAS {
        let (client, _) = connect_http(&server, era).await;
        let params = json!({"name": "raw", "arguments": {"n": 1e300}});
        let result = client.send("tools/call", params).await.unwrap();
        let result: Value = serde_json::from_str(result.as_str()).unwrap();
        let got = result["structuredContent"]["got"].as_str().unwrap();
        assert!(
            got.contains(r#""name":"raw""#) && got.contains(r#"{"n":1e+300}"#) || got.contains("1e300"),
            "{got}"
        );
        assert_eq!(got.contains("_meta"), era == Era::Modern, "{got}");
    }
}

#[tokio::test]
async fn what_is_only_for_calls_is_refused_for_other_methods() {
    let wrong = Server::new("test", "1")
        .method("com.example/x", call)
        .method("com.example/y", async |_: RequestContext, _: ToolCall| {
            Ok::<_, Error>(Members::new())
        });
    let wrong = wrong.start().await.unwrap_err().to_string();
    for name in ["x", "y"] {
        let line = format!("method `com.example/{name}`: its function takes or returns what is only for `tools/call`");
        assert!(wrong.contains(&line), "{wrong}");
    }
}
