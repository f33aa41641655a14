//! The audit log, and the limits of lookups and calls.

use super::{Authenticated, of};
use crate::{
    clock::TestClock,
    request::{Post, act, everything, list},
    rounds::answer,
    server::{self, Options, update},
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

    /// The only event since the last time.
    fn take_one(&self) -> Value {
        let mut events = self.take_whole();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
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
async fn audited(limit: impl FnOnce(&mut Limits)) -> (Authenticated, Arc<Told>) {
    audited_by(TestClock::standing(), limit).await
}

/// The same, with two requests for unknown tasks in a second.
async fn audited_with_two_unknown() -> (Authenticated, Arc<Told>) {
    audited(|limits| limits.unknown_ids_per_second = NonZeroU32::new(2)).await
}

fn get(token: &str, task: &str) -> Post {
    of(token, server::get(task))
}

pub(super) async fn audited_by(clock: TestClock, limit: impl FnOnce(&mut Limits)) -> (Authenticated, Arc<Told>) {
    let told = Arc::new(Told::default());
    let options = Options::with(|options| {
        options.audit = Some(Arc::<Told>::clone(&told));
        options.clock = clock;
        limit(&mut options.limits);
    });
    (Authenticated::with(options).await, told)
}

fn line(action: &str, outcome: &str, principal: &str, task: &str) -> Vec<[String; 4]> {
    vec![[action, outcome, principal, task].map(str::to_owned)]
}

#[tokio::test]
async fn g1_60_s_07_each_request_about_a_task_is_recorded() {
    let (served, told) = audited(|_| ()).await;
    let session = served.session("ann").await;
    // What is in a line is in `audit_lines`.
    let create = Post::legacy_task(Some(&session), "optional", "say");
    let task = served.task("ann", create).await;
    assert_eq!(told.take(), line("create", "ok", "key:ann", &task));
    served.poll("ann", &task, "completed").await;
    // What many reads leave out is over.
    served.tokens.clock.advance(Duration::from_secs(1));
    told.take();
    let modern = |method: &str, params: Value| Post::modern(method, params);
    let id = || json!({"taskId": task});
    let history = json!({"uri": format!("longhaul://task/{task}/history")});
    let legacy = |method: &str| Post::on_task(&session, method, &task);
    let follow = |tool: &str| modern("tools/call", json!({"name": tool, "arguments": {"task": task}}));
    let delete = || modern("dev.longhaul/tasks/delete", id());
    for (token, post, action, outcome) in [
        ("ann", modern("tasks/get", id()), "read", "ok"),
        ("bob", modern("tasks/get", id()), "read", "unknown"),
        ("bob", modern("resources/read", history), "read", "unknown"),
        ("ann", legacy("tasks/result"), "read", "ok"),
        ("ann", legacy("tasks/cancel"), "cancel", "failed"),
        ("bob", update(&task, json!({})), "answer", "unknown"),
        ("ann-reader", delete(), "delete", "denied"),
        ("bob", follow("task_wait"), "read", "unknown"),
        ("ann", follow("task_wait"), "read", "ok"),
        ("ann", follow("task_cancel"), "cancel", "ok"),
        ("ann", delete(), "delete", "ok"),
        ("ann", delete(), "delete", "unknown"),
    ] {
        served.exchange(token, post).await;
        let principal = format!("key:{}", token.split('-').next().unwrap());
        let expected = line(action, outcome, &principal, &task);
        assert_eq!(told.take(), expected, "{token} {action}");
    }
    let tasks = Post::legacy(Some(&session), "tasks/list", json!({}));
    served.result("ann", tasks).await;
    assert_eq!(told.take(), line("read", "ok", "key:ann", ""));
    served.result("ann", Post::plain_call("optional", "say")).await;
    assert_eq!(told.take(), line("call", "ok", "key:ann", ""));
    served.exchange("nobody", Post::modern("tasks/get", id())).await;
    assert_eq!(told.take(), line("denied", "denied", "", ""));
    // One request that names several tasks.
    let anns = served.task("ann", Post::call("optional", "wait")).await;
    told.take();
    let listen = json!({"notifications": {"taskIds": [task, anns]}});
    let _stream = served.stream("ann", modern("subscriptions/listen", listen)).await;
    let mut lines = line("read", "ok", "key:ann", &anns);
    lines.extend(line("read", "unknown", "key:ann", &task));
    assert_eq!(told.take(), lines);
    // A resource that is no task's, without what its query may hold.
    crate::offers::offer(&served.server);
    for (token, uri, outcome, code) in [
        ("ann", "test://one", "ok", Value::Null),
        ("ann", "test://one?token=secret#part", "failed", json!(-32602)),
        ("ann-nothing", "test://one", "denied", Value::Null),
    ] {
        let read = modern("resources/read", json!({"uri": uri}));
        served.exchange(token, read).await;
        let event = told.take_one();
        let seen = ["action", "resource", "outcome", "code"].map(|name| event[name].clone());
        let expected = [json!("read"), json!("test://one"), json!(outcome), code];
        assert_eq!(seen, expected, "{event}");
    }
    for (token, outcome) in [("ann", "ok"), ("ann-nothing", "denied")] {
        let get = json!({"name": "talk", "arguments": {"topic": "secret"}});
        served.exchange(token, modern("prompts/get", get)).await;
        let event = told.take_one();
        let seen = ["action", "prompt", "outcome"].map(|name| &event[name]);
        assert_eq!(seen, ["read", "talk", outcome], "{event}");
        assert!(!event.to_string().contains("secret"), "{event}");
    }
    // Nothing about tasks, resources or prompts. Completions come with each key.
    let complete = json!({"ref": {"type": "ref/prompt", "name": "talk"}, "argument": {"name": "topic", "value": "s"}});
    served.result("ann", modern("completion/complete", complete)).await;
    served.result("ann", list()).await;
    assert_eq!(told.take(), Vec::<[String; 4]>::new());
}

/// A modern client answers by a retry of its call.
#[tokio::test]
async fn s_07_a_retry_with_answers_is_recorded_as_an_answer() {
    let (served, told) = audited(|_| ()).await;
    let call = Post::modern_with("tools/call", act("never", "ask_all name"), everything());
    let round = served.result("ann", call.clone()).await;
    let retry = call.retry(&round, answer("name", "Ann"));
    served.result("ann", retry).await;
    let recorded = told.take().into_iter().map(|[action, outcome, ..]| [action, outcome]);
    assert_eq!(recorded.collect::<Vec<_>>(), [["call", "ok"], ["answer", "ok"]]);
}

#[tokio::test]
async fn s_06_too_many_unknown_ids_are_refused_and_own_tasks_are_served() {
    let (served, told) = audited_with_two_unknown().await;
    let bobs = served.task("bob", Post::call("optional", "wait")).await;
    let anns = served.task("ann", Post::call("optional", "wait")).await;
    let mut client = served.server.connect().await;
    for id in [&*bobs, UNKNOWN, &bobs, UNKNOWN] {
        assert_eq!(client.error(&get("ann", id)).await, (200, -32602));
    }
    // A burst of two seconds is over. What is foreign and what is unknown is refused alike.
    for id in [&*bobs, UNKNOWN] {
        let refused = client.exchange(&get("ann", id)).await;
        assert_eq!(refused.error(), (429, 429));
        assert_eq!(refused.head.header("retry-after"), Some("1"));
        let reason = "Too many requests for unknown tasks: at most 2 in a second";
        assert_eq!(refused.json()["error"]["message"], reason);
    }
    client.result(&get("ann", &anns)).await;
    assert_eq!(served.server.error(&get("bob", UNKNOWN)).await.0, 200);
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
    let events = told.take();
    let limited = events.iter().filter(|event| event[1] == "limited");
    assert_eq!(limited.count(), 1, "a flood is one line a second");
    served.tokens.clock.advance(Duration::from_secs(1));
    assert_eq!(client.error(&get("ann", UNKNOWN)).await, (200, -32602));
}

/// As many as it names, up to a burst, which it needs as a whole: a client may follow again what has expired meanwhile.
#[tokio::test]
async fn s_06_each_unknown_id_of_a_subscription_counts() {
    let (served, _) = audited_with_two_unknown().await;
    let unknown = |nth: usize| format!("0123456789abcdefghjkmnpqrstvwxyz0{nth:03}");
    let subscribe = async |count: usize| {
        let ids: Vec<String> = (0..count).map(unknown).collect();
        let listen = Post::modern("subscriptions/listen", json!({"notifications": {"taskIds": ids}}));
        served.send("ann", listen).await.head().await.status
    };
    let get = async || served.server.error(&get("ann", UNKNOWN)).await.0;
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
    let (served, told) = audited_with_two_unknown().await;
    let (ann, bob) = (served.session("ann").await, served.session("bob").await);
    let create = Post::legacy_task(Some(&ann), "optional", "ask_all name");
    let task = served.task("ann", create).await;
    let key = served.question("ann", &task).await;
    told.take();
    let respond = async |token: &str, session: &str, id: &str| {
        let declined = ("result", json!({"action": "decline"}));
        let response = Post::response(session, &json!(id), declined);
        served.status(token, response).await
    };
    let question = format!("{task}.{key}.7");
    for (id, named) in [
        (question.as_str(), task.as_str()),
        (&format!("{UNKNOWN}.in-1.7"), UNKNOWN),
        (&question, &task),
        (&question, &task),
    ] {
        assert_eq!(respond("bob", &bob, id).await, 202);
        assert_eq!(told.take(), line("answer", "unknown", "key:bob", named));
    }
    assert_eq!(respond("bob", &bob, &question).await, 429);
    assert_eq!(told.take(), line("answer", "limited", "key:bob", &task));
    // What only was late costs nothing.
    let closed = format!("{task}.other.7");
    for _ in 0..9 {
        assert_eq!(respond("ann", &ann, &closed).await, 202);
        assert_eq!(told.take(), line("answer", "unknown", "key:ann", &task));
    }
    assert_eq!(respond("ann", &ann, &question).await, 202);
    assert_eq!(told.take(), line("answer", "ok", "key:ann", &task));
}

/// Nobody pushes what others did out of the log by reading: of many reads some are recorded, with how many were not.
#[tokio::test]
async fn s_07_a_flood_of_reads_is_a_few_lines_a_second() {
    let (served, told) = audited(|_| ()).await;
    let create = || Post::call("optional", "wait");
    let task = served.task("ann", create()).await;
    let mut client = served.server.connect().await;
    told.take();
    for _ in 0..100 {
        client.result(&get("ann", &task)).await;
    }
    let reads = told.take();
    assert_eq!(reads.len(), 20, "{reads:?}");
    // Another outcome, another principal, and whatever changes something, are not hidden by it.
    client.error(&get("ann", UNKNOWN)).await;
    client.error(&get("bob", &task)).await;
    served.result("ann", create()).await;
    let others = told.take().into_iter().map(|[action, outcome, ..]| [action, outcome]);
    let expected = [["read", "unknown"], ["read", "unknown"], ["create", "ok"]];
    assert_eq!(others.collect::<Vec<_>>(), expected);
    served.tokens.clock.advance(Duration::from_secs(1));
    client.result(&get("ann", &task)).await;
    assert_eq!(told.0.lock().unwrap().last().unwrap()["leftOut"], 80);
}

/// Nor by being denied, whatever for and from wherever. Whose credentials were tried is counted apart.
#[tokio::test]
async fn s_07_a_flood_of_denied_requests_is_a_few_lines_a_second() {
    let (served, told) = audited(|_| ()).await;
    let known = ["nobody", "down", "undecided"].map(|token| of(token, list()));
    let mut client = served.server.connect().await;
    for _ in 0..25 {
        for stranger in known.iter().chain([&list()]) {
            assert!([401, 503].contains(&client.exchange(stranger).await.status()));
        }
    }
    assert_eq!(told.take().len(), 20);
    let expired = of("ann-expired", list());
    assert_eq!(client.exchange(&expired).await.status(), 401);
    assert_eq!(told.take(), line("denied", "denied", "key:ann", ""));
    served.tokens.clock.advance(Duration::from_secs(1));
    client.exchange(&list()).await;
    assert_eq!(told.0.lock().unwrap().last().unwrap()["leftOut"], 80);
}

#[tokio::test]
async fn s_06_all_other_requests_have_a_rate_too() {
    let (served, _) = audited(|limits| limits.reads_per_second = NonZeroU32::new(4)).await;
    let mut client = served.server.connect().await;
    let ping = of("ann", Post::ping(None));
    // A burst is twice as many.
    for _ in 0..8 {
        client.result(&ping).await;
    }
    let refused = client.exchange(&ping).await.json()["error"].clone();
    let reason = "Too many requests that read: at most 4 in a second";
    assert_eq!((&refused["code"], &refused["message"]), (&json!(429), &json!(reason)));
    let initialize = of("ann", Post::initialize("2025-11-25"));
    assert_eq!(client.error(&initialize).await, (429, 429));
    served.result("bob", Post::ping(None)).await;
    served.result("ann", Post::call("optional", "say")).await;
    served.tokens.clock.advance(Duration::from_secs(1));
    client.result(&ping).await;
}

#[tokio::test]
async fn s_06_calls_and_changes_have_a_rate_of_their_own() {
    let (served, _) = audited(|limits| limits.calls_per_second = NonZeroU32::new(1)).await;
    let session = served.session("ann").await;
    let call = || Post::legacy_task(Some(&session), "optional", "wait");
    let task = served.task("ann", call()).await;
    served.result("ann", call()).await;
    let mut client = served.server.connect().await;
    let cancel = of("ann", server::cancel(&task));
    assert_eq!(client.error(&of("ann", call())).await, (429, 429));
    assert_eq!(client.error(&cancel).await, (429, 429));
    for _ in 0..10 {
        client.result(&get("ann", &task)).await;
    }
    served.result("bob", Post::call("optional", "wait")).await;
    served.tokens.clock.advance(Duration::from_secs(1));
    client.result(&cancel).await;
}
