//! Mistakes in what is to be offered: all found before anyone is served, in words that say what to do.

use crate::{ERAS, connect, start};
use longhaul::{
    Error, Prompt, RequestContext, Resource, ResourceTemplate, ServeError, Server, Tool, schemars::JsonSchema,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize, JsonSchema)]
struct Nested {
    #[expect(dead_code, reason = "only its schema is looked at")]
    inner: Vec<u8>,
}

#[tokio::test]
async fn all_mistakes_are_told_at_once() {
    let server = Server::new("wrong", "1.0.0")
        .tool(Tool::new("my tool", async || ""))
        .tool(Tool::new("text", async |_: String| ""))
        .tool(Tool::new("twice", async || ""))
        .tool(Tool::new("twice", async || ""))
        .prompt(Prompt::new("nested", async |_: Nested| ""))
        .prompt(Prompt::new("typo", async || "").complete_from("langauge", ["rust"]))
        .resource(Resource::text("readme", "no scheme"))
        .template(ResourceTemplate::new("x://{", async || ""));
    let Err(ServeError::Definitions(wrong)) = server.start().await else {
        panic!("it was started");
    };
    let told = wrong.to_string();
    let expected = [
        "tool `my tool`: ' ' cannot stand in a name",
        "`my_tool` would be right",
        "tool `text`: its arguments must be an object",
        "tool `twice`: there are two of this name",
        "prompt `nested`: its argument `inner` is no text",
        "prompt `typo`: it has no argument `langauge` to complete",
        "resource `readme`: its URI has no scheme",
        "resource template `x://{`: a { is not closed",
    ];
    for line in expected {
        assert!(told.contains(line), "{line} is not in:\n{told}");
    }
}

#[tokio::test]
async fn an_address_that_is_none_is_told_as_such() {
    let server = Server::new("s", "1").start().await.unwrap();
    let wrong = server.listen("everywhere").await.map(drop).unwrap_err().to_string();
    assert!(wrong.contains("127.0.0.1:8080"), "{wrong}");
}

/// The low-level door: a method of one's own is answered in both eras, and a name that is not one's own is refused at the start.
#[tokio::test]
async fn a_method_of_ones_own_is_answered() {
    async fn echo(cx: RequestContext, params: Map<String, Value>) -> Result<Map<String, Value>, Error> {
        let text = params.get("say").ok_or_else(|| Error::invalid_params("say what?"))?;
        let era = format!("{:?}", cx.era());
        Ok(Map::from_iter([
            ("said".to_owned(), text.clone()),
            ("era".to_owned(), era.into()),
        ]))
    }
    let server = start(|server| server.method("com.example/echo", echo)).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let said = client.request("com.example/echo", json!({"say": 5})).await.unwrap();
        assert_eq!((&said["said"], &said["era"]), (&json!(5), &json!(format!("{era:?}"))));
        let refused = client.request("com.example/echo", json!({})).await.unwrap_err();
        assert_eq!((refused.code, &*refused.message), (-32602, "say what?"));
    }
    let wrong = Server::new("test", "1")
        .method("tasks/delete", echo)
        .start()
        .await
        .unwrap_err();
    assert!(wrong.to_string().contains("com.example/status"), "{wrong}");
}
