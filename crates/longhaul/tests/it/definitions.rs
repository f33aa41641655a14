//! Mistakes in definitions: all are reported before the server starts, and each error says what to do.

use longhaul::{
    Error, Prompt, RawJson, RequestContext, Resource, ResourceTemplate, ServeError, Server, Tool, schemars::JsonSchema,
    time::seconds,
};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Nested {
    #[expect(dead_code, reason = "only its schema is used")]
    inner: Vec<u8>,
}

/// Some of the variables are in the template below, others are not.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Row {
    table: String,
    id: u64,
    column: Option<String>,
}

#[tokio::test]
async fn all_mistakes_are_reported_at_once() {
    let method = async |_: RequestContext, params: RawJson| Ok::<_, Error>(params);
    let notification = async |_: RequestContext, _: RawJson| Ok::<_, Error>(());
    let server = Server::new("wrong", "1.0.0")
        .tool(Tool::new("my tool", async || ""))
        .tool(Tool::new("text", async |_: String| ""))
        .tool(Tool::new("twice", async || ""))
        .tool(Tool::new("twice", async || ""))
        .prompt(Prompt::new("nested", async |_: Nested| ""))
        .prompt(Prompt::new("typo", async || "").complete_from("langauge", ["rust"]))
        .resource(Resource::text("readme", "no scheme"))
        .template(ResourceTemplate::new("x://{", async || ""))
        .template(ResourceTemplate::new("row://{table}", async |_: Row| ""))
        .tool(
            Tool::new("kind", async || "")
                .input_schema(json!({"type": "object", "properties": {"a": {"type": "text"}}})),
        )
        .tool(
            Tool::new("elsewhere", async || "").input_schema(json!({"type": "object", "$ref": "https://a.example/b"})),
        )
        .tool(
            Tool::new("many", async || "")
                .input_schema(json!({"type": "object", "properties": {"tags": {"$ref": "#/$defs/Tags"}}, "$defs": {"Tags": {"type": "array"}}}))
                .unique("{tags}"),
        )
        .tool(Tool::new("whispers", async || "").secrets(["token"]))
        .tool(
            Tool::new("compares", async |_: Row| "")
                .secrets(["table"])
                .unique("{table}"),
        )
        .tool(
            Tool::new("tells", async |_: Row| "")
                .secrets(["table"])
                .label("of", "{table}"),
        )
        .method("notifications/com.example/saved", method)
        .notification("roots/list_changed", notification)
        .notification("notifications/tools/list_changed", notification)
        .notification("tools/list", notification)
        .notification("saved", notification)
        .extension("reports", json!({}))
        .extension("dev.longhaul/reports", json!({}))
        .extension("com.example/reports", json!(true));
    let Err(error @ ServeError::Definitions(_)) = server.start().await else {
        panic!("it was started");
    };
    // `main` prints its error by `Debug`.
    let text = format!("{error:?}");
    let expected = [
        "tool `my tool`: ' ' is not allowed in a name",
        "use `my_tool`",
        "tool `text`: its arguments must be an object",
        "tool `twice`: there are two of this name",
        "prompt `nested`: its argument `inner` is not text",
        "prompt `typo`: it has no argument `langauge` to complete",
        "resource `readme`: its URI has no scheme",
        "resource template `x://{`: a { is not closed",
        "resource template `row://{table}`: its function needs `id`, which is not a variable of the template",
        "tool `kind`: the input schema is not usable: /properties/a/type: \"text\" is not",
        "tool `many`: `unique`: `tags` is an array or an object",
        "tool `whispers`: it has secret arguments, and the server has nothing to encrypt them with",
        "tool `whispers`: `token` is to be secret, and is not one of the arguments",
        "tool `compares`: `unique`: `table` is secret",
        "tool `tells`: `label of`: `table` is secret",
        "method `notifications/com.example/saved`: it names a notification: handle it with `Server::notification`",
        "notification `roots/list_changed`: MCP names it `notifications/roots/list_changed`",
        "notification `notifications/tools/list_changed`: servers send it",
        "notification `tools/list`: it is a method",
        "notification `saved`: one of your own needs a prefix",
        "extension `reports`: write a prefix that is yours",
        "extension `dev.longhaul/reports`: the server itself declares",
        "extension `com.example/reports`: its settings must be an object",
        "tool `elsewhere`: the input schema is not usable: /$ref: refers to \"https://a.example/b\"",
    ];
    for line in expected {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}

/// A client whose call was handed off calls `task_wait`: that must be the server's own tool.
#[tokio::test]
async fn the_names_of_the_follow_tools_are_reserved() {
    let waits = || Tool::new("task_wait", async || "");
    let hands_off = || Tool::new("slow", async || "").handoff(seconds(45));
    let wrong = Server::new("wrong", "1")
        .tool(hands_off())
        .tool(waits())
        .start()
        .await
        .unwrap_err();
    assert!(wrong.to_string().contains("tool `task_wait`"), "{wrong}");

    let server = Server::new("hands off", "1").tool(hands_off()).start().await.unwrap();
    let wrong = server.put_tool(waits()).await.unwrap_err();
    assert!(wrong.to_string().contains("rename this one"), "{wrong}");
    server.remove_tool("slow");
    server.put_tool(waits()).await.unwrap();
    let wrong = server.put_tool(hands_off()).await.unwrap_err();
    assert!(wrong.to_string().contains("tool `task_wait`"), "{wrong}");
    server.put_tool(waits().handoff(seconds(45))).await.unwrap_err();
}

#[tokio::test]
async fn an_invalid_address_is_refused() {
    let server = Server::new("s", "1").start().await.unwrap();
    for text in ["everywhere", "8080", "127.0.0.1:99999"] {
        let wrong = server.listen(text).await.map(drop).unwrap_err().to_string();
        assert!(wrong.contains(text) && wrong.contains("127.0.0.1:8080"), "{wrong}");
    }
    let port = 0;
    let listening = server.listen(format!("localhost:{port}")).await.unwrap();
    assert!(listening.address().ip().is_loopback() && listening.address().port() != 0);
}
