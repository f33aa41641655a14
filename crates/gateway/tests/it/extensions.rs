//! Extensions and experimental capabilities of the only upstream and of its clients.

use crate::{
    client::Client,
    upstream::{Tasks, Upstream},
    world::{RunningGateway, Seen, guarded, options, without_handoff},
};
use longhaul_client::{
    CallOptions, CallResponse, ChildOptions, Connection, Event, Options, OtherNotifications, Outcome,
};
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::{Map, Value, json};

const UI: &str = "io.modelcontextprotocol/ui";

fn upstream() -> UpstreamOptions {
    let child = ChildOptions::new("sh", ["-c", include_str!("extensions.sh")]);
    without_handoff(UpstreamOptions::new("up", Target::Command(child)))
}

/// A client that declares this, and the notifications that it gets.
fn client(url: &str, tasks: Tasks, declared: Value) -> (Connection, Seen<String>) {
    let mut options = Options::named("client", "1.0.0");
    options.era = tasks.era();
    options.relayed_capabilities = serde_json::from_value(declared).unwrap();
    let seen = Seen::<String>::default();
    let heard = seen.clone();
    options.other_notifications = Some(OtherNotifications::new(move |method, params| {
        let params = params.map(|params| params.as_str().to_owned());
        heard
            .lock()
            .unwrap()
            .push(format!("{method} {}", params.unwrap_or_default()));
    }));
    (Connection::lazy(url, options).unwrap(), seen)
}

async fn tools(connection: &Connection) -> Vec<String> {
    let tools = guarded("the tools", connection.list_tools()).await.unwrap();
    let mut names: Vec<String> = tools.into_iter().map(|tool| tool.name).collect();
    names.sort();
    names
}

async fn echo(connection: &Connection) -> String {
    text(connection, "echo").await
}

/// What a tool answers.
async fn text(connection: &Connection, tool: &str) -> String {
    let tool = connection.tool(tool).await.unwrap().unwrap();
    let mut options = CallOptions::default();
    options.without_task = true;
    let arguments = Map::new();
    let mut ignore = |_: Event<'_>| {};
    let called = connection.call_tool_with(&tool, &arguments, &options, &mut ignore);
    match guarded("the call", called).await.unwrap() {
        CallResponse::Done(Outcome::Result { json, .. }) => {
            let result: Value = serde_json::from_str(json.as_str()).unwrap();
            result["content"][0]["text"].as_str().unwrap().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

/// Also if the client can be asked.
#[tokio::test]
async fn a_request_that_mcp_does_not_have_is_refused_and_no_client_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start_bare(directory.path(), vec![upstream()]).await;
    for tasks in Tasks::ALL {
        let client = Client::connect(&gateway.url, tasks);
        assert_eq!(text(&client.connection, "foreign").await, "-32601", "{tasks:?}");
        assert!(client.asked.lock().unwrap().is_empty(), "{tasks:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn each_side_learns_what_the_other_has_declared() {
    for tasks in [Tasks::None, Tasks::Modern] {
        let directory = tempfile::tempdir().unwrap();
        let gateway = RunningGateway::start(directory.path(), vec![upstream()]).await;
        let declared = json!({"extensions": {UI: {"mimeTypes": ["a"]}, "dev.longhaul/other": {}}});
        let (with_ui, _) = client(&gateway.url, tasks, declared);
        let (without, _) = client(&gateway.url, tasks, json!({}));
        assert_eq!(tools(&with_ui).await, ["chart", "echo", "foreign"], "{tasks:?}");
        assert_eq!(tools(&without).await, ["echo", "foreign"], "{tasks:?}");
        assert_eq!(echo(&with_ui).await, "ui:1 channel:");
        assert_eq!(echo(&without).await, "ui: channel:");
        let (with_channel, _) = client(&gateway.url, tasks, json!({"experimental": {"x/channel": {}}}));
        assert_eq!(echo(&with_channel).await, "ui: channel:1");
        let told = with_ui.server().await.unwrap().capabilities;
        assert_eq!(told["extensions"][UI], json!({"a": 1}));
        assert_eq!(told["experimental"]["x/channel"], json!({}));
        if tasks == Tasks::None {
            // Tasks and what is Longhaul's own each server has for itself.
            assert_eq!(told["extensions"], json!({UI: {"a": 1}}));
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn notifications_that_mcp_does_not_define_pass_both_ways() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), vec![upstream()]).await;
    let (connection, seen) = client(&gateway.url, Tasks::None, json!({"extensions": {UI: {}}}));
    assert_eq!(tools(&connection).await, ["chart", "echo", "foreign"]);
    // The stream of the session may open after the first.
    let heard = async {
        while seen.lock().unwrap().is_empty() {
            connection.notify("notifications/x/ask", json!({"a": 1})).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    guarded("the notification", heard).await;
    assert_eq!(seen.lock().unwrap()[0], r#"notifications/x/news {"of":"1"}"#);
    gateway.stop().await;
}

/// Nobody knows for which of them it is.
#[tokio::test]
async fn several_upstreams_are_told_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let other = Upstream::start(Tasks::Legacy).await;
    let mut upstreams = options(&[("other", &other)]);
    upstreams.push(upstream());
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    let (connection, _) = client(&gateway.url, Tasks::None, json!({"extensions": {UI: {}}}));
    assert!(!tools(&connection).await.contains(&"up_chart".to_owned()));
    let told = connection.server().await.unwrap().capabilities;
    assert!(told.get("extensions").is_none(), "{told:?}");
    gateway.stop().await;
}
