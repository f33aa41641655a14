//! The audit log, and the limits of lookups and calls.

use super::{Authenticated, of};
use crate::{
    clock::TestClock,
    request::{Post, act, act_as_task, everything},
    rounds::accept,
    server::{Options, task_of},
    stage::HANDED_OFF,
};
use longhaul_server::{
    Limits,
    audit::{Audit, AuditEvent},
};
use serde_json::{Value, json};
use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

const UNKNOWN: &str = "0123456789abcdefghjkmnpqrstvwxyz0123";

/// Keeps what it is told.
#[derive(Default)]
pub(super) struct Told(Mutex<Vec<Value>>);

impl Audit for Told {
    fn record(&self, event: &AuditEvent) {
        self.0
            .lock()
            .unwrap()
            .push(serde_json::from_str(&event.to_json()).unwrap());
    }
}

impl Told {
    /// The events since the last time, with all that they say.
    pub(super) fn take_whole(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The events since the last time, each as what was done, how it went, by whom and to which task.
    pub(super) fn take(&self) -> Vec<[String; 4]> {
        let events = self.take_whole();
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let short = |event: &Value| ["action", "outcome", "principal", "task"].map(|name| text(event, name));
        events.iter().map(short).collect()
    }
}

/// With a clock that stands still, since rates are by it and requests take time.
async fn audited(limits: Limits) -> (Authenticated, Arc<Told>) {
    audited_by(TestClock::standing(), limits).await
}

pub(super) async fn audited_by(clock: TestClock, limits: Limits) -> (Authenticated, Arc<Told>) {
    let told = Arc::new(Told::default());
    let options = Options {
        audit: Some(Arc::<Told>::clone(&told)),
        limits,
        clock,
        ..Options::default()
    };
    (Authenticated::with(options).await, told)
}

fn line(action: &str, outcome: &str, principal: &str, task: &str) -> Vec<[String; 4]> {
    vec![[action, outcome, principal, task].map(str::to_owned)]
}

#[tokio::test]
async fn g1_60_s_07_each_request_about_a_task_is_recorded() {
    let (served, told) = audited(Limits::default()).await;
    let session = served.session("ann").await;
    let secret = json!({"name": "optional", "arguments": {"act": "say"}, "task": {"ttl": 60_000}});
    let task = task_of(
        &served
            .result("ann", Post::legacy(Some(&session), "tools/call", secret))
            .await,
    );
    {
        let events = told.0.lock().unwrap();
        let created = events.last().unwrap();
        assert_eq!(created["tool"], "optional");
        assert_eq!(created["method"], "tools/call");
        assert_eq!(
            (&created["client"], &created["clientVersion"]),
            (&json!("t"), &json!("1"))
        );
        assert_eq!(created["address"], "127.0.0.1");
        assert!(
            created["session"].is_string() && created["time"].is_string(),
            "{created}"
        );
        assert!(
            !created["session"].as_str().unwrap().contains(&session),
            "the id of a session is a secret"
        );
    }
    assert_eq!(told.take(), line("create", "ok", "key:ann", &task));
    loop {
        let got = served
            .result("ann", Post::modern("tasks/get", json!({"taskId": task})))
            .await;
        if got["status"] == "completed" {
            break;
        }
        tokio::task::yield_now().await;
    }
    // What many reads leave out is over.
    served.tokens.clock.advance(Duration::from_secs(1));
    told.take();
    let modern = |method: &str, params: Value| Post::modern(method, params);
    let id = || json!({"taskId": task});
    let history = json!({"uri": format!("longhaul://task/{task}/history")});
    for (token, post, action, outcome) in [
        ("ann", modern("tasks/get", id()), "read", "ok"),
        ("bob", modern("tasks/get", id()), "read", "unknown"),
        ("bob", modern("resources/read", history), "read", "unknown"),
        ("ann", Post::legacy(Some(&session), "tasks/result", id()), "read", "ok"),
        (
            "ann",
            Post::legacy(Some(&session), "tasks/cancel", id()),
            "cancel",
            "failed",
        ),
        (
            "bob",
            modern("tasks/update", json!({"taskId": task, "inputResponses": {}})),
            "answer",
            "unknown",
        ),
        (
            "ann-reader",
            modern("dev.longhaul/tasks/delete", id()),
            "delete",
            "denied",
        ),
        (
            "bob",
            modern("tools/call", json!({"name": "task_wait", "arguments": {"task": task}})),
            "read",
            "unknown",
        ),
        (
            "ann",
            modern("tools/call", json!({"name": "task_wait", "arguments": {"task": task}})),
            "read",
            "ok",
        ),
        (
            "ann",
            modern(
                "tools/call",
                json!({"name": "task_cancel", "arguments": {"task": task}}),
            ),
            "cancel",
            "ok",
        ),
        ("ann", modern("dev.longhaul/tasks/delete", id()), "delete", "ok"),
        ("ann", modern("dev.longhaul/tasks/delete", id()), "delete", "unknown"),
    ] {
        served.server.connect().await.exchange(&of(token, post)).await;
        let principal = format!("key:{}", token.split('-').next().unwrap());
        assert_eq!(
            told.take(),
            line(action, outcome, &principal, &task),
            "{token} {action}"
        );
    }
    let list = Post::legacy(Some(&session), "tasks/list", json!({}));
    served.result("ann", list).await;
    assert_eq!(told.take(), line("read", "ok", "key:ann", ""));
    served
        .result("ann", Post::modern_plain("tools/call", act("optional", "say")))
        .await;
    assert_eq!(told.take(), line("call", "ok", "key:ann", ""));
    served
        .server
        .connect()
        .await
        .exchange(&of("nobody", Post::modern("tasks/get", id())))
        .await;
    assert_eq!(told.take(), line("denied", "denied", "", ""));
    // One request that names several tasks.
    let anns = task_of(
        &served
            .result("ann", Post::modern("tools/call", act("optional", "wait")))
            .await,
    );
    told.take();
    let listen = json!({"notifications": {"taskIds": [task, anns]}});
    let mut stream = served.server.connect().await;
    let post = of("ann", Post::modern("subscriptions/listen", listen));
    stream.send(&post.to_bytes()).await;
    assert!(stream.head().await.is_stream());
    let lines = [
        line("read", "ok", "key:ann", &anns),
        line("read", "unknown", "key:ann", &task),
    ]
    .concat();
    assert_eq!(told.take(), lines);
    // A resource that is no task's, without what its query may hold.
    crate::offers::offer(&served.server);
    for (token, uri, outcome, code) in [
        ("ann", "test://one", "ok", Value::Null),
        ("ann", "test://one?token=secret#part", "failed", json!(-32602)),
        ("ann-nothing", "test://one", "denied", Value::Null),
    ] {
        let read = of(token, Post::modern("resources/read", json!({"uri": uri})));
        served.server.connect().await.exchange(&read).await;
        let event = told.0.lock().unwrap().last().unwrap().clone();
        assert_eq!(
            (&event["action"], &event["resource"], &event["outcome"], &event["code"]),
            (&json!("read"), &json!("test://one"), &json!(outcome), &code),
            "{event}"
        );
        assert_eq!(told.take().len(), 1);
    }
    for (token, outcome) in [("ann", "ok"), ("ann-nothing", "denied")] {
        let get = json!({"name": "talk", "arguments": {"topic": "secret"}});
        let get = of(token, Post::modern("prompts/get", get));
        served.server.connect().await.exchange(&get).await;
        let event = told.0.lock().unwrap().last().unwrap().clone();
        assert_eq!(
            (&event["action"], &event["prompt"], &event["outcome"]),
            (&json!("read"), &json!("talk"), &json!(outcome)),
            "{event}"
        );
        assert!(!event.to_string().contains("secret"), "{event}");
        assert_eq!(told.take().len(), 1);
    }
    // Nothing about tasks, resources or prompts. Completions come with each key.
    let complete = json!({"ref": {"type": "ref/prompt", "name": "talk"}, "argument": {"name": "topic", "value": "s"}});
    served
        .result("ann", Post::modern("completion/complete", complete))
        .await;
    served.result("ann", Post::modern("tools/list", json!({}))).await;
    assert_eq!(told.take(), Vec::<[String; 4]>::new());
}

/// A call that becomes a task later is recorded twice: as a call, and as the task that its client was told of.
#[tokio::test]
async fn s_07_a_call_that_becomes_a_task_is_recorded_as_both() {
    let (served, told) = audited_by(TestClock::default(), Limits::default()).await;
    let call = Post::modern_plain("tools/call", act(HANDED_OFF, "wait"));
    served.result("ann", call).await;
    let events = told.take();
    assert_eq!(events[0][0], "call");
    assert_eq!((&*events[1][0], &*events[1][2]), ("create", "key:ann"));
}

/// A modern client answers by a retry of its call.
#[tokio::test]
async fn s_07_a_retry_with_answers_is_recorded_as_an_answer() {
    let (served, told) = audited(Limits::default()).await;
    let mut call = Post::modern_with("tools/call", act("never", "ask_all name"), everything());
    let round = served.result("ann", call.clone()).await;
    call.body["params"]["inputResponses"] = json!({"name": accept("name", "Ann")});
    call.body["params"]["requestState"] = round["requestState"].clone();
    served.result("ann", call).await;
    let recorded: Vec<_> = told
        .take()
        .into_iter()
        .map(|[action, outcome, ..]| (action, outcome))
        .collect();
    let expected = [("call", "ok"), ("answer", "ok")];
    assert_eq!(
        recorded,
        expected.map(|(action, outcome)| (action.to_owned(), outcome.to_owned()))
    );
}

#[tokio::test]
async fn s_06_too_many_unknown_ids_are_refused_and_own_tasks_are_served() {
    let two = NonZeroU32::new(2);
    let (served, told) = audited(Limits {
        unknown_ids_per_second: two,
        ..Limits::default()
    })
    .await;
    let bobs = task_of(
        &served
            .result("bob", Post::modern("tools/call", act("optional", "wait")))
            .await,
    );
    let anns = task_of(
        &served
            .result("ann", Post::modern("tools/call", act("optional", "wait")))
            .await,
    );
    let mut client = served.server.connect().await;
    let get = |id: &str| of("ann", Post::modern("tasks/get", json!({"taskId": id})));
    for id in [&*bobs, UNKNOWN, &bobs, UNKNOWN] {
        assert_eq!(client.error(&get(id)).await, (200, -32602));
    }
    // A burst of two seconds is over. What is foreign and what is unknown is refused alike.
    for id in [&*bobs, UNKNOWN] {
        let refused = client.exchange(&get(id)).await;
        assert_eq!(refused.error(), (429, 429));
        assert_eq!(refused.head.header("retry-after"), Some("1"));
        assert_eq!(
            refused.json()["error"]["message"],
            "Too many requests for unknown tasks: at most 2 in a second"
        );
    }
    client.result(&get(&anns)).await;
    assert_eq!(
        served
            .server
            .connect()
            .await
            .error(&of("bob", Post::modern("tasks/get", json!({"taskId": UNKNOWN}))))
            .await
            .0,
        200
    );
    let wait = json!({"name": "task_wait", "arguments": {"task": UNKNOWN}});
    let listen = json!({"notifications": {"taskIds": [anns, bobs]}});
    let cancel = json!({"name": "task_cancel", "arguments": {"task": bobs}});
    for (method, params) in [
        ("tools/call", wait),
        ("tools/call", cancel),
        ("subscriptions/listen", listen),
    ] {
        let refused = client.exchange(&of("ann", Post::modern(method, params))).await;
        assert_eq!(refused.error(), (429, 429), "{refused:?}");
        assert_eq!(refused.head.header("retry-after"), Some("1"));
        assert_eq!(refused.json()["error"]["data"]["retryAfterMs"], 500);
    }
    assert_eq!(
        told.take().iter().filter(|event| event[1] == "limited").count(),
        1,
        "a flood is one line a second"
    );
    served.tokens.clock.advance(Duration::from_secs(1));
    assert_eq!(client.error(&get(UNKNOWN)).await, (200, -32602));
}

/// As many as it names, up to a burst, which it needs as a whole: a client may follow again what has expired meanwhile.
#[tokio::test]
async fn s_06_each_unknown_id_of_a_subscription_counts() {
    let (served, _) = audited(Limits {
        unknown_ids_per_second: NonZeroU32::new(2),
        ..Limits::default()
    })
    .await;
    let unknown = |nth: usize| format!("0123456789abcdefghjkmnpqrstvwxyz0{nth:03}");
    let subscribe = async |count: usize| {
        let ids: Vec<String> = (0..count).map(unknown).collect();
        let listen = Post::modern("subscriptions/listen", json!({"notifications": {"taskIds": ids}}));
        let mut client = served.server.connect().await;
        client.send(&of("ann", listen).to_bytes()).await;
        client.head().await.status
    };
    let get = async || {
        let get = Post::modern("tasks/get", json!({"taskId": UNKNOWN}));
        served.server.connect().await.error(&of("ann", get)).await.0
    };
    assert_eq!((subscribe(3).await, get().await, get().await), (200, 200, 429));
    assert_eq!(subscribe(1).await, 429);
    served.tokens.clock.advance(Duration::from_secs(1));
    assert_eq!(subscribe(900).await, 429);
    served.tokens.clock.advance(Duration::from_secs(1));
    assert_eq!((subscribe(900).await, get().await), (200, 429));
}

/// A response to a question of another principal's task, or of none, is accepted like any late one, recorded as unknown, and slowed.
#[tokio::test]
async fn s_06_s_07_responses_to_unknown_questions_are_recorded_and_slowed() {
    let (served, told) = audited(Limits {
        unknown_ids_per_second: NonZeroU32::new(2),
        ..Limits::default()
    })
    .await;
    let (ann, bob) = (served.session("ann").await, served.session("bob").await);
    let create = Post::legacy(Some(&ann), "tools/call", act_as_task("optional", "ask_all name"));
    let task = task_of(&served.result("ann", create).await);
    let get = of("ann", Post::modern("tasks/get", json!({"taskId": task})));
    let key = loop {
        let got = served.server.result(&get).await;
        if let Some(asked) = got["inputRequests"].as_object() {
            break asked.keys().next().unwrap().clone();
        }
        tokio::task::yield_now().await;
    };
    told.take();
    let respond = |session: &str, id: &str| {
        let mut post = Post::legacy(Some(session), "", json!({}));
        post.body = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}});
        post
    };
    let mut client = served.server.connect().await;
    let mut status = async |token: &str, post: Post| {
        client.send(&of(token, post).to_bytes()).await;
        client.reply().await.status()
    };
    let question = format!("{task}.{key}.7");
    for (id, named) in [
        (question.as_str(), task.as_str()),
        (&format!("{UNKNOWN}.in-1.7"), UNKNOWN),
        (&question, &task),
        (&question, &task),
    ] {
        assert_eq!(status("bob", respond(&bob, id)).await, 202);
        assert_eq!(told.take(), line("answer", "unknown", "key:bob", named));
    }
    assert_eq!(status("bob", respond(&bob, &question)).await, 429);
    assert_eq!(told.take(), line("answer", "limited", "key:bob", &task));
    // What only was late costs nothing.
    let closed = format!("{task}.other.7");
    for _ in 0..9 {
        assert_eq!(status("ann", respond(&ann, &closed)).await, 202);
        assert_eq!(told.take(), line("answer", "unknown", "key:ann", &task));
    }
    assert_eq!(status("ann", respond(&ann, &question)).await, 202);
    assert_eq!(told.take(), line("answer", "ok", "key:ann", &task));
}

/// Nobody pushes what others did out of the log by reading: of many reads some are recorded, with how many were not.
#[tokio::test]
async fn s_07_a_flood_of_reads_is_a_few_lines_a_second() {
    let (served, told) = audited_by(TestClock::standing(), Limits::default()).await;
    let create = || Post::modern("tools/call", act("optional", "wait"));
    let task = task_of(&served.result("ann", create()).await);
    let get = |token: &str| of(token, Post::modern("tasks/get", json!({"taskId": task})));
    let mut client = served.server.connect().await;
    told.take();
    for _ in 0..100 {
        client.result(&get("ann")).await;
    }
    let reads = told.take();
    assert_eq!(reads.len(), 20, "{reads:?}");
    // Another outcome, another principal, and whatever changes something, are not hidden by it.
    let unknown = of("ann", Post::modern("tasks/get", json!({"taskId": UNKNOWN})));
    client.error(&unknown).await;
    client.error(&get("bob")).await;
    served.result("ann", create()).await;
    let others: Vec<[String; 2]> = told
        .take()
        .into_iter()
        .map(|[action, outcome, ..]| [action, outcome])
        .collect();
    assert_eq!(others, [["read", "unknown"], ["read", "unknown"], ["create", "ok"]]);
    served.tokens.clock.advance(Duration::from_secs(1));
    client.result(&get("ann")).await;
    assert_eq!(told.0.lock().unwrap().last().unwrap()["leftOut"], 80);
}

/// Nor by being denied, whatever for and from wherever. Whose credentials were tried is counted apart.
#[tokio::test]
async fn s_07_a_flood_of_denied_requests_is_a_few_lines_a_second() {
    let (served, told) = audited_by(TestClock::standing(), Limits::default()).await;
    let list = || Post::modern("tools/list", json!({}));
    let strangers = [
        list(),
        of("nobody", list()),
        of("down", list()),
        of("undecided", list()),
    ];
    let mut client = served.server.connect().await;
    for _ in 0..25 {
        for stranger in &strangers {
            client.send(&stranger.to_bytes()).await;
            assert!([401, 503].contains(&client.reply().await.status()));
        }
    }
    assert_eq!(told.take().len(), 20);
    client.send(&of("ann-expired", list()).to_bytes()).await;
    assert_eq!(client.reply().await.status(), 401);
    assert_eq!(told.take(), line("denied", "denied", "key:ann", ""));
    served.tokens.clock.advance(Duration::from_secs(1));
    client.send(&list().to_bytes()).await;
    client.reply().await;
    assert_eq!(told.0.lock().unwrap().last().unwrap()["leftOut"], 80);
}

#[tokio::test]
async fn s_06_all_other_requests_have_a_rate_too() {
    let (served, _) = audited(Limits {
        reads_per_second: NonZeroU32::new(4),
        ..Limits::default()
    })
    .await;
    let mut client = served.server.connect().await;
    let ping = of("ann", Post::legacy(None, "ping", json!({})));
    // A burst is twice as many.
    for _ in 0..8 {
        client.result(&ping).await;
    }
    let refused = client.exchange(&ping).await.json()["error"].clone();
    let reason = "Too many requests that read: at most 4 in a second";
    assert_eq!((&refused["code"], &refused["message"]), (&json!(429), &json!(reason)));
    assert_eq!(
        client.error(&of("ann", Post::initialize("2025-11-25"))).await,
        (429, 429)
    );
    served.result("bob", Post::legacy(None, "ping", json!({}))).await;
    served
        .result("ann", Post::modern("tools/call", act("optional", "say")))
        .await;
    served.tokens.clock.advance(Duration::from_secs(1));
    client.result(&ping).await;
}

#[tokio::test]
async fn s_06_calls_and_changes_have_a_rate_of_their_own() {
    let one = NonZeroU32::new(1);
    let (served, _) = audited(Limits {
        calls_per_second: one,
        ..Limits::default()
    })
    .await;
    let session = served.session("ann").await;
    let call = || Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&served.result("ann", call()).await);
    served.result("ann", call()).await;
    let mut client = served.server.connect().await;
    let cancel = Post::modern("tasks/cancel", json!({"taskId": task}));
    assert_eq!(client.error(&of("ann", call())).await, (429, 429));
    assert_eq!(client.error(&of("ann", cancel.clone())).await, (429, 429));
    for _ in 0..10 {
        client
            .result(&of("ann", Post::modern("tasks/get", json!({"taskId": task}))))
            .await;
    }
    served
        .result("bob", Post::modern("tools/call", act("optional", "wait")))
        .await;
    served.tokens.clock.advance(Duration::from_secs(1));
    client.result(&of("ann", cancel)).await;
}
