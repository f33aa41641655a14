//! What is offered changes while the server runs.

use crate::{ERAS, connect, start};
use longhaul::{ChangeError, Era, Prompt, Resource, TaskContext, Tool, ToolResult};
use serde_json::json;

#[tokio::test]
async fn tools_are_added_and_removed() {
    let server = start(|server| server.tool(Tool::new("first", async || "1"))).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        server.put_tool(Tool::new("second", async || "2")).await.unwrap();
        assert_eq!(client.call("second", json!({})).await.unwrap().text(), "2");
        server.put_tool(Tool::new("first", async || "one")).await.unwrap();
        assert_eq!(client.call("first", json!({})).await.unwrap().text(), "one");
        assert!(server.remove_tool("second") && !server.remove_tool("second"));
        assert_eq!(client.call("second", json!({})).await.unwrap_err().code, -32602);
        server.put_tool(Tool::new("first", async || "1")).await.unwrap();
    }
}

#[tokio::test]
async fn prompts_and_resources_are_added_and_removed() {
    let server = start(|server| {
        server
            .prompt(Prompt::new("p", async || ""))
            .resource(Resource::text("x://a", ""))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        server.put_prompt(Prompt::new("q", async || "new")).unwrap();
        assert_eq!(
            client.get_prompt("q", json!({})).await.unwrap()["messages"][0]["content"]["text"],
            "new"
        );
        assert!(server.remove_prompt("q"));
        assert!(client.get_prompt("q", json!({})).await.is_err());
        server.put_resource(Resource::text("x://b", "b")).unwrap();
        assert_eq!(client.read("x://b").await.unwrap()[0]["text"], "b");
        assert!(server.remove_resource("x://b"));
        assert!(client.read("x://b").await.is_err());
    }
}

/// A mistake changes nothing.
#[tokio::test]
async fn an_invalid_definition_is_refused() {
    let server = start(|server| server.tool(Tool::new("first", async || "1"))).await;
    let wrong = server.put_tool(Tool::new("not a name", async || "")).await.unwrap_err();
    assert!(matches!(&wrong, ChangeError::Definition(_)), "{wrong}");
    assert_eq!(connect(&server, Era::Modern).await.tools().await.unwrap().len(), 1);
}

/// A handler can change its server.
#[tokio::test]
async fn a_tool_may_add_another() {
    let adds = async |cx: TaskContext| -> ToolResult<&'static str> {
        cx.server().put_tool(Tool::new("added", async || "I was added")).await?;
        Ok("added")
    };
    let server = start(|server| server.tool(Tool::new("add", adds))).await;
    let client = connect(&server, Era::Modern).await;
    client.call("add", json!({})).await.unwrap();
    assert_eq!(client.call("added", json!({})).await.unwrap().text(), "I was added");
}

#[tokio::test]
async fn changing_a_stopped_server_is_an_error() {
    let server = start(|server| server.tool(Tool::new("first", async || "1"))).await;
    let client = connect(&server, Era::Modern).await;
    server.stop().await;
    assert!(matches!(
        server.put_tool(Tool::new("t", async || "")).await,
        Err(ChangeError::Stopped)
    ));
    assert!(!server.remove_tool("first"));
    assert!(client.call("first", json!({})).await.is_err());
}
