//! What tools return, and how they fail.

use crate::{ERAS, connect, start};
use longhaul::{Content, Era, Error, Json, Tool, ToolOutput, ToolResult, schemars::JsonSchema};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[tokio::test]
async fn structured_output_comes_with_its_schema_and_as_text() {
    let server = start(|server| server.tool(Tool::new("sum", async || Json(Sum { sum: 3 })))).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let called = client.call("sum", json!({})).await.unwrap();
        assert_eq!(called.structured(), &json!({"sum": 3}));
        assert_eq!(
            serde_json::from_str::<Value>(&called.text()).unwrap(),
            json!({"sum": 3})
        );
        let tools = client.tools().await.unwrap();
        assert_eq!(tools[0]["outputSchema"]["properties"]["sum"]["type"], "integer");
    }
}

/// A legacy client gets structured content only if it is an object.
#[tokio::test]
async fn a_list_is_text_to_legacy_clients() {
    let server = start(|server| server.tool(Tool::new("list", async || Json(vec![1, 2])))).await;
    for era in ERAS {
        let called = connect(&server, era).await.call("list", json!({})).await.unwrap();
        assert_eq!(called.text(), "[1,2]");
        let structured = match era {
            Era::Legacy => Value::Null,
            Era::Modern => json!([1, 2]),
        };
        assert_eq!(called.structured(), &structured);
    }
}

/// It is the server's fault, and never stored as a success.
#[tokio::test]
async fn an_output_that_breaks_its_schema_is_an_error() {
    let schema = json!({"type": "object", "required": ["sum"]});
    let broken = || async { ToolOutput::json(&json!({"total": 3})) };
    let server = start(|server| {
        server
            .tool(Tool::new("broken", broken).output_schema(schema.clone()))
            .tool(Tool::new("missing", async || "3").output_schema(schema))
            .tool(Tool::new("failing", async || {
                ToolResult::<Json<Sum>>::Err(Error::new("no sum today"))
            }))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        for tool in ["broken", "missing"] {
            let failure = client.call(tool, json!({})).await.unwrap_err();
            assert_eq!(failure.code, -32603);
            assert!(failure.message.contains("output schema"), "{failure}");
        }
        let called = client.call("failing", json!({})).await.unwrap();
        assert_eq!((called.is_error(), called.text().as_str()), (true, "no sum today"));
    }
}

/// A result is part of a message, which may be nested 100 levels deep.
#[tokio::test]
async fn an_output_nested_too_deep_is_an_error() {
    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!([]), |inner, _| json!([inner]))
    }
    let server = start(|server| {
        server
            .tool(Tool::new("deepest", async || ToolOutput::json(&nested(97))))
            .tool(Tool::new("too_deep", async || ToolOutput::json(&nested(98))))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let deepest = client.call("deepest", json!({})).await.unwrap();
        assert_eq!(deepest.text(), nested(97).to_string());
        let too_deep = client.call("too_deep", json!({})).await.unwrap();
        assert!(too_deep.is_error(), "{too_deep:?}");
        assert!(too_deep.text().contains("nested deeper than 98 levels"), "{too_deep:?}");
    }
}

#[tokio::test]
async fn an_output_may_have_blocks_of_every_kind() {
    let blocks = async || {
        ToolOutput::text("a chart:")
            .with(Content::image("image/png", [1, 2, 3]).priority(1.0))
            .with(Content::resource_link("charts://1", "chart"))
    };
    let server = start(|server| server.tool(Tool::new("chart", blocks))).await;
    for era in ERAS {
        let called = connect(&server, era).await.call("chart", json!({})).await.unwrap();
        let kinds: Vec<&Value> = called.result["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| &block["type"])
            .collect();
        assert_eq!(kinds, ["text", "image", "resource_link"]);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the printer is out of paper")]
struct OutOfPaper(#[source] std::io::Error);

/// The model reads an author's error as a result. A JSON-RPC error keeps its code unless that is one of MCP's. Details of internal errors
/// are only logged.
#[tokio::test]
async fn clients_read_the_text_of_errors_and_not_their_sources() {
    let print = async || -> Result<(), Error> { Err(OutOfPaper(std::io::Error::other("/dev/lp0: secret")))? };
    let server = start(|server| {
        server
            .tool(Tool::new("print", print))
            .tool(Tool::new("own", async || {
                Err::<(), _>(Error::rpc(1001, "busy").with_data(json!({"minutes": 5})))
            }))
            .tool(Tool::new("reserved", async || Err::<(), _>(Error::rpc(-32001, "mine"))))
            .tool(Tool::new("json_rpc", async || Err::<(), _>(Error::rpc(-32600, "mine"))))
            .tool(Tool::new("inside", async || {
                Err::<(), _>(Error::internal("password hunter2 was refused"))
            }))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let print = client.call("print", json!({})).await.unwrap();
        assert_eq!(
            (print.is_error(), print.text().as_str()),
            (true, "the printer is out of paper")
        );
        let own = client.call("own", json!({})).await.unwrap_err();
        assert_eq!(
            (own.code, own.message.as_str(), own.data),
            (1001, "busy", json!({"minutes": 5}))
        );
        assert_eq!(client.call("reserved", json!({})).await.unwrap_err().code, -32603);
        assert_eq!(client.call("json_rpc", json!({})).await.unwrap_err().code, -32600);
        let inside = client.call("inside", json!({})).await.unwrap();
        assert!(
            inside.is_error() && !inside.text().contains("hunter2"),
            "{}",
            inside.text()
        );
    }
}
