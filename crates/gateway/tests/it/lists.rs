//! What is offered of upstreams.

use crate::{
    client::Client,
    upstream::{Tasks, Upstream},
    world::{RunningGateway, at_url, guarded, options, until, without_handoff},
};
use longhaul::Tool;
use longhaul_client::{ChildOptions, WatchFilter};
use longhaul_core::ToolPattern;
use longhaul_gateway::{Target, UpstreamOptions, UpstreamStatus};
use longhaul_runtime::FOLLOW_TOOLS;
use serde_json::{Value, json};

async fn send(client: &Client, method: &str, params: Value) -> Value {
    let result = guarded(method, client.connection.send(method, params)).await.unwrap();
    serde_json::from_str(result.as_str()).unwrap()
}

async fn tool_names(client: &Client) -> Vec<String> {
    let tools = guarded("the tools", client.connection.list_tools()).await.unwrap();
    tools.into_iter().map(|tool| tool.name).collect()
}

/// Every member of a tool is that of the upstream but its name, and `execution`, which each server has its own.
#[tokio::test]
async fn tools_are_listed_as_the_upstream_lists_them() {
    for tasks in [Tasks::Legacy, Tasks::Modern] {
        let upstream = Upstream::start(tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let upstreams = options(&[("up", &upstream)]).into_iter().map(without_handoff).collect();
        let gateway = RunningGateway::start(directory.path(), upstreams).await;
        let bare = |listed: Value| -> Vec<Value> {
            let mut tools = listed["tools"].as_array().unwrap().clone();
            tools
                .iter_mut()
                .for_each(|tool| drop(tool.as_object_mut().unwrap().remove("execution")));
            tools
        };
        let direct = send(&Client::connect(&upstream.url, tasks), "tools/list", Value::Null).await;
        let through = send(&Client::connect(&gateway.url, tasks), "tools/list", Value::Null).await;
        assert_eq!(bare(through), bare(direct));
        gateway.stop().await;
    }
}

/// Clients without tasks can follow what outlasts their patience, unless the upstream has a tool of such a name: that one stays what it is.
#[tokio::test]
async fn calls_are_handed_off_by_default_unless_a_name_is_taken() {
    let upstream = Upstream::start(Tasks::Legacy).await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
    let shown = async || {
        let names = tool_names(&Client::connect(&gateway.url, Tasks::None)).await;
        FOLLOW_TOOLS.map(|follow| names.iter().any(|name| name == follow))
    };
    assert_eq!(shown().await, [true; 4]);
    let engine = gateway.server.engine().unwrap();
    let own = Tool::new("task_wait", async || "its own");
    upstream.server.put_tool(own).await.unwrap();
    until("the tool", || engine.catalog().tool("task_wait").is_some()).await;
    assert_eq!(shown().await, [true, false, false, false]);
    let client = Client::connect(&gateway.url, Tasks::None);
    assert_eq!(client.text("task_wait", json!({})).await, "its own");
    gateway.stop().await;
}

#[tokio::test]
async fn several_upstreams_have_prefixes_and_tools_are_selected_and_renamed() {
    let [one, two] = Upstream::of_both_eras().await;
    let directory = tempfile::tempdir().unwrap();
    let mut upstreams = options(&[("one", &one), ("two", &two)]);
    let pattern = |text: &str| -> ToolPattern { text.parse().unwrap() };
    upstreams[0].tools.allow = vec![pattern("e*"), pattern("f*")];
    upstreams[0].tools.deny = vec![pattern("fail")];
    upstreams[0].tools.rename.insert("echo".to_owned(), "parrot".to_owned());
    upstreams[1].tools.allow = vec![pattern("confirm")];
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let mut names = tool_names(&client).await;
    names.sort();
    assert_eq!(names, ["one_parrot", "two_confirm"]);
    let echoed = client.result("one_parrot", json!({"a": 1})).await;
    assert_eq!(echoed["structuredContent"]["echo"]["a"], 1);

    let prompts = send(&client, "prompts/list", Value::Null).await;
    let prompts = prompts["prompts"].as_array().unwrap().iter();
    let listed: Vec<&Value> = prompts.map(|prompt| &prompt["name"]).collect();
    assert_eq!(listed, ["one_greet", "two_greet"]);
    let prompt = send(&client, "prompts/get", json!({"name": "two_greet"})).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Hello!");
    // Both have it, and requests for it go to the first one.
    let resources = send(&client, "resources/list", Value::Null).await;
    let resources = resources["resources"].as_array().unwrap().iter();
    assert_eq!(resources.filter(|resource| resource["uri"] == "note://1").count(), 1);
    let read = send(&client, "resources/read", json!({"uri": "note://1"})).await;
    assert_eq!(read["contents"][0]["text"], "first");
    gateway.stop().await;
}

/// A new tool of the upstream is offered, and one that is gone is not.
#[tokio::test]
async fn changes_of_the_upstream_are_followed() {
    for tasks in [Tasks::Legacy, Tasks::Modern] {
        let upstream = Upstream::start(tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
        let engine = gateway.server.engine().unwrap();
        let later = Tool::new("later", async || "new");
        upstream.server.put_tool(later).await.unwrap();
        assert!(upstream.server.remove_tool("fail"));
        let has = |tool: &str| engine.catalog().tool(tool).is_some();
        until("the change", || has("later") && !has("fail")).await;
        let client = Client::connect(&gateway.url, tasks);
        assert_eq!(client.text("later", json!({})).await, "new");
        gateway.stop().await;
    }
}

/// What the upstream offered last is offered at once after a restart, also while it is down.
#[tokio::test]
async fn the_last_known_lists_outlive_a_restart() {
    let upstream = Upstream::start(Tasks::Modern).await;
    let directory = tempfile::tempdir().unwrap();
    let upstreams = || options(&[("up", &upstream)]);
    let gateway = RunningGateway::start(directory.path(), upstreams()).await;
    let known = tool_names(&Client::connect(&gateway.url, Tasks::Modern)).await;
    gateway.stop().await;
    let mut down = upstreams();
    down[0].target = at_url("http://127.0.0.1:1/mcp".to_owned());
    let gateway = RunningGateway::start(directory.path(), down).await;
    assert_eq!(tool_names(&Client::connect(&gateway.url, Tasks::Modern)).await, known);
    gateway.stop().await;
}

/// Once the upstream has reported a change, each subscriber of that resource is told, whichever generations both speak, until it unsubscribes.
#[tokio::test]
async fn changes_of_a_resource_reach_its_subscribers() {
    let filter = |uri: &str| WatchFilter {
        uris: vec![uri.to_owned()],
        ..WatchFilter::default()
    };
    for upstream_tasks in [Tasks::Legacy, Tasks::Modern] {
        let upstream = Upstream::start(upstream_tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
        let clients = [Tasks::Legacy, Tasks::Modern].map(|tasks| Client::connect(&gateway.url, tasks));
        let mut watches = Vec::new();
        for client in &clients {
            let watch = guarded("the subscription", client.connection.watch(filter("note://1")));
            watches.push(watch.await.unwrap());
        }
        upstream.server.resource_updated("note://2");
        upstream.server.resource_updated("note://1");
        for watch in &mut watches {
            let change = guarded("the change", watch.next()).await;
            assert_eq!(change.unwrap().uri(), Some("note://1"));
        }
        // One of two subscriptions of a principal ends: the other goes on.
        watches.remove(0);
        upstream.server.resource_updated("note://1");
        guarded("the change", watches[0].next()).await.unwrap();
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_resource_that_no_upstream_has_cannot_be_subscribed_to() {
    let upstream = Upstream::start(Tasks::Legacy).await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
    let client = Client::connect(&gateway.url, Tasks::Legacy);
    let params = json!({"uri": "note://no-such"});
    let error = client.connection.send("resources/subscribe", params).await.unwrap_err();
    assert!(error.to_string().contains("Resource not found"), "{error}");
    gateway.stop().await;
}

/// A server of 2026-07-28 that answers a subscription when there is a file `accepted` in the folder $LISTS, and has a tool `second` when there is one.
const SLOW_TO_SUBSCRIBE: &str = r#"
say() { printf '%s\n' "$1"; }
result() { say '{"jsonrpc":"2.0","id":'"$1"',"result":{"resultType":"complete",'"$2"'}}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"server/discover"'*)
      result "$id" '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"slow","version":"1"}' ;;
    *'"method":"tools/list"'*)
      second=; [ -e "$LISTS/second" ] && second=',{"name":"second","inputSchema":{"type":"object"}}'
      result "$id" '"tools":[{"name":"first","inputSchema":{"type":"object"}}'"$second"']' ;;
    *'"method":"subscriptions/listen"'*)
      (
        while [ -e "$LISTS" ] && [ ! -e "$LISTS/accepted" ]; do sleep 0.02; done
        say '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":'"$id"'},"notifications":{"toolsListChanged":true}}}'
      ) & ;;
    *'"method":"notifications/'*) ;;
    *'"method":'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
"#;

#[cfg(unix)]
#[tokio::test]
async fn an_upstream_that_does_not_answer_a_subscription_is_offered() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = ChildOptions::new("sh", ["-c", SLOW_TO_SUBSCRIBE]);
    let folder = directory.path().to_string_lossy().into_owned();
    child.env.push(("LISTS".into(), folder));
    let options = UpstreamOptions::new("slow", Target::Command(child));
    let gateway = RunningGateway::start(directory.path(), vec![options]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    assert_eq!(tool_names(&client).await, ["first"]);

    // Before the subscription, which does not tell of it.
    std::fs::write(directory.path().join("second"), "").unwrap();
    std::fs::write(directory.path().join("accepted"), "").unwrap();
    let is_read = async {
        while tool_names(&Client::connect(&gateway.url, Tasks::Modern)).await != ["first", "second"] {
            tokio::task::yield_now().await;
        }
    };
    guarded("the lists to be read again", is_read).await;
    gateway.stop().await;
}

/// Whose a name is follows from the configuration alone.
#[tokio::test]
async fn without_prefixes_a_name_is_that_of_the_first_upstream_whichever_are_up() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = [Upstream::start(Tasks::None).await, Upstream::start(Tasks::None).await];
    let mut upstreams = options(&[("first", &first), ("second", &second)]);
    upstreams[1].tools.rename.insert("echo".to_owned(), "own".to_owned());
    let address = first.stop().await;
    let tools = async |gateway: &RunningGateway, nth: usize| match gateway.statuses().await.swap_remove(nth) {
        (_, UpstreamStatus::Up { tools }) => Some(tools),
        _ => None,
    };
    // The first one was never seen, so it may have any name.
    let gateway = RunningGateway::start_bare(directory.path(), upstreams.clone()).await;
    assert_eq!((tools(&gateway, 0).await, tools(&gateway, 1).await), (None, Some(0)));
    let first = Upstream::start_at(&address, Tasks::None).await;
    let client = Client::connect(&gateway.url, Tasks::None);
    let seen = async {
        while tools(&gateway, 0).await.is_none() {}
        tool_names(&client).await
    };
    let names = guarded("the tools", seen).await;
    assert_eq!(names.iter().filter(|name| *name == "echo").count(), 1);
    gateway.stop().await;
    first.stop().await;
    // It is down, and what it has is known.
    let gateway = RunningGateway::start_bare(directory.path(), upstreams).await;
    assert_eq!((tools(&gateway, 0).await, tools(&gateway, 1).await), (None, Some(1)));
    let mut now = tool_names(&Client::connect(&gateway.url, Tasks::None)).await;
    let mut before = names;
    now.sort();
    before.sort();
    assert_eq!(now, before);
    gateway.stop().await;
}

/// The first in the configuration is there last.
#[tokio::test]
async fn x_01_the_order_of_tools_is_that_of_the_configuration() {
    let first = Upstream::start(Tasks::Legacy).await;
    let upstreams = options(&[("one", &first)]);
    let address = first.stop().await;
    let second = Upstream::start(Tasks::Modern).await;
    let directory = tempfile::tempdir().unwrap();
    let both = [upstreams, options(&[("two", &second)])].concat();
    let gateway = RunningGateway::start(directory.path(), both).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    assert!(tool_names(&client).await.iter().all(|name| name.starts_with("two_")));
    let first = Upstream::start_at(&address, Tasks::Legacy).await;
    let own = tool_names(&Client::connect(&first.url, Tasks::Legacy)).await;
    let expected: Vec<String> = ["one", "two"]
        .iter()
        .flat_map(|upstream| own.iter().map(move |name| format!("{upstream}_{name}")))
        .collect();
    let engine = gateway.server.engine().unwrap();
    let are_known = || engine.catalog().snapshot().tools.len() == expected.len();
    until("the tools of both", are_known).await;
    // A client may keep its list for a while.
    let names = async || tool_names(&Client::connect(&gateway.url, Tasks::Modern)).await;
    let is_in_order = async { while names().await != expected {} };
    guarded("the order", is_in_order).await;
    drop(engine);
    gateway.stop().await;
}
