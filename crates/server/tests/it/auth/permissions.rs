//! What a sender may do.

use super::{Authenticated, METADATA, get_stream, of};
use crate::{
    client::Connection,
    offers,
    request::{Post, act, act_as_task},
    server::{Options, task_of},
    stage::HANDED_OFF,
};
use longhaul_server::http::HttpOptions;
use serde_json::{Value, json};

/// The names of the listed tools.
async fn listed(served: &Authenticated, token: &str) -> Vec<String> {
    let list = served.result(token, Post::modern_plain("tools/list", json!({}))).await;
    assert_eq!(list["cacheScope"], "private", "{list}");
    let tools = list["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn s_22_the_list_of_tools_shows_what_may_be_called() {
    let served = Authenticated::start().await;
    let all = listed(&served, "ann").await;
    assert!(all.len() == 10 && all.contains(&"task_wait".to_owned()), "{all:?}");
    assert_eq!(listed(&served, "ann-caller").await, ["optional"]);
    assert_eq!(
        listed(&served, "ann-reader").await,
        ["task_wait", "task_status", "task_list"]
    );
    assert!(listed(&served, "ann-nothing").await.is_empty());
    assert_eq!(
        listed(&served, "bob").await,
        all,
        "also after others have listed theirs"
    );
}

#[tokio::test]
async fn s_22_what_is_missing_is_asked_for_at_once() {
    let served = Authenticated::start().await;
    let session = served.session("ann").await;
    let task = task_of(
        &served
            .result("ann", Post::modern("tools/call", act("optional", "wait")))
            .await,
    );
    let follow = |name: &str| Post::modern("tools/call", json!({"name": name, "arguments": {"task": task}}));
    let log = format!("longhaul://task/{task}/log");
    let of_task = json!({"taskId": task, "inputResponses": {}});
    let listen = json!({"notifications": {"taskIds": [task]}});
    let listen_to_log = json!({"notifications": {"resourceSubscriptions": [log]}});
    let legacy = |method: &str, params: Value| Post::legacy(Some(&session), method, params);
    let mut connection = served.server.connect().await;
    for (token, post, scope) in [
        (
            "caller",
            Post::modern("tools/call", act("always", "say")),
            "tools:always tasks:read",
        ),
        (
            "nothing",
            Post::modern("tools/call", act(HANDED_OFF, "say")),
            "tools:handed_off tasks:read",
        ),
        (
            "nothing",
            Post::modern("tools/call", act("unknown", "say")),
            "tools:unknown tasks:read",
        ),
        (
            "nothing",
            legacy("tools/call", act_as_task("optional", "say")),
            "tools:optional tasks:read",
        ),
        ("reader", Post::modern("tasks/cancel", of_task.clone()), "tasks:write"),
        ("reader", Post::modern("tasks/update", of_task.clone()), "tasks:write"),
        ("reader", legacy("tasks/cancel", of_task.clone()), "tasks:write"),
        ("reader", follow("task_cancel"), "tasks:write"),
        ("caller", follow("task_wait"), "tasks:read"),
        // What runs as a task whose state its caller may not read is not begun.
        (
            "caller",
            Post::modern("tools/call", act("optional", "say")),
            "tools:optional tasks:read",
        ),
        (
            "caller",
            legacy("tools/call", act_as_task("optional", "say")),
            "tools:optional tasks:read",
        ),
        ("caller", Post::modern("tasks/get", of_task.clone()), "tasks:read"),
        ("caller", legacy("tasks/get", of_task.clone()), "tasks:read"),
        ("caller", legacy("tasks/result", of_task.clone()), "tasks:read"),
        ("caller", legacy("tasks/list", json!({})), "tasks:read"),
        (
            "caller",
            Post::modern("resources/read", json!({"uri": log})),
            "tasks:read",
        ),
        (
            "caller",
            legacy("resources/subscribe", json!({"uri": log})),
            "tasks:read",
        ),
        ("caller", Post::modern("subscriptions/listen", listen), "tasks:read"),
        (
            "caller",
            Post::modern("subscriptions/listen", listen_to_log),
            "tasks:read",
        ),
    ] {
        let reply = connection.exchange(&of(&format!("ann-{token}"), post.clone())).await;
        assert_eq!(reply.error(), (403, 403), "{token} {}", post.body);
        let challenge =
            format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{METADATA}\"");
        assert_eq!(
            reply.head.header("www-authenticate"),
            Some(&*challenge),
            "{}",
            post.body
        );
    }
    // Names that are none of a tool are in no challenge: they could name other scopes.
    for name in ["*", "x tasks:write", "say*", "a\", scope=\"x", "", &"n".repeat(129)] {
        let post = legacy("tools/call", act(name, "say"));
        let reply = connection.exchange(&of("ann-reader", post)).await;
        assert_eq!(reply.head.status, 403, "{name}");
        let challenge = format!("Bearer error=\"insufficient_scope\", resource_metadata=\"{METADATA}\"");
        assert_eq!(reply.head.header("www-authenticate"), Some(&*challenge), "{name}");
    }
    let mapped = of("ann-mapped", Post::modern("tools/call", act("optional", "say")));
    let reply = connection.exchange(&mapped).await;
    let challenge = reply.head.header("www-authenticate").unwrap();
    assert!(challenge.contains("scope=\"theirs:2\""), "{challenge}");
    assert_eq!(served.server.stage.begun.get(), 1, "nothing else has begun");

    // What is allowed works.
    for (token, post) in [
        ("caller", Post::modern_plain("tools/call", act("optional", "say"))),
        ("reader", Post::modern("tasks/get", of_task.clone())),
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
    let challenge = format!(
        "Bearer error=\"insufficient_scope\", scope=\"their:tools their:tasks\", resource_metadata=\"{METADATA}\""
    );
    let lists = [
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ];
    let modern = ["server/discover"].iter().chain(&lists);
    let modern = modern.map(|method| Post::modern(method, json!({})));
    let legacy = lists
        .iter()
        .map(|method| Post::legacy(Some(&session), method, json!({})));
    let posts: Vec<Post> = modern.chain(legacy).chain([Post::initialize("2025-11-25")]).collect();
    for post in &posts {
        let reply = connection.exchange(&of("ann-useless", post.clone())).await;
        assert_eq!(reply.error(), (403, 403), "{}", post.body);
        assert_eq!(
            reply.head.header("www-authenticate"),
            Some(&*challenge),
            "{}",
            post.body
        );
        // With one permission, or where no scope would help, it is served.
        for token in ["ann-useful", "ann-nothing"] {
            connection.result(&of(token, post.clone())).await;
        }
    }
    let ping = Post::legacy(Some(&session), "ping", json!({}));
    connection.result(&of("ann-useless", ping)).await;
    let call = of("ann-useless", Post::modern("tools/call", act("optional", "say")));
    let challenge = connection.exchange(&call).await.head;
    let challenge = challenge.header("www-authenticate").unwrap();
    assert!(
        challenge.contains("scope=\"tools:optional tasks:read\""),
        "what it needs, and not more: {challenge}"
    );
}

/// Resources that are not tasks', prompts and completion need one permission, whoever answers them. Lists leave out what may not be used.
#[tokio::test]
async fn s_22_resources_and_prompts_need_a_permission() {
    let served = Authenticated::start().await;
    offers::offer(&served.server);
    let session = served.session("ann").await;
    let task = task_of(
        &served
            .result("ann", Post::modern("tools/call", act("optional", "wait")))
            .await,
    );
    let log = format!("longhaul://task/{task}/log");
    let talk = json!({"type": "ref/prompt", "name": "talk"});
    let one = json!({"uri": "test://one"});
    let both =
        json!({"notifications": {"taskIds": [task], "resourceSubscriptions": ["test://one", log, "test://1/data"]}});
    let legacy = |method: &str, params: Value| Post::legacy(Some(&session), method, params);
    let uses = [
        (Post::modern("resources/read", one.clone()), "resources:read"),
        (legacy("resources/read", one.clone()), "resources:read"),
        (
            legacy("resources/read", json!({"uri": "test://unknown"})),
            "resources:read",
        ),
        (legacy("resources/subscribe", one), "resources:read"),
        (Post::modern("subscriptions/listen", both), "tasks:read resources:read"),
        (
            Post::modern("prompts/get", json!({"name": "talk", "arguments": {"topic": "a"}})),
            "resources:read",
        ),
        (
            Post::modern(
                "completion/complete",
                json!({"ref": talk, "argument": {"name": "topic", "value": ""}}),
            ),
            "resources:read",
        ),
    ];
    let lists = [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ];
    let count = async |token: &str, (method, member): (&str, &str)| {
        let listed = served.result(token, Post::modern(method, json!({}))).await;
        let templates = listed[member].as_array().expect("a list").iter();
        templates
            .filter(|entry| !entry.to_string().contains("longhaul://"))
            .count()
    };
    for answered_by_the_author in [false, true] {
        if answered_by_the_author {
            for method in [
                "resources/list",
                "resources/read",
                "resources/templates/list",
                "prompts/list",
                "prompts/get",
            ] {
                served.server.engine.catalog().put_method(offers::method(method));
            }
        }
        for (post, scope) in &uses {
            for token in ["ann-nothing", "ann-tools"] {
                let mut connection = served.server.connect().await;
                let reply = connection.exchange(&of(token, post.clone())).await;
                assert_eq!(reply.error(), (403, 403), "{token} {}", post.body);
                let challenge = reply.head.header("www-authenticate").unwrap();
                // `ann-tools` may read tasks, and is told so all the same: its client asks for what is named.
                assert!(
                    challenge.contains(&format!("scope=\"{scope}\"")),
                    "{}: {challenge}",
                    post.body
                );
            }
        }
        for list in lists {
            assert_eq!(
                (count("ann-nothing", list).await, count("ann-tools", list).await),
                (0, 0),
                "{list:?}"
            );
            if !answered_by_the_author {
                assert_eq!(
                    (count("ann", list).await, count("ann-resources", list).await),
                    (1, 1),
                    "{list:?}"
                );
            }
        }
    }
    for (post, _) in uses.iter().filter(|(_, scope)| *scope == "resources:read") {
        let mut connection = served.server.connect().await;
        connection.send(&of("ann-resources", post.clone()).to_bytes()).await;
        assert_eq!(connection.head().await.status, 200, "{}", post.body);
    }
}

/// Whoever may neither call nor change anything was asked nothing.
#[tokio::test]
async fn a_response_needs_the_right_to_call_or_to_change() {
    let served = Authenticated::start().await;
    let session = served.session("ann").await;
    let response = Post::legacy(Some(&session), "", json!({}));
    let response = |token: &str| {
        let mut post = response.clone();
        post.body = json!({"jsonrpc": "2.0", "id": "0123456789abcdef0123456789abcdef", "result": {}});
        of(token, post)
    };
    let mut connection = served.server.connect().await;
    for (token, status) in [
        ("ann", 202),
        ("ann-caller", 202),
        ("ann-reader", 403),
        ("ann-nothing", 403),
    ] {
        connection.send(&response(token).to_bytes()).await;
        assert_eq!(connection.reply().await.status(), status, "{token}");
    }
}

/// Streams tell of tasks, too: opened, resumed, or of the old pair of endpoints.
#[tokio::test]
async fn s_22_a_stream_needs_what_its_messages_need() {
    let served = Authenticated::with(Options {
        http: HttpOptions {
            legacy_sse: true,
            ..HttpOptions::default()
        },
        ..Options::default()
    })
    .await;
    let session = served.session("ann").await;
    let mut push = served.listen("ann-reader", &session).await;
    push.event().await;
    let mut call = served.server.connect().await;
    let report = Post::legacy(Some(&session), "tools/call", act("optional", "report 1")).progress_token(json!("p"));
    call.send(&of("ann", report).to_bytes()).await;
    assert!(call.head().await.is_stream());
    call.message().await.unwrap();
    let mut callers = served.server.connect().await;
    let report = Post::legacy(Some(&session), "tools/call", act("optional", "report 1")).progress_token(json!("p"));
    callers.send(&of("ann-caller", report).to_bytes()).await;
    assert!(callers.head().await.is_stream());
    callers.message().await.unwrap();
    let resume = |of: &Connection| format!("Last-Event-ID: {}\r\n", of.last_event_id.clone().unwrap());
    let (push, call, callers) = (resume(&push), resume(&call), resume(&callers));
    let result = event_of_a_result(&served, &session).await;
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
        let (mut client, get) = (served.server.connect().await, get_stream(&token, &session, headers));
        client.send(get.as_bytes()).await;
        let head = client.head().await;
        assert_eq!(
            head.status,
            if needed.is_some() { 403 } else { 200 },
            "{token} {headers}"
        );
        if let Some(needed) = needed {
            let challenge = head.header("www-authenticate").unwrap();
            assert!(
                challenge.contains(&format!("scope=\"{needed}\"")),
                "{token} {headers}: {challenge}"
            );
        }
        if headers.is_empty() {
            client = served.server.connect().await;
            client.send(get.replacen("GET /mcp", "GET /sse", 1).as_bytes()).await;
            assert_eq!(client.head().await.status, head.status, "{token}");
        }
    }
    // What depends on the request alone tells nothing of sessions.
    let mut client = served.server.connect().await;
    client.send(get_stream("ann-caller", "none", "").as_bytes()).await;
    assert_eq!(client.head().await.status, 403);
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
    let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&served.result("ann", create).await);
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
        let mut client = served.server.connect().await;
        client.send(get_stream("ann-reader", &session, &last).as_bytes()).await;
        let head = client.head().await;
        assert_eq!(head.status, status);
        if status == 403 {
            assert!(
                head.header("www-authenticate")
                    .unwrap()
                    .contains("scope=\"resources:read\"")
            );
        }
    }
}

/// Where to resume the answer to a `tasks/result` of `ann-reader`.
async fn event_of_a_result(served: &Authenticated, session: &str) -> String {
    let create = Post::legacy(Some(session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&served.result("ann", create).await);
    let mut stream = served.server.connect().await;
    let result = Post::legacy(Some(session), "tasks/result", json!({"taskId": task}));
    stream.send(&of("ann-reader", result).to_bytes()).await;
    assert!(stream.head().await.is_stream());
    stream.event().await;
    format!("Last-Event-ID: {}\r\n", stream.last_event_id.unwrap())
}
