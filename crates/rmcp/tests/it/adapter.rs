//! Definitions, results and notifications of an rmcp handler behind Longhaul.

use crate::{ERAS, connect, start};
use longhaul::{Era, Server, TaskPolicy, time::seconds};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, PaginatedRequestParams, ServerCapabilities,
        ServerConfig,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use std::{collections::HashSet, sync::atomic::Ordering};

#[tokio::test]
async fn definitions_are_listed_unchanged_and_in_order() {
    let (server, state) = start().await;
    while state.initialized.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    for era in ERAS {
        let client = connect(&server, era).await;
        let tools = client.tools().await.unwrap();
        let echo = tools[0].as_object().unwrap();
        let expected = [
            ("name", json!("echo")),
            ("title", json!("Echo")),
            ("description", json!("Returns its text")),
            (
                "inputSchema",
                json!({"type": "object", "properties": {"text": {"type": "string", "x-unknown": [1, 2.5]}}, "required": ["text"]}),
            ),
            (
                "outputSchema",
                json!({"type": "object", "properties": {"text": {"type": "string"}}}),
            ),
            (
                "annotations",
                json!({"title": "Echo!", "readOnlyHint": true, "openWorldHint": false}),
            ),
            (
                "icons",
                json!([{"src": "https://example.com/e.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}]),
            ),
            ("_meta", json!({"com.example/team": {"n": 1}})),
        ];
        for (member, value) in expected {
            assert_eq!(echo[member], value, "{member}");
        }
        assert_eq!(tools[1]["name"], "wait");
        assert!(tools[1].get("description").is_none());
        assert_eq!(tools.len(), 15);
        let prompts = client.request("prompts/list", json!({})).await.unwrap();
        assert_eq!(prompts["prompts"][0]["title"], "A letter");
        assert_eq!(prompts["prompts"][0]["_meta"], json!({"com.example/x": 1}));
        let resources = client.request("resources/list", json!({})).await.unwrap();
        assert_eq!(resources["resources"][0]["size"], 4);
        let templates = client.request("resources/templates/list", json!({})).await.unwrap();
        assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 1);
    }
    // The handler is initialized once for all clients.
    assert_eq!(state.initialized.load(Ordering::SeqCst), 1);
    server.stop().await;
}

#[tokio::test]
async fn the_server_has_the_handlers_name_and_instructions() {
    let (server, _) = start().await;
    let client = connect(&server, Era::Modern).await;
    let discovered = client.request("server/discover", json!({})).await.unwrap();
    assert_eq!(discovered["instructions"], "Ask the desk.");
    let discovered = discovered.to_string();
    for text in ["\"desk\"", "\"2.1.0\"", "The desk", "https://example.com"] {
        assert!(discovered.contains(text), "{text} in {discovered}");
    }
}

#[tokio::test]
async fn results_and_errors_are_forwarded_unchanged() {
    let (server, _) = start().await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let echoed = client.call("echo", json!({"text": "é"})).await.unwrap();
        assert_eq!(echoed.structured(), &json!({"text": "é"}));
        assert_eq!(echoed.result["_meta"]["com.example/cost"], 3);
        assert!(client.call("fails", json!({})).await.unwrap().is_error());
        let broken = client.call("rpc_error", json!({})).await.unwrap_err();
        assert_eq!(
            (broken.code, &*broken.message, broken.data),
            (-32050, "broken", json!({"part": 7}))
        );
        let refused = client.call("panics", json!({})).await.unwrap_err();
        assert_eq!(refused.code, -32603);
        assert!(!refused.message.contains("on purpose"));
        // The server still runs.
        assert!(!client.call("echo", json!({"text": "x"})).await.unwrap().is_error());
    }
}

#[tokio::test]
async fn prompts_resources_and_completions_are_forwarded() {
    let (server, _) = start().await;
    for era in ERAS {
        let client = connect(&server, era).await;
        // The prompt asks a question.
        let letter = client.get_prompt("letter", json!({"to": "Bob"})).await.unwrap();
        assert_eq!(letter["messages"][0]["content"]["text"], "Dear Bob, yours Ann");
        let page = client.read("desk://page/7").await.unwrap();
        assert_eq!(page[0]["text"], "this is desk://page/7");
        assert_eq!(
            client.read("desk://book").await.unwrap()[0]["text"],
            "this is desk://book"
        );
        assert!(client.read("desk://page/13").await.is_err());
        let params = json!({"ref": {"type": "ref/prompt", "name": "letter"}, "argument": {"name": "to", "value": "A"}});
        let completed = client.request("completion/complete", params).await.unwrap();
        assert_eq!(completed["completion"]["values"], json!(["Ada"]));
    }
}

#[tokio::test]
async fn a_slow_tool_is_a_task_that_shows_its_progress() {
    for era in ERAS {
        let (server, state) = start().await;
        let client = connect(&server, era).await;
        let task = client.start("wait", json!({})).await.unwrap();
        state.started.notified().await;
        while task.get().await.unwrap()["statusMessage"] != "halfway" {
            tokio::task::yield_now().await;
        }
        state.resume.notify_one();
        assert_eq!(task.wait().await.unwrap().text(), "done");
        server.stop().await;
    }
}

#[tokio::test]
async fn the_handler_sees_the_clients_name_capabilities_and_meta() {
    let (server, _) = start().await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let trace = json!({
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "com.example/locale": {"is": ["de", null]},
        });
        let params = json!({"name": "whoami", "arguments": {}, "_meta": trace});
        let mut result = client.send("tools/call", params).await.unwrap();
        if result["resultType"] == "task" {
            result = loop {
                let state = client
                    .request("tasks/get", json!({"taskId": result["taskId"]}))
                    .await
                    .unwrap();
                if state["status"] == "completed" {
                    break state["result"].clone();
                }
                tokio::task::yield_now().await;
            };
        }
        let seen: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(seen["client"]["name"], "longhaul-testing");
        assert_eq!(seen["can"]["elicitation"], json!({"form": {}, "url": {}}));
        assert_eq!(seen["can"]["sampling"], json!({"tools": {}}));
        assert_eq!(seen["meta"]["traceparent"], trace["traceparent"]);
        assert_eq!(seen["meta"]["com.example/locale"], trace["com.example/locale"]);
        // Members that concern the connection between client and Longhaul are removed.
        let keys = seen["meta"].as_object().unwrap().keys();
        assert!(keys.clone().all(|key| !key.contains("modelcontextprotocol")), "{seen}");
    }
}

/// So a handler can use them as keys.
#[tokio::test]
async fn each_call_has_an_id_and_a_progress_token_of_its_own() {
    let (server, _) = start().await;
    let mut seen = HashSet::new();
    for era in ERAS {
        let clients = [connect(&server, era).await, connect(&server, era).await];
        for client in clients.iter().chain(&clients) {
            let result = client.call("whoami", json!({})).await.unwrap();
            let result: Value = serde_json::from_str(&result.text()).unwrap();
            assert!(seen.insert(result["id"].to_string()), "{result}");
            assert_eq!(result["meta"]["progressToken"], result["id"]);
        }
    }
}

#[tokio::test]
async fn elicitation_complete_is_forwarded() {
    let (server, _) = start().await;
    let client = connect(&server, Era::Legacy).await;
    client.call("page", json!({})).await.unwrap();
    let done = client.notification("notifications/elicitation/complete").await.unwrap();
    assert_eq!(done["elicitationId"], "page-7");
}

/// Larger than the buffers on the way.
#[tokio::test]
async fn large_arguments_and_results_are_forwarded() {
    let (server, _) = start().await;
    let big = "x".repeat(1 << 20);
    for era in ERAS {
        let client = connect(&server, era).await;
        let echoed = client.call("echo", json!({"text": big})).await.unwrap();
        assert!(echoed.structured()["text"] == *big, "{era:?}");
    }
}

/// At once, and not only when it is dropped 10 s later.
#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_tool() {
    for era in ERAS {
        let (server, state) = start().await;
        let client = connect(&server, era).await;
        let task = client.start("stops_if_cancelled", json!({})).await.unwrap();
        state.started.notified().await;
        #[expect(clippy::disallowed_methods, reason = "the time of the test's own runtime")]
        let before = tokio::time::Instant::now();
        task.cancel().await.unwrap();
        state.dropped.notified().await;
        assert!(before.elapsed() < seconds(10));
        while task.get().await.unwrap()["status"] != "cancelled" {
            tokio::task::yield_now().await;
        }
        server.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_its_cancellation_is_dropped() {
    let (server, state) = start().await;
    let client = connect(&server, Era::Modern).await;
    let task = client.start("ignores_cancel", json!({})).await.unwrap();
    state.started.notified().await;
    #[expect(clippy::disallowed_methods, reason = "the time of the test's own runtime")]
    let before = tokio::time::Instant::now();
    task.cancel().await.unwrap();
    assert_eq!(task.get().await.unwrap()["status"], "working");
    state.dropped.notified().await;
    assert!(before.elapsed() >= seconds(10));
    assert_eq!(task.next().await.unwrap()["status"], "cancelled");
}

#[tokio::test]
async fn calls_are_dropped_when_the_server_stops() {
    let (server, state) = start().await;
    let client = connect(&server, Era::Modern).await;
    client.start("ignores_cancel", json!({})).await.unwrap();
    state.started.notified().await;
    server.stop().await;
    state.dropped.notified().await;
}

#[tokio::test]
async fn a_list_that_changes_is_read_again() {
    let (server, _) = start().await;
    let client = connect(&server, Era::Legacy).await;
    client.call("change_tools", json!({})).await.unwrap();
    loop {
        client.notification("notifications/tools/list_changed").await.unwrap();
        let tools = client.tools().await.unwrap();
        let named = |name: &str| tools.iter().any(|tool| tool["name"] == name);
        if named("added") && !named("roots") {
            break;
        }
    }
}

#[tokio::test]
async fn updates_of_resources_are_passed_on() {
    let (server, state) = start().await;
    // Some handlers notify only subscribers.
    while state.subscribed.lock().unwrap().as_slice() != ["desk://book"] {
        tokio::task::yield_now().await;
    }
    let client = connect(&server, Era::Legacy).await;
    let book = json!({"uri": "desk://book"});
    client.request("resources/subscribe", book.clone()).await.unwrap();
    client.call("update_resource", json!({})).await.unwrap();
    assert_eq!(
        client.notification("notifications/resources/updated").await.unwrap()["uri"],
        book["uri"]
    );
    server.stop().await;
}

#[tokio::test]
async fn the_author_can_configure_a_tool() {
    let served = longhaul_rmcp::server(crate::test_handler::TestHandler::default());
    let server = served
        .tool("wait", |tool| tool.task(TaskPolicy::Never).title("Waits"))
        .await
        .unwrap();
    let client = server.in_memory(Era::Legacy).await.unwrap();
    assert_eq!(client.tools().await.unwrap()[1]["title"], "Waits");
    assert!(client.start("wait", json!({})).await.is_err());
}

#[tokio::test]
async fn configuring_an_unknown_tool_is_an_error() {
    let served = longhaul_rmcp::server(crate::test_handler::TestHandler::default()).tool("wiat", |tool| tool);
    let error = served.await.map(|_: Server| ()).unwrap_err().to_string();
    assert!(error.contains("wiat") && error.contains("wait"), "{error}");
}

/// Declares resources and does not serve `resources/templates/list`.
struct WithoutTemplates;

impl ServerHandler for WithoutTemplates {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_resources().build())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }
}

#[tokio::test]
async fn a_list_that_the_handler_does_not_serve_is_empty() {
    let server = longhaul_rmcp::server(WithoutTemplates).await.unwrap();
    let client = server.in_memory(Era::Modern).await.unwrap();
    let templates = client.request("resources/templates/list", json!({})).await;
    assert_eq!(
        templates.map_or(json!([]), |list| list["resourceTemplates"].clone()),
        json!([])
    );
}
