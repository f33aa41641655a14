//! What a sender may do.

use super::{Authenticated, METADATA, get_stream, of};
use crate::{
    client::{Connection, Head},
    offers,
    request::Post,
    server::Options,
    stage::HANDED_OFF,
};
use serde_json::{Value, json};

/// The names of the listed tools.
async fn listed(served: &Authenticated, token: &str) -> Vec<String> {
    let list = served.result(token, Post::modern_plain("tools/list", json!({}))).await;
    assert_eq!(list["cacheScope"], "private", "{list}");
    let tools = list["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn challenge(head: &Head) -> &str {
    head.header("www-authenticate").unwrap()
}

/// The challenge that asks for these scopes.
fn lacks(scope: &str) -> String {
    format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{METADATA}\"")
}

#[tokio::test]
async fn s_22_the_list_of_tools_shows_what_may_be_called() {
    let served = Authenticated::start().await;
    let all = listed(&served, "ann").await;
    assert!(all.len() == 10 && all.contains(&"task_wait".to_owned()), "{all:?}");
    assert_eq!(listed(&served, "ann-caller").await, ["optional"]);
    let reads = ["task_wait", "task_status", "task_list"];
    assert_eq!(listed(&served, "ann-reader").await, reads);
    assert!(listed(&served, "ann-nothing").await.is_empty());
    // Also after others have listed theirs.
    assert_eq!(listed(&served, "bob").await, all);
}

#[tokio::test]
async fn s_22_what_is_missing_is_asked_for_at_once() {
    let served = Authenticated::start().await;
    let session = served.session("ann").await;
    let task = served.task("ann", Post::call("optional", "wait")).await;
    let follow = |name: &str| Post::modern("tools/call", json!({"name": name, "arguments": {"task": task}}));
    let log = format!("longhaul://task/{task}/log");
    let of_task = json!({"taskId": task, "inputResponses": {}});
    let listen = |filter: Value| Post::modern("subscriptions/listen", json!({"notifications": filter}));
    let listen_to_task = listen(json!({"taskIds": [task]}));
    let listen_to_log = listen(json!({"resourceSubscriptions": [log]}));
    let legacy = |method: &str, params: Value| Post::legacy(Some(&session), method, params);
    let legacy_on = |method: &str| Post::on_task(&session, method, &task);
    let modern_on = |method: &str| Post::modern(method, of_task.clone());
    let create = || Post::legacy_task(Some(&session), "optional", "say");
    let read = Post::modern("resources/read", json!({"uri": log}));
    let subscribe = legacy("resources/subscribe", json!({"uri": log}));
    let mut connection = served.server.connect().await;
    for (token, post, scope) in [
        ("caller", Post::call("always", "say"), "tools:always tasks:read"),
        ("nothing", Post::call(HANDED_OFF, "say"), "tools:handed_off tasks:read"),
        ("nothing", Post::call("unknown", "say"), "tools:unknown tasks:read"),
        ("nothing", create(), "tools:optional tasks:read"),
        ("reader", modern_on("tasks/cancel"), "tasks:write"),
        ("reader", modern_on("tasks/update"), "tasks:write"),
        ("reader", legacy_on("tasks/cancel"), "tasks:write"),
        ("reader", follow("task_cancel"), "tasks:write"),
        ("caller", follow("task_wait"), "tasks:read"),
        // What runs as a task whose state its caller may not read is not begun.
        ("caller", Post::call("optional", "say"), "tools:optional tasks:read"),
        ("caller", create(), "tools:optional tasks:read"),
        ("caller", modern_on("tasks/get"), "tasks:read"),
        ("caller", legacy_on("tasks/get"), "tasks:read"),
        ("caller", legacy_on("tasks/result"), "tasks:read"),
        ("caller", legacy("tasks/list", json!({})), "tasks:read"),
        ("caller", read, "tasks:read"),
        ("caller", subscribe, "tasks:read"),
        ("caller", listen_to_task, "tasks:read"),
        ("caller", listen_to_log, "tasks:read"),
    ] {
        let reply = connection.exchange(&of(&format!("ann-{token}"), post.clone())).await;
        assert_eq!(reply.error(), (403, 403), "{token} {}", post.body);
        assert_eq!(challenge(&reply.head), lacks(scope), "{}", post.body);
    }
    // Names that are none of a tool are in no challenge: they could name other scopes.
    for name in ["*", "x tasks:write", "say*", "a\", scope=\"x", "", &"n".repeat(129)] {
        let post = Post::legacy_call(Some(&session), name, "say");
        let reply = connection.exchange(&of("ann-reader", post)).await;
        assert_eq!(reply.head.status, 403, "{name}");
        let expected = format!("Bearer error=\"insufficient_scope\", resource_metadata=\"{METADATA}\"");
        assert_eq!(challenge(&reply.head), expected, "{name}");
    }
    let mapped = served.exchange("ann-mapped", Post::call("optional", "say")).await;
    assert!(challenge(&mapped.head).contains("scope=\"theirs:2\""), "{mapped:?}");
    assert_eq!(served.server.stage.begun.get(), 1, "nothing else has begun");

    // What is allowed works.
    for (token, post) in [
        ("caller", Post::plain_call("optional", "say")),
        ("reader", modern_on("tasks/get")),
        ("reader", legacy("tasks/list", json!({}))),
        ("nothing", Post::modern("server/discover", json!({}))),
        ("nothing", legacy("ping", json!({}))),
    ] {
        connection.result(&of(&format!("ann-{token}"), post)).await;
    }
}

/// Some clients log in without asking for a scope. Empty lists would not tell them that they need another token.
#[tokio::test]
async fn s_22_whoever_has_no_permission_is_told_of_all_scopes_of_its_issuer() {
    let served = Authenticated::start().await;
    let session = served.session("ann").await;
    let mut connection = served.server.connect().await;
    let lists = ["tools", "prompts", "resources", "resources/templates"].map(|list| format!("{list}/list"));
    let discover = Post::modern("server/discover", json!({}));
    let modern = lists.iter().map(|method| Post::modern(method, json!({})));
    let legacy = lists
        .iter()
        .map(|method| Post::legacy(Some(&session), method, json!({})));
    let others = [discover, Post::initialize("2025-11-25")];
    for post in modern.chain(legacy).chain(others) {
        let reply = connection.exchange(&of("ann-useless", post.clone())).await;
        assert_eq!(reply.error(), (403, 403), "{}", post.body);
        let expected = lacks("their:tools their:tasks");
        assert_eq!(challenge(&reply.head), expected, "{}", post.body);
        // With one permission, or where no scope would help, it is served.
        for token in ["ann-useful", "ann-nothing"] {
            connection.result(&of(token, post.clone())).await;
        }
    }
    let ping = Post::ping(Some(&session));
    connection.result(&of("ann-useless", ping)).await;
    let call = of("ann-useless", Post::call("optional", "say"));
    // What it needs, and not more.
    let reply = connection.exchange(&call).await;
    let scope = "scope=\"tools:optional tasks:read\"";
    assert!(challenge(&reply.head).contains(scope), "{reply:?}");
}

/// Resources that are not tasks', prompts and completion need one permission, whoever answers them. Lists leave out what may not be used.
#[tokio::test]
async fn s_22_resources_and_prompts_need_a_permission() {
    let served = Authenticated::start().await;
    offers::offer(&served.server);
    let session = served.session("ann").await;
    let task = served.task("ann", Post::call("optional", "wait")).await;
    let log = format!("longhaul://task/{task}/log");
    let talk = json!({"type": "ref/prompt", "name": "talk"});
    let one = json!({"uri": "test://one"});
    let unknown = json!({"uri": "test://unknown"});
    let get = json!({"name": "talk", "arguments": {"topic": "a"}});
    let complete = json!({"ref": talk, "argument": {"name": "topic", "value": ""}});
    let resources = json!(["test://one", log, "test://1/data"]);
    let both = json!({"notifications": {"taskIds": [task], "resourceSubscriptions": resources}});
    let legacy = |method: &str, params: Value| Post::legacy(Some(&session), method, params);
    let uses = [
        (Post::modern("resources/read", one.clone()), "resources:read"),
        (legacy("resources/read", one.clone()), "resources:read"),
        (legacy("resources/read", unknown), "resources:read"),
        (legacy("resources/subscribe", one), "resources:read"),
        (Post::modern("subscriptions/listen", both), "tasks:read resources:read"),
        (Post::modern("prompts/get", get), "resources:read"),
        (Post::modern("completion/complete", complete), "resources:read"),
    ];
    let lists = [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ];
    let count = async |token: &str, (method, member): (&str, &str)| {
        let listed = served.result(token, Post::modern(method, json!({}))).await;
        let listed = listed[member].as_array().expect("a list").iter();
        let others = listed.filter(|entry| !entry.to_string().contains("longhaul://"));
        others.count()
    };
    for answered_by_the_author in [false, true] {
        if answered_by_the_author {
            let catalog = served.server.engine.catalog();
            for method in ["resources/read", "prompts/get"]
                .into_iter()
                .chain(lists.map(|list| list.0))
            {
                catalog.put_method(offers::method(method));
            }
        }
        for (post, scope) in &uses {
            for token in ["ann-nothing", "ann-tools"] {
                let reply = served.exchange(token, post.clone()).await;
                assert_eq!(reply.error(), (403, 403), "{token} {}", post.body);
                // `ann-tools` may read tasks, and is told so all the same: its client asks for what is named.
                let scope = format!("scope=\"{scope}\"");
                assert!(challenge(&reply.head).contains(&scope), "{}: {reply:?}", post.body);
            }
        }
        for list in lists {
            for (token, shown) in [("nothing", 0), ("tools", 0), ("again", 1), ("resources", 1)] {
                if shown == 0 || !answered_by_the_author {
                    let count = count(&format!("ann-{token}"), list).await;
                    assert_eq!(count, shown, "{token} {list:?}");
                }
            }
        }
    }
    for (post, _) in uses.iter().filter(|(_, scope)| *scope == "resources:read") {
        let head = served.send("ann-resources", post.clone()).await.head().await;
        assert_eq!(head.status, 200, "{}", post.body);
    }
}

/// Whoever may neither call nor change anything was asked nothing.
#[tokio::test]
async fn a_response_needs_the_right_to_call_or_to_change() {
    let served = Authenticated::start().await;
    let session = served.session("ann").await;
    let id = json!("0123456789abcdef0123456789abcdef");
    for (token, status) in [("again", 202), ("caller", 202), ("reader", 403), ("nothing", 403)] {
        let response = Post::response(&session, &id, ("result", json!({})));
        let got = served.status(&format!("ann-{token}"), response).await;
        assert_eq!(got, status, "{token}");
    }
}

/// Streams tell of tasks, too: opened, resumed, or of the old pair of endpoints.
#[tokio::test]
async fn s_22_a_stream_needs_what_its_messages_need() {
    let options = Options::with(|options| options.http.legacy_sse = true);
    let served = Authenticated::with(options).await;
    let session = served.session("ann").await;
    let task = served.legacy_task("ann", &session, "wait").await;
    let mut push = served.listen("ann-reader", &session).await;
    push.event().await;
    let report = Post::legacy_call(Some(&session), "optional", "report 1").progress_token(json!("p"));
    let mut call = served.stream("ann", report.clone()).await;
    call.message().await.unwrap();
    let mut callers = served.stream("ann-caller", report).await;
    callers.message().await.unwrap();
    let result = Post::on_task(&session, "tasks/result", &task);
    let mut result = served.stream("ann-reader", result).await;
    result.event().await;
    let resume = |of: &Connection| format!("Last-Event-ID: {}\r\n", of.last_event_id.clone().unwrap());
    let [push, call, callers, result] = [&push, &call, &callers, &result].map(resume);
    let everything = "tools:* tasks:write resources:read";
    for (token, headers, needed) in [
        ("caller", "", Some("tasks:read")),
        ("nothing", "", Some("tasks:read")),
        ("reader", "", None),
        ("caller", &push, Some("tasks:read")),
        ("reader", &push, None),
        ("reader", &call, Some(everything)),
        ("caller", &call, Some(everything)),
        ("again", &call, None),
        ("reader", &callers, Some("tools:opt*")),
        ("caller", &callers, None),
        ("caller", &result, Some("tasks:read")),
        ("reader", &result, None),
    ] {
        let token = format!("ann-{token}");
        let head = served.get(&token, &session, headers).await.head().await;
        let status = if needed.is_some() { 403 } else { 200 };
        assert_eq!(head.status, status, "{token} {headers}");
        if let Some(needed) = needed {
            let needed = format!("scope=\"{needed}\"");
            assert!(challenge(&head).contains(&needed), "{token} {headers}: {head:?}");
        }
        if headers.is_empty() {
            let mut client = served.server.connect().await;
            let get = get_stream(&token, &session, headers).replacen("GET /mcp", "GET /sse", 1);
            client.send(get.as_bytes()).await;
            assert_eq!(client.head().await.status, status, "{token}");
        }
    }
    // What depends on the request alone tells nothing of sessions.
    let head = served.get("ann-caller", "none", "").await.head().await;
    assert_eq!(head.status, 403);
}

/// A session has what its principal has subscribed to, with whatever credentials. Others of the principal may read the session's stream, and not the resource.
#[tokio::test]
async fn s_22_a_push_stream_names_no_resource_to_whoever_may_not_read_it() {
    let served = Authenticated::start().await;
    let catalog = served.server.engine.catalog();
    catalog.put_resource(offers::resource("test://watched"));
    let session = served.session("ann").await;
    let subscribe = |uri: &str| Post::legacy(Some(&session), "resources/subscribe", json!({"uri": uri}));
    served.result("ann", subscribe("test://watched")).await;
    let task = served.legacy_task("ann", &session, "wait").await;
    let history = format!("longhaul://task/{task}/history");
    served.result("ann", subscribe(&history)).await;

    let mut reader = served.listen("ann-reader", &session).await;
    catalog.resource_updated("test://watched");
    assert!(served.server.engine.remove_tool("never"));
    let next = async |stream: &mut Connection| {
        let message = stream.pushed().await;
        let uri = message["params"]["uri"].as_str().map(str::to_owned);
        uri.unwrap_or_else(|| message["method"].as_str().unwrap().to_owned())
    };
    assert_eq!(next(&mut reader).await, "notifications/tools/list_changed");
    catalog.resource_updated("test://watched");
    catalog.resource_updated(history.as_str());
    assert_eq!(next(&mut reader).await, history);

    let mut push = served.listen("ann", &session).await;
    catalog.resource_updated("test://watched");
    assert_eq!(next(&mut push).await, "test://watched");
    // What it has told is not replayed to those others either, but to themselves.
    for (stream, status) in [(push, 403), (reader, 200)] {
        let last = format!("Last-Event-ID: {}\r\n", stream.last_event_id.clone().unwrap());
        let head = served.get("ann-reader", &session, &last).await.head().await;
        assert_eq!(head.status, status);
        if status == 403 {
            assert!(challenge(&head).contains("scope=\"resources:read\""), "{head:?}");
        }
    }
}
