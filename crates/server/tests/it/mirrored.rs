//! Arguments that headers mirror: checked in the order of the protocol, for modern calls over HTTP alone.

use crate::{request::Post, server::Server};
use longhaul_core::TaskPolicy;
use longhaul_runtime::ToolSettings;
use serde_json::{Value, json};

/// Offers a tool whose argument `act` is mirrored as the annotation says.
async fn offer(server: &Server, policy: TaskPolicy, annotation: Value) {
    let act = json!({"type": "string", "x-mcp-header": annotation});
    let settings = ToolSettings {
        input_schema: json!({"type": "object", "properties": {"act": act}}),
        ..server.stage.settings("mirrored", policy)
    };
    server.put_tool(settings).await;
}

fn call(arguments: Value) -> Post {
    Post::modern("tools/call", json!({"name": "mirrored", "arguments": arguments}))
}

#[tokio::test]
async fn a_modern_call_is_compared_with_its_headers() {
    let server = Server::start().await;
    offer(&server, TaskPolicy::Optional, json!("Act")).await;
    let mut client = server.connect().await;
    let wait = || call(json!({"act": "wait"}));
    for same in ["wait", " wait ", "=?base64?d2FpdA==?="] {
        // A header that no tool mirrors is ignored.
        let call = wait().with("Mcp-Param-Act", same).with("Mcp-Param-Other", "x");
        client.task(&call).await;
    }
    assert_eq!(client.error(&wait()).await, (400, -32020), "missing");
    for other in ["Wait", "d2FpdA==", "=?base64?d2FpdA?=", "=?base64?d2F!!A==?="] {
        let refused = client.error(&wait().with("mcp-param-act", other)).await;
        assert_eq!(refused, (400, -32020), "{other}");
    }
    let twice = wait().with("Mcp-Param-Act", "wait").and("mcp-param-act", "wait");
    assert_eq!(client.error(&twice).await, (400, -32020));
    let absent = call(json!({})).with("Mcp-Param-Act", "wait");
    assert_eq!(client.error(&absent).await, (400, -32020));
    client.task(&wait().with("Mcp-Param-Act", "wait")).await;
    server.stage.begun.reaches(4).await;
    assert_eq!(server.stage.begun.get(), 4, "nothing refused was begun");
}

#[tokio::test]
async fn headers_come_before_the_gate_and_the_arguments() {
    let server = Server::start().await;
    offer(&server, TaskPolicy::Always, json!("Act")).await;
    let mut client = server.connect().await;
    assert_eq!(client.error(&Post::plain_call("mirrored", "wait")).await, (400, -32020));
    let bare = Post::modern_plain("tools/call", json!({"name": "mirrored", "arguments": {}}));
    assert_eq!(client.error(&bare).await, (400, -32021));
    // A value that no header can carry is checked with the arguments.
    let refused = client.result(&call(json!({"act": ["wait"]}))).await;
    assert_eq!(refused["isError"], true);
}

#[tokio::test]
async fn a_legacy_call_mirrors_nothing() {
    let server = Server::start().await;
    offer(&server, TaskPolicy::Optional, json!("Act")).await;
    let session = server.session().await;
    let call = Post::legacy_task(Some(&session), "mirrored", "wait");
    server.task(&call).await;
}

/// The annotations are those of the tool that is offered now; an invalid one is ignored.
#[tokio::test]
async fn a_replaced_tool_asks_for_its_own_headers() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let wait = || call(json!({"act": "wait"}));
    offer(&server, TaskPolicy::Optional, json!("Act")).await;
    assert_eq!(client.error(&wait()).await, (400, -32020));
    offer(&server, TaskPolicy::Optional, json!("Other")).await;
    assert_eq!(client.error(&wait().with("Mcp-Param-Act", "wait")).await, (400, -32020));
    client.task(&wait().with("Mcp-Param-Other", "wait")).await;
    offer(&server, TaskPolicy::Optional, json!("no token")).await;
    client.task(&wait()).await;
    server.stage.begun.reaches(2).await;
}
