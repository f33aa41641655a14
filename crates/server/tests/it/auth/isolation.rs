//! The isolation matrix: what is another principal's is answered like what does not exist, byte for byte but for the id, and whoever is not known learns nothing
//! at all.

use super::{Authenticated, get_stream, of};
use crate::{
    client::Event,
    offers,
    request::{Post, act, act_as_task, everything},
    rounds::accept,
    server::{Server, other, task_of},
};
use longhaul_core::{Json, LogLevel, Owner, Principal};
use longhaul_runtime::SessionLog;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// An id that was never announced, as long as all are.
const NOBODYS: &str = "0123456789abcdefghjkmnpqrstvwxyz0123";

/// What one principal has, by the names under which another could ask for it.
#[derive(Clone)]
struct Names {
    running: String,
    done: String,
    asking: String,
    /// The key of its question.
    question: String,
    session: String,
    event: String,
    state: String,
    legacy_stream: String,
}

/// A request with this token, for something of that name; the session is one of the token's own principal.
type Ask = fn(token: &str, names: &Names, session: &str) -> Vec<u8>;

fn post(token: &str, post: Post) -> Vec<u8> {
    of(token, post).with("Connection", "close").to_bytes()
}

fn modern(token: &str, method: &str, params: Value) -> Vec<u8> {
    post(token, Post::modern(method, params))
}

fn legacy(token: &str, session: &str, method: &str, params: Value) -> Vec<u8> {
    post(token, Post::legacy(Some(session), method, params))
}

fn task(id: &str) -> Value {
    json!({"taskId": id})
}

fn part(id: &str, part: &str) -> Value {
    json!({"uri": format!("longhaul://task/{id}/{part}")})
}

fn listen(notifications: Value) -> Value {
    json!({"notifications": notifications})
}

/// Of a modern client that declares only the tasks of the older revision.
fn core(token: &str, method: &str, id: &str) -> Vec<u8> {
    post(token, Post::modern_with(method, task(id), json!({"tasks": {}})))
}

fn follow(token: &str, tool: &str, id: &str) -> Vec<u8> {
    modern(token, "tools/call", json!({"name": tool, "arguments": {"task": id}}))
}

fn retry(names: &Names) -> Post {
    let mut call = Post::modern_with("tools/call", act("optional", "ask_all name"), everything());
    call.body["params"]["inputResponses"] = json!({"name": accept("name", "Ann")});
    call.body["params"]["requestState"] = json!(names.state);
    call
}

/// Everything that can be asked for by a name, except for what ends something.
const READS: &[(&str, Ask)] = &[
    ("tasks/get", |token, names, _| {
        modern(token, "tasks/get", task(&names.running))
    }),
    ("tasks/update", |token, names, _| {
        let answers = json!({"taskId": names.asking, "inputResponses": {"name": {"action": "decline"}}});
        modern(token, "tasks/update", answers)
    }),
    // Whether an answer fits is only said of a task that is there.
    ("tasks/update, wrong answer", |token, names, _| {
        let answers = json!({"taskId": names.asking, "inputResponses": {names.question.as_str(): {"action": "maybe"}}});
        modern(token, "tasks/update", answers)
    }),
    ("core tasks/get", |token, names, _| {
        core(token, "tasks/get", &names.running)
    }),
    ("subscriptions/listen, task", |token, names, _| {
        let tasks = json!({"taskIds": [names.done]});
        modern(token, "subscriptions/listen", listen(tasks))
    }),
    ("resources/read, log", |token, names, _| {
        modern(token, "resources/read", part(&names.running, "log"))
    }),
    ("resources/read, output", |token, names, _| {
        modern(token, "resources/read", part(&names.running, "output"))
    }),
    ("resources/read, history", |token, names, _| {
        modern(token, "resources/read", part(&names.running, "history"))
    }),
    ("task_wait", |token, names, _| follow(token, "task_wait", &names.done)),
    ("task_status", |token, names, _| {
        follow(token, "task_status", &names.running)
    }),
    ("legacy tasks/get", |token, names, session| {
        legacy(token, session, "tasks/get", task(&names.running))
    }),
    ("legacy tasks/get without a session", |token, names, _| {
        let get = Post::legacy(None, "tasks/get", task(&names.running));
        post(token, get.with("MCP-Protocol-Version", "2025-11-25"))
    }),
    ("legacy tasks/result", |token, names, session| {
        legacy(token, session, "tasks/result", task(&names.done))
    }),
    ("legacy resources/read, log", |token, names, session| {
        legacy(token, session, "resources/read", part(&names.running, "log"))
    }),
    ("legacy resources/read, output", |token, names, session| {
        legacy(token, session, "resources/read", part(&names.running, "output"))
    }),
    ("legacy resources/read, history", |token, names, session| {
        legacy(token, session, "resources/read", part(&names.running, "history"))
    }),
    ("legacy resources/subscribe", |token, names, session| {
        legacy(token, session, "resources/subscribe", part(&names.running, "log"))
    }),
    ("legacy task_wait", |token, names, session| {
        legacy(
            token,
            session,
            "tools/call",
            json!({"name": "task_wait", "arguments": {"task": names.done}}),
        )
    }),
    ("session", |token, names, _| {
        legacy(token, &names.session, "ping", json!({}))
    }),
];

/// What ends something, or is used up.
const WRITES: &[(&str, Ask)] = &[
    ("requestState", |token, names, _| post(token, retry(names))),
    ("tasks/cancel", |token, names, _| {
        modern(token, "tasks/cancel", task(&names.running))
    }),
    ("legacy tasks/cancel", |token, names, session| {
        legacy(token, session, "tasks/cancel", task(&names.asking))
    }),
    ("task_cancel", |token, names, _| {
        follow(token, "task_cancel", &names.running)
    }),
    ("core tasks/cancel", |token, names, _| {
        core(token, "tasks/cancel", &names.running)
    }),
    ("delete", |token, names, _| {
        modern(token, "dev.longhaul/tasks/delete", task(&names.done))
    }),
    ("legacy delete", |token, names, session| {
        legacy(token, session, "dev.longhaul/tasks/delete", task(&names.asking))
    }),
    ("DELETE session", |token, names, _| {
        let headers = format!(
            "Authorization: Bearer {token}\r\nMcp-Session-Id: {}\r\nConnection: close\r\n",
            names.session
        );
        other("DELETE", &headers).into_bytes()
    }),
];

/// Requests whose answer would be a stream without end if they were granted.
const STREAMS: &[(&str, Ask)] = &[
    ("subscriptions/listen, resource", |token, names, _| {
        let resources = json!({"resourceSubscriptions": [part(&names.running, "log")["uri"]]});
        modern(token, "subscriptions/listen", listen(resources))
    }),
    ("GET session", |token, names, _| {
        get_stream(token, &names.session, "Connection: close\r\n").into_bytes()
    }),
    ("Last-Event-ID", |token, names, session| {
        let headers = format!("Last-Event-ID: {}\r\nConnection: close\r\n", names.event);
        get_stream(token, session, &headers).into_bytes()
    }),
    ("messages of the old pair", |token, names, _| {
        let message = post(token, Post::of(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})));
        let message = String::from_utf8(message).unwrap();
        let path = format!("POST {} ", names.legacy_stream);
        message.replacen("POST /mcp ", &path, 1).into_bytes()
    }),
];

/// The whole response, without its date. Of a push stream, or a subscription of a resource, only the beginning: it has no end.
async fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let request = std::str::from_utf8(bytes).unwrap();
    // Only what is granted is named in the acknowledgement of a subscription.
    let is_endless = |text: &str| {
        let is_stream = text.contains("content-type: text/event-stream");
        is_stream && (request.starts_with("GET ") || text.contains("resourceSubscriptions"))
    };
    let mut text = String::new();
    while !is_endless(&text) {
        let mut read = [0; 4096];
        match stream.read(&mut read).await.unwrap() {
            0 => break,
            length => text.push_str(std::str::from_utf8(&read[..length]).unwrap()),
        }
    }
    let lines = text.split("\r\n").filter(|line| !line.starts_with("date: "));
    // The name of a push stream that was opened anew is random.
    let lines = lines.map(|line| match line.strip_prefix("id: push-") {
        Some(rest) => rest.trim_start_matches(|character: char| character.is_ascii_hexdigit()),
        None => line,
    });
    lines.collect::<Vec<_>>().join("\r\n")
}

impl Names {
    /// What Ann has after she did all that leaves something.
    async fn of_ann(served: &Authenticated, legacy_stream: String) -> Self {
        let session = served.session("ann").await;
        let create = |acting: &str| Post::legacy(Some(&session), "tools/call", act_as_task("optional", acting));
        let done = task_of(&served.result("ann", create("say")).await);
        served.server.stage.finished.reaches(1).await;
        let running = task_of(&served.result("ann", create("wait")).await);
        let asking = task_of(&served.result("ann", create("ask_all name")).await);
        let question = loop {
            let got = served.result("ann", Post::modern("tasks/get", task(&asking))).await;
            if let Some(asked) = got["inputRequests"].as_object() {
                break asked.keys().next().unwrap().clone();
            }
            tokio::task::yield_now().await;
        };
        let mut push = served.listen("ann", &session).await;
        assert_eq!(push.event().await, Some(Event::Prime));
        let call = Post::modern_with("tools/call", act("optional", "ask_all name"), everything());
        let round = served.result("ann", call).await;
        Self {
            running,
            done,
            asking,
            question,
            session,
            event: push.last_event_id.unwrap(),
            state: round["requestState"].as_str().unwrap().to_owned(),
            legacy_stream,
        }
    }

    /// The same of nobody.
    fn of_nobody(&self) -> Self {
        // Another character in the middle: no signature fits any more.
        let altered = |text: &str| {
            let at = text.len() / 2;
            let other = if text.as_bytes()[at] == b'0' { '1' } else { '0' };
            format!("{}{other}{}", &text[..at], &text[at + 1..])
        };
        Self {
            running: NOBODYS.to_owned(),
            done: NOBODYS.to_owned(),
            asking: NOBODYS.to_owned(),
            question: self.question.clone(),
            session: altered(&self.session),
            event: altered(&self.event),
            state: altered(&self.state),
            legacy_stream: format!(
                "/messages?sessionId={}",
                altered(self.legacy_stream.rsplit('=').next().unwrap())
            ),
        }
    }

    /// A text in which all of these names are the same.
    fn masked(&self, text: &str) -> String {
        let ids = [
            &self.running,
            &self.done,
            &self.asking,
            &self.session,
            &self.event,
            &self.state,
        ];
        ids.iter()
            .fold(text.to_owned(), |text, id| text.replace(id.as_str(), "NAME"))
    }
}

/// A stream of the old pair of endpoints: the connection, and where to post to.
async fn legacy_stream(served: &Authenticated, token: &str) -> (crate::client::Connection, String) {
    let mut client = served.server.connect().await;
    let open = get_stream(token, "none", "").replacen("GET /mcp", "GET /sse", 1);
    client.send(open.as_bytes()).await;
    assert!(client.head().await.is_stream());
    let event = client.event_text().await.unwrap();
    (client, event.split("data: ").nth(1).unwrap().to_owned())
}

async fn served() -> Authenticated {
    Authenticated::with(crate::server::Options {
        http: longhaul_server::http::HttpOptions {
            legacy_sse: true,
            ..Default::default()
        },
        ..Default::default()
    })
    .await
}

#[tokio::test]
async fn invariant_5_s_03_what_is_anothers_is_answered_like_what_does_not_exist() {
    let served = served().await;
    let (_stream, path) = legacy_stream(&served, "ann").await;
    let anns = Names::of_ann(&served, path).await;
    let nobodys = anns.of_nobody();
    let server = &served.server;
    let own = |session: &str, token: &str| (token.to_owned(), session.to_owned());
    let strangers = [
        own(&served.session("bob").await, "bob"),
        own(&served.session("other").await, "other"),
    ];
    for (token, session) in &strangers {
        for (what, ask) in READS.iter().chain(WRITES).chain(STREAMS) {
            let foreign = raw(server, &ask(token, &anns, session)).await;
            let unknown = raw(server, &ask(token, &nobodys, session)).await;
            assert_eq!(anns.masked(&foreign), nobodys.masked(&unknown), "{what} for {token}");
            assert!(!foreign.is_empty(), "{what}");
        }
    }
    // A permission that is missing is missed whether or not there is something.
    let session = served.session("ann").await;
    for token in ["ann-nothing", "ann-reader"] {
        // Any of a principal's tokens may end its sessions.
        for (what, ask) in READS.iter().chain(WRITES).filter(|(what, _)| *what != "DELETE session") {
            let (found, unknown) = (ask(token, &anns, &session), ask(token, &nobodys, &session));
            let (found, unknown) = (raw(server, &found).await, raw(server, &unknown).await);
            if found.starts_with("HTTP/1.1 403") || unknown.starts_with("HTTP/1.1 403") {
                assert_eq!(anns.masked(&found), nobodys.masked(&unknown), "{what} for {token}");
            } else {
                assert_ne!((token, *what), ("ann-nothing", "tasks/get"));
            }
        }
    }
    // Whoever is not known is answered alike, whatever is asked for.
    for token in ["nobody", "ann-expired", ""] {
        let mut answers = std::collections::BTreeSet::new();
        for (_, ask) in READS.iter().chain(WRITES).chain(STREAMS) {
            for names in [&anns, &nobodys] {
                answers.insert(raw(server, &ask(token, names, &session)).await);
            }
        }
        let answers: Vec<&String> = answers.iter().collect();
        assert!(
            answers.len() == 1 && answers[0].starts_with("HTTP/1.1 401"),
            "{token}: {answers:?}"
        );
    }
    // All of that changed nothing, and its owner is answered otherwise: each row asks for something that is there. Also with another token of hers.
    for (what, ask) in STREAMS.iter().chain(READS).chain(WRITES) {
        let found = raw(server, &ask("ann-again", &anns, &anns.session)).await;
        let unknown = raw(server, &ask("ann-again", &nobodys, &anns.session)).await;
        assert_ne!(anns.masked(&found), nobodys.masked(&unknown), "{what}: {found}");
    }
}

/// Keys are found by their principal: the same key of another one is another call.
#[tokio::test]
async fn invariant_5_an_idempotency_key_finds_only_its_principals_call() {
    let served = Authenticated::start().await;
    let keyed = |token: &str| {
        let mut call = Post::modern("tools/call", act("optional", "wait"));
        call.body["params"]["_meta"]["dev.longhaul/idempotency-key"] = json!("the-key");
        of(token, call)
    };
    let anns = task_of(&served.server.result(&keyed("ann")).await);
    assert_eq!(task_of(&served.server.result(&keyed("ann-again")).await), anns);
    let others = task_of(&served.server.result(&keyed("other")).await);
    assert_ne!(task_of(&served.server.result(&keyed("bob")).await), anns);
    assert_ne!(others, anns);
    served.server.stage.begun.reaches(3).await;
    // Nor does it cancel another one's.
    let cancel = |token: &str| {
        let mut cancel = Post::modern("dev.longhaul/calls/cancel", json!({"name": "optional"}));
        cancel.body["params"]["_meta"]["dev.longhaul/idempotency-key"] = json!("the-key");
        of(token, cancel)
    };
    served.server.result(&cancel("bob")).await;
    let running = served.result("ann", Post::modern("tasks/get", task(&anns))).await;
    assert_eq!(running["status"], "working");
    let cancelled = served.server.result(&cancel("ann-again")).await;
    assert_eq!(cancelled["taskId"], *anns);
}

/// A verified principal lists all its tasks, whatever session or era made them, and nobody else's.
#[tokio::test]
async fn s_01_a_principal_lists_all_its_tasks() {
    let served = Authenticated::start().await;
    let [first, second] = [served.session("ann").await, served.session("ann-again").await];
    let bobs = served.session("bob").await;
    let create = Post::legacy(Some(&first), "tools/call", act_as_task("optional", "wait"));
    let legacy = task_of(&served.result("ann", create).await);
    let modern = task_of(
        &served
            .result("ann", Post::modern("tools/call", act("optional", "wait")))
            .await,
    );
    let list = |session: &str| Post::legacy(Some(session), "tasks/list", json!({}));
    for (token, post) in [
        ("ann-again", list(&second)),
        (
            "ann",
            Post::legacy(None, "tasks/list", json!({})).with("MCP-Protocol-Version", "2025-11-25"),
        ),
    ] {
        let listed = served.result(token, post).await;
        let mut ids: Vec<&str> = listed["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["taskId"].as_str().unwrap())
            .collect();
        ids.sort_unstable();
        let mut expected = [&*legacy, &*modern];
        expected.sort_unstable();
        assert_eq!(ids, expected);
    }
    assert_eq!(served.result("bob", list(&bobs)).await["tasks"], json!([]));
    // A session of another principal is none, also with the right token.
    let wrong = served.server.connect().await.error(&of("bob", list(&first))).await;
    assert_eq!(wrong.0, 404);
}

/// What another principal's cursor is valid for is not said either.
#[tokio::test]
async fn s_01_a_cursor_continues_only_the_list_of_its_principal() {
    let served = Authenticated::start().await;
    let (session, bobs) = (served.session("ann").await, served.session("bob").await);
    for nth in 0..101 {
        let catalog = served.server.engine.catalog();
        catalog.put_resource(offers::resource(&format!("test://{nth}")));
    }
    for _ in 0..51 {
        let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "say"));
        served.result("ann", create).await;
    }
    for method in ["tasks/list", "resources/list"] {
        let first = Post::legacy(Some(&session), method, json!({}));
        let cursor = served.result("ann", first).await["nextCursor"].clone();
        let next = |cursor: &Value| json!({"cursor": cursor.as_str().unwrap()});
        served
            .result("ann", Post::legacy(Some(&session), method, next(&cursor)))
            .await;
        let refused = async |cursor: &Value| {
            let asked = legacy("bob", &bobs, method, next(cursor));
            raw(&served.server, &asked).await
        };
        let foreign = refused(&cursor).await;
        assert!(foreign.contains("-32602"), "{foreign}");
        assert_eq!(foreign, refused(&json!("no-cursor")).await);
    }
}

/// A question of a task is answered only by its principal.
#[tokio::test]
async fn s_01_a_question_is_answered_only_by_its_principal() {
    let served = Authenticated::start().await;
    let session = served.session("ann").await;
    let mut push = served.listen("ann", &session).await;
    let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "ask_all name"));
    let task_id = task_of(&served.result("ann", create).await);
    let question = loop {
        let message = push.pushed().await;
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    let answer = |token: &str, session: &str, name: &str| {
        let mut post = Post::legacy(Some(session), "", json!({}));
        post.body = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept("name", name)});
        of(token, post)
    };
    let bobs = served.session("bob").await;
    let mut client = served.server.connect().await;
    client.send(&answer("bob", &bobs, "Bob").to_bytes()).await;
    assert_eq!(client.reply().await.status(), 202, "as for an id that is nobody's");
    client.send(&answer("bob", &session, "Bob").to_bytes()).await;
    assert_eq!(client.reply().await.status(), 404);
    client.send(&answer("ann", &session, "Ann").to_bytes()).await;
    assert_eq!(client.reply().await.status(), 202);
    let result = Post::legacy(Some(&session), "tasks/result", task(&task_id)).with("Accept", "application/json");
    let result = served.result("ann", result).await;
    assert!(result.to_string().contains("Ann"), "{result}");
}

/// What follows a resource for one principal reports its changes to that one alone, however many have subscribed to the same URI.
#[tokio::test]
async fn s_02_an_update_for_one_principal_is_told_to_no_other() {
    let served = Authenticated::start().await;
    let catalog = served.server.engine.catalog();
    // Updates that come together are told in this order.
    let uris = ["test://a-of-ann", "test://all"];
    for uri in uris {
        catalog.put_resource(offers::resource(uri));
    }
    let mut streams = Vec::new();
    for name in ["ann", "bob"] {
        let session = served.session(name).await;
        for uri in uris {
            let subscribe = Post::legacy(Some(&session), "resources/subscribe", json!({"uri": uri}));
            served.result(name, subscribe).await;
        }
        streams.push((name, served.listen(name, &session).await));
        let mut subscription = served.server.connect().await;
        let subscribe = Post::modern("subscriptions/listen", listen(json!({"resourceSubscriptions": uris})));
        subscription.send(&of(name, subscribe).to_bytes()).await;
        assert!(subscription.head().await.is_stream());
        let acknowledged = subscription.message().await.unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        streams.push((name, subscription));
    }
    let ann = Owner {
        principal: Principal::named("key:ann"),
        session: None,
    };
    catalog
        .subscriber(ann, Arc::default())
        .notify("test://a-of-ann".into(), None);
    for (name, stream) in &mut streams {
        if *name == "ann" {
            assert_eq!(stream.message().await.unwrap()["params"]["uri"], "test://a-of-ann");
        }
    }
    catalog.resource_updated("test://all");
    for (name, stream) in &mut streams {
        assert_eq!(stream.message().await.unwrap()["params"]["uri"], "test://all", "{name}");
    }
}

/// A log message that belongs to no request is for the sessions of one principal.
#[tokio::test]
async fn s_02_a_log_message_for_one_principal_is_told_to_no_other() {
    let served = Authenticated::start().await;
    let mut streams = Vec::new();
    for name in ["ann", "bob"] {
        let session = served.session(name).await;
        streams.push((name, served.listen(name, &session).await));
    }
    for name in ["ann", "bob"] {
        served.server.engine.catalog().session_logs().send(SessionLog {
            principal: Principal::named(format!("key:{name}")),
            session: None,
            level: LogLevel::Error,
            logger: None,
            data: Json::from(json!(name)),
            relayed: None,
            method: None,
        });
    }
    for (name, stream) in &mut streams {
        assert_eq!(stream.pushed().await["params"]["data"], *name);
    }
}
