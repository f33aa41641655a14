//! Results that may be used again, what a server says has changed, and its log messages.

use crate::peer::{Peer, ReceivedRequest, event_stream, legacy, modern, plain};
use axum::{body::Body, http::Response};
use futures_util::{FutureExt, TryStreamExt, pin_mut};
use longhaul_client::{LogLevel, Logging, RequestError, ServerChange, WatchFilter};
use longhaul_core::{BoxFuture, Clock, Json, UnixMillis};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

/// A clock that a test moves.
#[derive(Default)]
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    pub(crate) fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::task::yield_now())
    }
}

fn everything() -> WatchFilter {
    WatchFilter {
        tools: true,
        prompts: true,
        resources: true,
        uris: vec!["test://a".to_owned()],
    }
}

fn notification(method: &str, params: Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
    )
}

/// For as long as the result says, by method and params, and not longer than it is right.
#[tokio::test]
async fn a_result_is_used_again_while_the_server_allows_it() {
    let hints = Arc::new(Mutex::new(json!({"ttlMs": 5_000})));
    let now = Arc::clone(&hints);
    let peer = Peer::start(move |seen| {
        let mut result = now.lock().unwrap().clone();
        match seen.method() {
            "server/discover" => return seen.result(json!({"supportedVersions": ["2026-07-28"]})),
            "resources/read" if seen.params()["uri"] == "test://asks" && seen.params()["requestState"].is_null() => {
                return seen.result(json!({"resultType": "input_required", "requestState": "s", "ttlMs": 5_000}));
            }
            "resources/read" => result["contents"] = json!([]),
            "tasks/get" => result = json!({"taskId": "t", "status": "working", "ttlMs": 5_000}),
            _ => result["resources"] = json!([]),
        }
        seen.result(result)
    });
    let clock = Arc::new(ManualClock::default());
    let (connection, _) = peer.connection_with(|options| options.clock = clock.clone());
    let lists = || peer.calls_of("resources/list").len();
    let list = async || connection.list_resources().await.unwrap();

    list().await;
    clock.0.store(4_999, Ordering::Relaxed);
    list().await;
    assert_eq!(lists(), 1);
    clock.0.store(5_000, Ordering::Relaxed);
    list().await;
    assert_eq!(lists(), 2);

    for uri in ["test://a", "test://b", "test://a", "test://b"] {
        connection.read_resource(uri).await.unwrap();
    }
    assert_eq!(peer.calls_of("resources/read").len(), 2);
    for _ in 0..2 {
        connection.read_resource("test://asks").await.unwrap();
        connection.task("t").get().await.unwrap();
    }
    assert_eq!(
        peer.calls_of("resources/read").len(),
        6,
        "rounds of questions are not cached"
    );
    assert_eq!(peer.calls_of("tasks/get").len(), 2, "a task's ttlMs is its retention");

    clock.0.store(20_000, Ordering::Relaxed);
    for not_reusable in [json!({}), json!({"ttlMs": 0}), json!({"ttlMs": -1})] {
        *hints.lock().unwrap() = not_reusable;
        let before = lists();
        list().await;
        list().await;
        assert_eq!(lists(), before + 2);
    }
}

#[tokio::test]
async fn changes_on_a_modern_server_are_reported_once_and_make_results_stale() {
    let streams: Arc<Mutex<Vec<mpsc::UnboundedSender<String>>>> = Arc::default();
    let opened = Arc::clone(&streams);
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
        "subscriptions/listen" if opened.lock().unwrap().len() == 2 => seen.error(404, -32601, Value::Null),
        "subscriptions/listen" => {
            let (sender, receiver) = mpsc::unbounded_channel();
            sender
                .send(notification("subscriptions/acknowledged", json!({"notifications": {}})))
                .unwrap();
            opened.lock().unwrap().push(sender);
            event_stream(receiver)
        }
        "tools/list" => seen.result(json!({"tools": [], "ttlMs": 60_000})),
        _ => seen.result(json!({"contents": [], "ttlMs": 60_000})),
    });
    let (connection, _) = peer.connection();
    let mut watch = connection.watch(everything()).await.unwrap();
    let wanted = peer.calls_of("subscriptions/listen")[0].params()["notifications"].clone();
    assert_eq!(
        wanted,
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["test://a"]})
    );

    let use_all = async || {
        connection.list_tools().await.unwrap();
        for uri in ["test://a", "test://b"] {
            connection.read_resource(uri).await.unwrap();
        }
        [peer.calls_of("tools/list").len(), peer.calls_of("resources/read").len()]
    };
    assert_eq!(use_all().await, [1, 2]);
    assert_eq!(use_all().await, [1, 2]);
    let send = |text: String| streams.lock().unwrap().last().unwrap().send(text).unwrap();
    for uri in ["test://other", "test://a", "test://a"] {
        send(notification("resources/updated", json!({"uri": uri})));
    }
    for _ in 0..3 {
        send(notification("tools/list_changed", json!({})));
    }
    let a = |params| ServerChange::Resource {
        uri: "test://a".to_owned(),
        params,
    };
    let written = Json::from(json!({"uri": "test://a"}));
    assert_eq!(watch.next().await, Some(a(Some(written))));
    assert_eq!(watch.next().await, Some(ServerChange::Tools));
    assert_eq!(use_all().await, [2, 3]);

    // What happened while there was no stream is not known.
    streams.lock().unwrap()[0] = mpsc::unbounded_channel().0;
    for expected in [
        ServerChange::Tools,
        ServerChange::Prompts,
        ServerChange::Resources,
        a(None),
    ] {
        assert_eq!(watch.next().await, Some(expected));
    }
    assert_eq!(use_all().await, [3, 4]);
    streams.lock().unwrap()[1] = mpsc::unbounded_channel().0;
    assert_eq!(watch.next().await, None, "the server refuses a third one");

    let refused = connection.watch(everything()).await;
    assert!(matches!(refused.map(drop), Err(RequestError::Rpc(_))));
}

#[tokio::test]
async fn changes_on_a_legacy_server_come_on_its_push_stream() {
    let stream: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>> = Arc::default();
    let opened = Arc::clone(&stream);
    let peer = legacy(Value::Null, move |seen| match seen.verb.as_str() {
        "GET" => {
            let (sender, receiver) = mpsc::unbounded_channel();
            *opened.lock().unwrap() = Some(sender);
            event_stream(receiver)
        }
        _ => seen.result(json!({})),
    });
    let (connection, _) = peer.connection();
    let mut watch = connection.watch(everything()).await.unwrap();
    assert_eq!(peer.calls_of("resources/subscribe")[0].params()["uri"], "test://a");
    let send = |text| stream.lock().unwrap().as_ref().unwrap().send(text).unwrap();
    // Far more than are kept: nothing is lost but the details.
    for _ in 0..1_000 {
        send(notification("resources/list_changed", json!({})));
    }
    let mut seen = Vec::new();
    while !seen.contains(&ServerChange::Resources) {
        seen.push(watch.next().await.unwrap());
    }
    // The subscription is that of all watches of the resource.
    drop(connection.watch(everything()).await.unwrap());
    for _ in 0..50 {
        connection.send("ping", Value::Null).await.unwrap();
    }
    assert!(
        peer.calls_of("resources/unsubscribe").is_empty(),
        "another watch needs it"
    );
    drop(watch);
    for _ in 0..1_000 {
        if !peer.calls_of("resources/unsubscribe").is_empty() {
            return;
        }
        connection.send("ping", Value::Null).await.unwrap();
    }
    panic!("the subscription to the resource was not ended");
}

/// A clock whose pauses last until the test ends them.
struct HeldClock(Arc<Semaphore>);

impl Clock for HeldClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        let pauses = Arc::clone(&self.0);
        Box::pin(async move { pauses.acquire().await.unwrap().forget() })
    }
}

/// What changes within the pause behind the first change is reported with it, each once.
#[tokio::test]
async fn changes_soon_after_each_other_are_reported_once() {
    let stream: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>> = Arc::default();
    let opened = Arc::clone(&stream);
    let peer = legacy(Value::Null, move |seen| match seen.verb.as_str() {
        "GET" => {
            let (sender, receiver) = mpsc::unbounded_channel();
            *opened.lock().unwrap() = Some(sender);
            event_stream(receiver)
        }
        _ => seen.result(json!({})),
    });
    let pauses = Arc::new(Semaphore::new(0));
    let (connection, _) = peer.connection_with(|options| {
        options.clock = Arc::new(HeldClock(Arc::clone(&pauses)));
        // The last one of a burst, which says that the others were received.
        options.logging = Some(Logging::new(LogLevel::Info, {
            let pauses = Arc::clone(&pauses);
            move |_| pauses.add_permits(1)
        }));
    });
    let mut watch = connection.watch(everything()).await.unwrap();
    let send = |text| stream.lock().unwrap().as_ref().unwrap().send(text).unwrap();
    for _ in 0..2 {
        for list in ["tools", "prompts", "tools", "prompts", "tools"] {
            send(notification(&format!("{list}/list_changed"), json!({})));
        }
        send(notification(
            "message",
            json!({"level": "info", "data": "that was all"}),
        ));
        let reported = [watch.next().await.unwrap(), watch.next().await.unwrap()];
        assert_eq!(reported, [ServerChange::Tools, ServerChange::Prompts]);
        assert!(watch.next().now_or_never().is_none(), "reported again");
    }
}

#[tokio::test]
async fn log_messages_of_the_wanted_levels_are_passed_on() {
    let message = |level: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "logger": "l", "data": {"n": 1}}});
    let answer = move |seen: &ReceivedRequest| match seen.method() {
        "logging/setLevel" => seen.result(json!({})),
        // The push stream.
        "" => plain(405, ""),
        _ => {
            let messages = ["debug", "warning", "loud", "error"].map(message);
            seen.stream(&messages, json!({"taskId": "t", "status": "working"}))
        }
    };
    let with_logging = Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.error(400, -32000, Value::Null),
        "initialize" => seen.result(json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}})),
        "notifications/initialized" => Response::builder().status(202).body(Body::empty()).unwrap(),
        _ => answer(seen),
    });
    for (peer, levels_set) in [(modern(answer), 0), (with_logging, 1), (legacy(Value::Null, answer), 0)] {
        let heard: Arc<Mutex<Vec<_>>> = Arc::default();
        let log = Arc::clone(&heard);
        let (connection, _) = peer.connection_with(|options| {
            options.logging = Some(Logging::new(LogLevel::Warning, move |message| {
                log.lock().unwrap().push(message)
            }));
        });
        connection.task("t").get().await.unwrap();
        let heard = heard.lock().unwrap();
        let levels: Vec<_> = heard.iter().map(|message| message.level).collect();
        assert_eq!(levels, [LogLevel::Warning, LogLevel::Error]);
        assert_eq!(
            (heard[0].logger.as_deref(), &heard[0].data),
            (Some("l"), &json!({"n": 1}))
        );
        let set = peer.calls_of("logging/setLevel");
        assert_eq!(set.len(), levels_set);
        assert!(set.iter().all(|set| set.params()["level"] == "warning"));
        let sent = peer.calls_of("tasks/get").remove(0);
        let asked = &sent.params()["_meta"]["io.modelcontextprotocol/logLevel"];
        let is_modern = !peer.calls_of("server/discover").is_empty() && peer.calls_of("initialize").is_empty();
        assert_eq!(asked == "warning", is_modern);
    }
}

#[tokio::test]
async fn pages_are_requested_when_they_are_needed() {
    let pages = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&pages);
    let peer = modern(move |seen| {
        let page = asked.fetch_add(1, Ordering::Relaxed);
        seen.result(json!({"prompts": [{"name": page}, {"name": "b"}], "nextCursor": page.to_string(), "ttlMs": 0}))
    });
    let (connection, _) = peer.connection();
    let prompts = connection.prompts();
    pin_mut!(prompts);
    for page in 0..3 {
        assert_eq!(prompts.try_next().await.unwrap().unwrap()["name"], page);
        prompts.try_next().await.unwrap().unwrap();
        assert_eq!(pages.load(Ordering::Relaxed), page + 1);
    }
    // A list without an end costs no more than a response may.
    let error = connection.list_prompts().await.unwrap_err();
    assert!(error.to_string().contains("does not end"), "{error}");
    assert!(pages.load(Ordering::Relaxed) < 2_000);
}
