//! Methods that the author answers: custom ones, and standard ones in place of the server's own answer.

use crate::{ERAS, connect, start};
use longhaul::{
    Era, Error, RequestContext, ResourceTemplate, Server, ServerHandle, Tool, schemars::JsonSchema, testing::Client,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

type Members = Map<String, Value>;

fn members(result: Value) -> Result<Members, Error> {
    Ok(serde_json::from_value(result)?)
}

/// A server whose author answers all that an author may.
async fn answering() -> ServerHandle {
    start(|server| {
        server
            .tool(Tool::new("real", async || "done"))
            .template(ResourceTemplate::new("other://{name}", async || "not asked"))
            .method("tools/list", async |cx: RequestContext, _: Members| {
                let name = format!("for {}", cx.client().unwrap().name);
                members(json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}], "nextCursor": "2"}))
            })
            .method("prompts/list", async |_: RequestContext, params: Members| {
                members(json!({"prompts": [{"name": format!("after {}", params["cursor"])}]}))
            })
            .method("prompts/get", get_prompt)
            .method("resources/list", async |_: RequestContext, _: Members| {
                members(json!({"resources": [{"uri": "file:///a", "name": "a"}], "ttlMs": 5, "cacheScope": "public"}))
            })
            .method("resources/templates/list", async |_: RequestContext, _: Members| {
                members(json!({"resourceTemplates": []}))
            })
            .method("resources/read", read)
            .method("completion/complete", async |_: RequestContext, params: Members| {
                let value = params["argument"]["value"].as_str().unwrap_or_default();
                members(json!({"completion": {"values": [format!("{value}!")]}}))
            })
    })
    .await
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    topic: String,
}

async fn get_prompt(cx: RequestContext, params: Members) -> Result<Members, Error> {
    if params["name"] != "raw" {
        return Err(Error::not_found());
    }
    let about: Topic = cx.elicit("What about?").key("about").await?;
    let text = format!("Say {}.", about.topic);
    members(json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}))
}

async fn read(_: RequestContext, params: Members) -> Result<Members, Error> {
    match params["uri"].as_str() {
        Some(uri @ "file:///a") => members(json!({"contents": [{"uri": uri, "text": "A"}]})),
        Some("file:///broken") => Err(Error::rpc(7, "the disk is gone").with_data(json!({"disk": 1}))),
        _ => Err(Error::not_found()),
    }
}

async fn connected(server: &ServerHandle, era: Era) -> Client {
    Client::connect(server, era)
        .answering(|_| json!({"action": "accept", "content": {"topic": "hello"}}))
        .await
        .unwrap()
}

#[tokio::test]
async fn an_author_answers_standard_methods() {
    let server = answering().await;
    for era in ERAS {
        let client = connected(&server, era).await;
        let modern = era == Era::Modern;
        let tools = client.request("tools/list", json!({})).await.unwrap();
        assert_eq!(tools["tools"][0]["name"], "for longhaul-testing");
        assert_eq!(tools["nextCursor"], "2");
        // The envelope of the era is the server's: by default nothing is cached.
        assert_eq!(tools.get("resultType").is_some(), modern, "{tools}");
        assert_eq!(tools.get("ttlMs"), modern.then_some(&json!(0)));
        let resources = client.request("resources/list", json!({})).await.unwrap();
        assert_eq!(resources.get("ttlMs"), modern.then_some(&json!(5)));
        assert_eq!(resources["resources"][0]["uri"], "file:///a");
        let prompts = client.request("prompts/list", json!({"cursor": "x"})).await.unwrap();
        assert_eq!(prompts["prompts"][0]["name"], r#"after "x""#);
        let templates = client.request("resources/templates/list", json!({})).await.unwrap();
        assert_eq!(templates["resourceTemplates"], json!([]));

        let asked = json!({"ref": {"type": "ref/prompt", "name": "raw"}, "argument": {"name": "a", "value": "hey"}});
        let completed = client.request("completion/complete", asked).await.unwrap();
        assert_eq!(completed["completion"]["values"], json!(["hey!"]));

        // It can ask the user, in rounds where the era has them.
        let prompt = client.get_prompt("raw", json!({})).await.unwrap();
        assert_eq!(prompt["messages"][0]["content"]["text"], "Say hello.");
        let unknown = client.get_prompt("cooked", json!({})).await.unwrap_err();
        assert_eq!((unknown.code, &*unknown.message), (-32602, "Unknown prompt: cooked"));

        assert_eq!(client.read("file:///a").await.unwrap()[0]["text"], "A");
        let not_found = if modern { -32602 } else { -32002 };
        assert_eq!(client.read("other://a").await.unwrap_err().code, not_found);
        let broken = client.read("file:///broken").await.unwrap_err();
        assert_eq!((broken.code, &broken.data), (7, &json!({"disk": 1})));

        // The server still runs its tools, and refuses what the protocol does not allow.
        assert_eq!(client.call("real", json!({})).await.unwrap().text(), "done");
        assert_eq!(
            client.request("resources/read", json!({})).await.unwrap_err().code,
            -32602
        );
    }
}

/// A capability without which clients would not send the request.
#[tokio::test]
async fn what_an_author_answers_is_declared() {
    let only = |method: &'static str| start(move |server| server.method(method, read));
    for (method, capability) in [
        ("prompts/get", "prompts"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/read", "resources"),
        ("resources/templates/list", "resources"),
        ("completion/complete", "completions"),
    ] {
        let client = connect(&only(method).await, Era::Modern).await;
        let declared = client.request("server/discover", json!({})).await.unwrap()["capabilities"].clone();
        for other in ["prompts", "resources", "completions"] {
            assert_eq!(
                declared.get(other).is_some(),
                other == capability,
                "{method}: {declared}"
            );
        }
    }
}

/// A modern client is served these methods only where its era has them.
#[tokio::test]
async fn the_level_is_set_before_the_author_sees_it() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let server = start(|server| {
        server.method("logging/setLevel", move |_: RequestContext, _: Members| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(Members::new()) }
        })
    })
    .await;
    let client = connect(&server, Era::Legacy).await;
    client
        .request("logging/setLevel", json!({"level": "error"}))
        .await
        .unwrap();
    let wrong = client
        .request("logging/setLevel", json!({"level": "loud"}))
        .await
        .unwrap_err();
    assert_eq!((wrong.code, calls.load(Ordering::Relaxed)), (-32602, 1));
    let client = connect(&server, Era::Modern).await;
    let absent = client
        .request("logging/setLevel", json!({"level": "error"}))
        .await
        .unwrap_err();
    assert_eq!((absent.code, calls.load(Ordering::Relaxed)), (-32601, 1));
}

/// What the server cannot see change is reported by its author.
#[tokio::test]
async fn an_author_reports_changes() {
    let server = answering().await;
    let client = connect(&server, Era::Legacy).await;
    client
        .request("resources/subscribe", json!({"uri": "file:///a"}))
        .await
        .unwrap();
    let foreign = json!({"uri": "longhaul://task/01m8514byrekt12gx25rp99jvn3gry8gh1hw/log"});
    client.request("resources/subscribe", foreign).await.unwrap_err();
    server.resource_updated("file:///a");
    let updated = client.notification("notifications/resources/updated").await.unwrap();
    assert_eq!(updated["uri"], "file:///a");
    server.tool_list_changed();
    client.notification("notifications/tools/list_changed").await.unwrap();
    server.prompt_list_changed();
    client.notification("notifications/prompts/list_changed").await.unwrap();
    server.resource_list_changed();
    client
        .notification("notifications/resources/list_changed")
        .await
        .unwrap();
}

/// It is served in both eras. A name without a prefix of the author's is refused at the start, and so is what only the server can answer.
#[tokio::test]
async fn a_custom_method_is_served() {
    async fn echo(cx: RequestContext, params: Members) -> Result<Members, Error> {
        let text = params
            .get("text")
            .ok_or_else(|| Error::invalid_params("the text is missing"))?;
        members(json!({"echo": text, "era": format!("{:?}", cx.era())}))
    }
    let server = start(|server| server.method("com.example/echo", echo)).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let result = client.request("com.example/echo", json!({"text": 5})).await.unwrap();
        assert_eq!(
            (&result["echo"], &result["era"]),
            (&json!(5), &json!(format!("{era:?}")))
        );
        let refused = client.request("com.example/echo", json!({})).await.unwrap_err();
        assert_eq!((refused.code, &*refused.message), (-32602, "the text is missing"));
    }
    let names = ["tasks/delete", "tasks/get", "server/discover", "subscriptions/listen"];
    let wrong = names
        .iter()
        .fold(Server::new("test", "1"), |server, name| server.method(*name, echo));
    let wrong = wrong.start().await.unwrap_err().to_string();
    for line in [
        "method `tasks/delete`: \"tasks/delete\" is no name for a method of one's own",
        "com.example/status",
        "method `tasks/get`: the server answers it itself, because it keeps the tasks",
        "method `server/discover`: the server answers it itself, because it negotiates",
        "method `subscriptions/listen`: the server answers it itself, because it keeps the subscriptions",
    ] {
        assert!(wrong.contains(line), "{line} is not in:\n{wrong}");
    }
}
