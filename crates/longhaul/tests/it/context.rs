//! What a handler knows, and what it reports while it runs.

use crate::{ERAS, connect, start};
use longhaul::{LogLevel, TaskContext, Tool, ToolResult, testing::Client};
use serde_json::json;

#[tokio::test]
async fn a_tool_sees_its_client() {
    let who = async |cx: TaskContext| {
        let client = cx.client().map(|client| client.name);
        let trace = cx.trace().and_then(|trace| trace.traceparent.clone());
        format!(
            "{:?} {client:?} {} {trace:?} {}",
            cx.era(),
            cx.capabilities().sampling,
            cx.principal().as_str()
        )
    };
    let server = start(|server| server.tool(Tool::new("who", who).task(longhaul::TaskPolicy::Never))).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for era in ERAS {
        let client = Client::connect(&server, era)
            .declaring(json!({"sampling": {}}))
            .await
            .unwrap();
        let params = json!({"name": "who", "arguments": {}, "_meta": {"traceparent": trace}});
        let called = client.request("tools/call", params).await.unwrap();
        assert_eq!(
            called["content"][0]["text"],
            format!("{era:?} Some(\"longhaul-testing\") true Some({trace:?}) local")
        );
    }
}

/// Progress and log messages reach the client that wants them while its call runs.
#[tokio::test]
async fn progress_and_log_messages_are_sent() {
    let work = async |cx: TaskContext| -> ToolResult<&'static str> {
        cx.report(1, 2, "half").await?;
        cx.log(LogLevel::Warning, json!({"disk": "nearly full"})).await?;
        Ok("done")
    };
    let server = start(|server| server.tool(Tool::new("work", work).task(longhaul::TaskPolicy::Never))).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let meta = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"});
        let params = json!({"name": "work", "arguments": {}, "_meta": meta});
        let called = client.request("tools/call", params).await.unwrap();
        assert_eq!(called["content"][0]["text"], "done");
        let progress = client.notification("notifications/progress").await.unwrap();
        assert_eq!(progress["progressToken"], "p");
        assert_eq!(
            (&progress["progress"], &progress["message"]),
            (&json!(1), &json!("half"))
        );
        let logged = client.notification("notifications/message").await.unwrap();
        assert_eq!(
            (&logged["level"], &logged["data"]["disk"]),
            (&json!("warning"), &json!("nearly full"))
        );
    }
}
