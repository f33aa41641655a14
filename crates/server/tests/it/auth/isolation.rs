//! The isolation matrix: what is another principal's is answered like what does not exist, byte for byte but for the id, and whoever is not known learns nothing
//! at all.

use super::{Authenticated, get_stream, of};
use crate::{
    client::Connection,
    offers,
    request::{Post, act, everything},
    rounds::{accept, answer},
    server::{Options, Server, get, other},
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

/// A request with this token, for something of that name; the session is one of the token's own principal. The tables call them `t`, `n`, `s`.
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
fn declaring_legacy_tasks(token: &str, method: &str, id: &str) -> Vec<u8> {
    post(token, Post::modern_with(method, task(id), json!({"tasks": {}})))
}

fn follow(token: &str, tool: &str, id: &str) -> Vec<u8> {
    modern(token, "tools/call", json!({"name": tool, "arguments": {"task": id}}))
}

fn retry(names: &Names) -> Post {
    let call = Post::modern_with("tools/call", act("optional", "ask_all name"), everything());
    call.retry(&json!({"requestState": names.state}), answer("name", "Ann"))
}

/// Everything that can be asked for by a name, except for what ends something.
const READS: &[(&str, Ask)] = &[
    ("tasks/get", |t, n, _| modern(t, "tasks/get", task(&n.running))),
    ("tasks/update", |t, n, _| {
        let answers = json!({"taskId": n.asking, "inputResponses": {"name": {"action": "decline"}}});
        modern(t, "tasks/update", answers)
    }),
    // Whether an answer fits is only said of a task that is there.
    ("tasks/update, wrong answer", |t, n, _| {
        let answers = json!({"taskId": n.asking, "inputResponses": {n.question.as_str(): {"action": "maybe"}}});
        modern(t, "tasks/update", answers)
    }),
    ("tasks/get, legacy tasks declared", |t, n, _| {
        declaring_legacy_tasks(t, "tasks/get", &n.running)
    }),
    ("subscriptions/listen, task", |t, n, _| {
        let tasks = json!({"taskIds": [n.done]});
        modern(t, "subscriptions/listen", listen(tasks))
    }),
    ("resources/read, log", |t, n, _| {
        modern(t, "resources/read", part(&n.running, "log"))
    }),
    ("resources/read, output", |t, n, _| {
        modern(t, "resources/read", part(&n.running, "output"))
    }),
    ("resources/read, history", |t, n, _| {
        modern(t, "resources/read", part(&n.running, "history"))
    }),
    ("resources/read, artifacts", |t, n, _| {
        modern(t, "resources/read", part(&n.running, "artifacts"))
    }),
    ("resources/read, an artifact", |t, n, _| {
        modern(t, "resources/read", part(&n.running, "artifacts/data.bin?limit=3"))
    }),
    ("task_wait", |t, n, _| follow(t, "task_wait", &n.done)),
    ("task_status", |t, n, _| follow(t, "task_status", &n.running)),
    ("legacy tasks/get", |t, n, s| {
        legacy(t, s, "tasks/get", task(&n.running))
    }),
    ("legacy tasks/get without a session", |t, n, _| {
        let get = Post::legacy(None, "tasks/get", task(&n.running));
        post(t, get.with("MCP-Protocol-Version", "2025-11-25"))
    }),
    ("legacy tasks/result", |t, n, s| {
        legacy(t, s, "tasks/result", task(&n.done))
    }),
    ("legacy resources/read, log", |t, n, s| {
        legacy(t, s, "resources/read", part(&n.running, "log"))
    }),
    ("legacy resources/read, an artifact", |t, n, s| {
        legacy(
            t,
            s,
            "resources/read",
            part(&n.running, "artifacts/data.bin?offset=1&limit=3"),
        )
    }),
    ("legacy resources/read, output", |t, n, s| {
        legacy(t, s, "resources/read", part(&n.running, "output"))
    }),
    ("legacy resources/read, history", |t, n, s| {
        legacy(t, s, "resources/read", part(&n.running, "history"))
    }),
    ("legacy resources/subscribe", |t, n, s| {
        legacy(t, s, "resources/subscribe", part(&n.running, "log"))
    }),
    ("legacy task_wait", |t, n, s| {
        let wait = json!({"name": "task_wait", "arguments": {"task": n.done}});
        legacy(t, s, "tools/call", wait)
    }),
    ("session", |t, n, _| legacy(t, &n.session, "ping", json!({}))),
];

/// What ends something, or is used up.
const WRITES: &[(&str, Ask)] = &[
    ("requestState", |t, n, _| post(t, retry(n))),
    ("tasks/cancel", |t, n, _| modern(t, "tasks/cancel", task(&n.running))),
    ("legacy tasks/cancel", |t, n, s| {
        legacy(t, s, "tasks/cancel", task(&n.asking))
    }),
    ("task_cancel", |t, n, _| follow(t, "task_cancel", &n.running)),
    ("tasks/cancel, legacy tasks declared", |t, n, _| {
        declaring_legacy_tasks(t, "tasks/cancel", &n.running)
    }),
    ("delete", |t, n, _| {
        modern(t, "dev.longhaul/tasks/delete", task(&n.done))
    }),
    ("legacy delete", |t, n, s| {
        legacy(t, s, "dev.longhaul/tasks/delete", task(&n.asking))
    }),
    ("DELETE session", |t, n, _| {
        let headers = format!(
            "Authorization: Bearer {t}\r\nMcp-Session-Id: {}\r\nConnection: close\r\n",
            n.session
        );
        other("DELETE", &headers).into_bytes()
    }),
];

/// Requests whose answer would be a stream without end if they were granted.
const STREAMS: &[(&str, Ask)] = &[
    ("subscriptions/listen, resource", |t, n, _| {
        let resources = json!({"resourceSubscriptions": [part(&n.running, "log")["uri"]]});
        modern(t, "subscriptions/listen", listen(resources))
    }),
    ("GET session", |t, n, _| {
        get_stream(t, &n.session, "Connection: close\r\n").into_bytes()
    }),
    ("Last-Event-ID", |t, n, s| {
        let headers = format!("Last-Event-ID: {}\r\nConnection: close\r\n", n.event);
        get_stream(t, s, &headers).into_bytes()
    }),
    ("messages of the old pair", |t, n, _| {
        let message = post(t, Post::of(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})));
        let message = String::from_utf8(message).unwrap();
        let path = format!("POST {} ", n.legacy_stream);
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
        let create = |acting: &str| Post::legacy_task(Some(&session), "optional", acting);
        let done = served.task("ann", create("say")).await;
        served.server.stage.finished.reaches(1).await;
        let running = served.task("ann", create("wait")).await;
        let asking = served.task("ann", create("ask_all name")).await;
        let question = served.question("ann", &asking).await;
        let event = served.listen("ann", &session).await.first_id().await;
        let call = Post::modern_with("tools/call", act("optional", "ask_all name"), everything());
        let round = served.result("ann", call).await;
        Self {
            running,
            done,
            asking,
            question,
            session,
            event,
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
        let stream = altered(self.legacy_stream.rsplit('=').next().unwrap());
        Self {
            running: NOBODYS.to_owned(),
            done: NOBODYS.to_owned(),
            asking: NOBODYS.to_owned(),
            question: self.question.clone(),
            session: altered(&self.session),
            event: altered(&self.event),
            state: altered(&self.state),
            legacy_stream: format!("/messages?sessionId={stream}"),
        }
    }

    /// A text in which all of these names are the same.
    fn masked(&self, text: &str) -> String {
        let tasks = [&self.running, &self.done, &self.asking];
        let ids = tasks.into_iter().chain([&self.session, &self.event, &self.state]);
        ids.fold(text.to_owned(), |text, id| text.replace(id.as_str(), "NAME"))
    }
}

/// A stream of the old pair of endpoints: the connection, and where to post to.
async fn legacy_stream(served: &Authenticated, token: &str) -> (Connection, String) {
    let mut client = served.server.connect().await;
    let open = get_stream(token, "none", "").replacen("GET /mcp", "GET /sse", 1);
    client.send(open.as_bytes()).await;
    client.stream_head().await;
    let event = client.event_text().await.unwrap();
    (client, event.split("data: ").nth(1).unwrap().to_owned())
}

async fn served() -> Authenticated {
    Authenticated::with(Options::with(|options| options.http.legacy_sse = true)).await
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
    let keyed = |token: &str| of(token, Post::call("optional", "wait").keyed("the-key"));
    let anns = served.server.task(&keyed("ann")).await;
    assert_eq!(served.server.task(&keyed("ann-again")).await, anns);
    let others = served.server.task(&keyed("other")).await;
    assert_ne!(served.server.task(&keyed("bob")).await, anns);
    assert_ne!(others, anns);
    served.server.stage.begun.reaches(3).await;
    // Nor does it cancel another one's.
    let cancel = Post::modern("dev.longhaul/calls/cancel", json!({"name": "optional"})).keyed("the-key");
    served.result("bob", cancel.clone()).await;
    let running = served.result("ann", get(&anns)).await;
    assert_eq!(running["status"], "working");
    let cancelled = served.result("ann-again", cancel).await;
    assert_eq!(cancelled["taskId"], *anns);
}

/// A verified principal lists all its tasks, whatever session or era made them, and nobody else's.
#[tokio::test]
async fn s_01_a_principal_lists_all_its_tasks() {
    let served = Authenticated::start().await;
    let [first, second] = [served.session("ann").await, served.session("ann-again").await];
    let bobs = served.session("bob").await;
    let legacy = served.legacy_task("ann", &first, "wait").await;
    let modern = served.task("ann", Post::call("optional", "wait")).await;
    let list = |session: &str| Post::legacy(Some(session), "tasks/list", json!({}));
    let alone = Post::legacy(None, "tasks/list", json!({})).with("MCP-Protocol-Version", "2025-11-25");
    for (token, post) in [("ann-again", list(&second)), ("ann", alone)] {
        let listed = served.result(token, post).await["tasks"].clone();
        let ids = listed.as_array().unwrap().iter().map(|task| task["taskId"].as_str());
        let mut ids: Vec<_> = ids.map(Option::unwrap).collect();
        ids.sort_unstable();
        let mut expected = [&*legacy, &*modern];
        expected.sort_unstable();
        assert_eq!(ids, expected);
    }
    assert_eq!(served.result("bob", list(&bobs)).await["tasks"], json!([]));
    // A session of another principal is none, also with the right token.
    let wrong = served.error("bob", list(&first)).await;
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
        let create = Post::legacy_task(Some(&session), "optional", "say");
        served.result("ann", create).await;
    }
    for method in ["tasks/list", "resources/list"] {
        let first = Post::legacy(Some(&session), method, json!({}));
        let cursor = served.result("ann", first).await["nextCursor"].clone();
        let next = |cursor: &Value| json!({"cursor": cursor.as_str().unwrap()});
        let second = Post::legacy(Some(&session), method, next(&cursor));
        served.result("ann", second).await;
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
    let task_id = served.legacy_task("ann", &session, "ask_all name").await;
    let question = push.next("elicitation/create").await;
    let bobs = served.session("bob").await;
    for (token, session, name, status) in [
        // As for an id that is nobody's.
        ("bob", &bobs, "Bob", 202),
        ("bob", &session, "Bob", 404),
        ("ann", &session, "Ann", 202),
    ] {
        let answer = ("result", accept("name", name));
        let response = Post::response(session, &question["id"], answer);
        assert_eq!(served.status(token, response).await, status);
    }
    let result = Post::legacy(Some(&session), "tasks/result", task(&task_id)).json_only();
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
        let wanted = json!({"resourceSubscriptions": uris});
        streams.push((name, served.subscribe(name, wanted).await));
    }
    let ann = Owner {
        principal: Principal::named("key:ann"),
        session: None,
    };
    let subscriber = catalog.subscriber(ann, Arc::default());
    subscriber.notify("test://a-of-ann".into(), None);
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
