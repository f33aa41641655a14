//! Tools: their arguments, and how they are listed.

use crate::{ERAS, connect, start};
use longhaul::{Era, Icon, TaskContext, Tool, schemars::JsonSchema};
use serde::Deserialize;
use serde_json::{Value, json};

/// Adds two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    /// One of them.
    a: i64,
    b: i64,
}

/// A function may take any of the parameters, and arguments that do not fit are a result that says what to change.
#[tokio::test]
async fn functions_of_every_shape_are_tools() {
    let server = start(|server| {
        server
            .tool(Tool::new("nothing", async || "called"))
            .tool(Tool::new("arguments", async |args: Add| (args.a + args.b).to_string()))
            .tool(Tool::new("context", async |cx: TaskContext| {
                cx.protocol_version().to_owned()
            }))
            .tool(Tool::new("both", async |cx: TaskContext, args: Add| {
                format!("{:?} {}", cx.era(), args.a)
            }))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        assert_eq!(client.call("nothing", json!({})).await.unwrap().text(), "called");
        assert_eq!(
            client.call("arguments", json!({"a": 1, "b": 2})).await.unwrap().text(),
            "3"
        );
        assert!(
            client
                .call("context", json!({}))
                .await
                .unwrap()
                .text()
                .starts_with("20")
        );
        assert_eq!(
            client.call("both", json!({"a": 7, "b": 0})).await.unwrap().text(),
            format!("{era:?} 7")
        );
        let wrong = client.call("arguments", json!({"a": "one", "b": 2})).await.unwrap();
        assert!(wrong.is_error() && wrong.text().contains("a: "), "{}", wrong.text());
        let unknown = client.call("none", json!({})).await.unwrap_err();
        assert_eq!((unknown.code, unknown.message.as_str()), (-32602, "Unknown tool: none"));
    }
}

/// A type may be stricter than its schema: that is reported before the function runs, too.
#[tokio::test]
async fn arguments_that_only_the_type_refuses_are_an_error() {
    #[derive(Deserialize)]
    #[serde(try_from = "u8")]
    struct Even;
    impl TryFrom<u8> for Even {
        type Error = &'static str;
        fn try_from(number: u8) -> Result<Self, Self::Error> {
            if number.is_multiple_of(2) {
                Ok(Self)
            } else {
                Err("an odd number")
            }
        }
    }
    impl JsonSchema for Even {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Even".into()
        }
        fn json_schema(_: &mut longhaul::schemars::SchemaGenerator) -> longhaul::schemars::Schema {
            longhaul::schemars::json_schema!({"type": "integer"})
        }
    }
    #[derive(Deserialize, JsonSchema)]
    struct Args {
        #[expect(dead_code, reason = "it is only deserialized")]
        number: Even,
    }
    let server = start(|server| server.tool(Tool::new("even", async |_: Args| "even"))).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        assert_eq!(client.call("even", json!({"number": 2})).await.unwrap().text(), "even");
        let wrong = client.call("even", json!({"number": 3})).await.unwrap();
        assert!(
            wrong.is_error() && wrong.text().contains("number: an odd number"),
            "{}",
            wrong.text()
        );
    }
}

/// The list has all that the author sets, and an author's schema unchanged.
#[tokio::test]
async fn tools_are_listed_as_described() {
    let own = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "$defs": {"x": {"$anchor": "y"}}});
    let expected = own.clone();
    let server = start(|server| {
        server
            .tool(
                Tool::new("full", async |_: Add| "")
                    .title("Full")
                    .icon(
                        Icon::new("https://acme.example/full.png")
                            .mime_type("image/png")
                            .sizes(["48x48"]),
                    )
                    .read_only()
                    .open_world(false)
                    .meta(json!({"com.example/team": "a"}).as_object().unwrap().clone()),
            )
            .tool(
                Tool::new("own", async |_: Value| "")
                    .description("Mine")
                    .input_schema(own),
            )
    })
    .await;
    for era in ERAS {
        let tools = connect(&server, era).await.tools().await.unwrap();
        let full = tools.iter().find(|tool| tool["name"] == "full").unwrap();
        assert_eq!(full["title"], "Full");
        assert_eq!(full["description"], "Adds two numbers.");
        assert_eq!(full["inputSchema"]["required"], json!(["a", "b"]));
        assert_eq!(full["inputSchema"]["properties"]["a"]["description"], "One of them.");
        assert_eq!(
            full["annotations"],
            json!({"readOnlyHint": true, "openWorldHint": false})
        );
        assert_eq!(full["icons"][0]["sizes"], json!(["48x48"]));
        assert_eq!(full["_meta"]["com.example/team"], "a");
        let own = tools.iter().find(|tool| tool["name"] == "own").unwrap();
        assert_eq!(own["inputSchema"], expected);
    }
}

/// The server's title, website and icons are in both handshakes.
#[tokio::test]
async fn a_server_describes_itself() {
    let server = start(|server| {
        server
            .title("Test server")
            .website("https://acme.example")
            .icon(Icon::new("data:,"))
    })
    .await;
    let modern = connect(&server, longhaul::Era::Modern).await;
    let discovered = modern.request("server/discover", json!({})).await.unwrap();
    let legacy = connect(&server, longhaul::Era::Legacy).await;
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let initialized = legacy.request("initialize", params).await.unwrap();
    let info = json!({
        "name": "test",
        "version": "1.0.0",
        "title": "Test server",
        "websiteUrl": "https://acme.example",
        "icons": [{"src": "data:,"}],
    });
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"], info);
    assert_eq!(initialized["serverInfo"], info);
}

#[tokio::test]
async fn the_immediate_response_is_sent_with_the_task() {
    let render = Tool::new("render", async || "done").immediate_response("Rendering takes some minutes.");
    let server = start(|server| server.tool(render)).await;
    let client = connect(&server, Era::Legacy).await;
    let call = json!({"name": "render", "arguments": {}, "task": {}});
    let created = client.request("tools/call", call).await.unwrap();
    assert_eq!(
        created["_meta"],
        json!({"io.modelcontextprotocol/model-immediate-response": "Rendering takes some minutes."})
    );
}

/// A text, a boxed error and an error type all become an error whose text the client reads.
#[tokio::test]
async fn texts_and_boxed_errors_are_errors() {
    use longhaul::{Error, StepError};
    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    let texts: [fn() -> Result<(), Error>; 4] = [
        || Err("in a text")?,
        || Err(format!("in a {}", "text"))?,
        || Err(Boxed::from("in a text"))?,
        || Err(std::io::Error::other("in a text"))?,
    ];
    for text in texts {
        assert_eq!(text().unwrap_err().to_string(), "in a text");
    }
    let steps: [fn() -> Result<(), StepError>; 3] = [
        || Err("in a text")?,
        || Err(String::from("in a text"))?,
        || Err(Boxed::from("in a text"))?,
    ];
    for step in steps {
        assert_eq!(step().unwrap_err(), StepError::new("in a text"));
    }
    let server = start(|server| {
        server.tool(Tool::new("text", async || -> Result<(), Error> {
            Err("name a file")?;
            Ok(())
        }))
    })
    .await;
    for era in ERAS {
        let failed = connect(&server, era).await.call("text", json!({})).await.unwrap();
        assert!(failed.is_error());
        assert_eq!(failed.text(), "name a file");
    }
}
