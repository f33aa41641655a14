//! Log messages that an upstream sends while no call runs: on the push streams of legacy sessions.

use crate::{
    isolation::ByHeader,
    passed_on::listener_as,
    upstream::{Tasks, Upstream},
    world::{RunningGateway, Seen, guarded, options, until},
};
use longhaul_client::{ChildOptions, Connection, LogLevel};
use longhaul_core::{Json, Principal};
use longhaul_gateway::{Target, UpstreamOptions};
use longhaul_runtime::SessionLog;
use serde_json::json;
use std::path::Path;

/// Calls `tool` on the client's own connection to the upstream.
async fn call(client: &Connection, tool: &str, word: &str) {
    let params = json!({"name": tool, "arguments": {"word": word}});
    guarded(tool, client.send("tools/call", params)).await.unwrap();
}

fn has(seen: &Seen<String>, text: &str) -> bool {
    seen.lock().unwrap().iter().any(|message| message.contains(text))
}

fn child(notes: &Path) -> UpstreamOptions {
    child_of(Tasks::Legacy, notes)
}

/// A child that speaks the revision of these tasks.
fn child_of(revision: Tasks, notes: &Path) -> UpstreamOptions {
    let mut child = ChildOptions::new("sh", ["-c", include_str!("log_messages.sh")]);
    if matches!(revision, Tasks::Modern) {
        child.env.push(("MODERN".into(), "yes".into()));
    }
    child.env.push(("NOTES".into(), notes.to_string_lossy().into_owned()));
    UpstreamOptions::new("child", Target::Command(child))
}

/// Two clients of one principal, with levels of their own, and one of another.
#[tokio::test]
async fn s_01_each_client_of_the_principal_gets_what_its_level_lets_through() {
    let directory = tempfile::tempdir().unwrap();
    let notes = tempfile::tempdir().unwrap();
    let upstreams = vec![child(notes.path())];
    let gateway = RunningGateway::start_with(directory.path(), upstreams, Some(ByHeader)).await;
    let of = |user, level| listener_as(&gateway.url, Tasks::Legacy, level, Some(user));
    let (calm, of_calm) = of("alice", LogLevel::Info);
    let (curious, of_curious) = of("alice", LogLevel::Debug);
    let (bob, of_bob) = of("bob", LogLevel::Debug);
    for client in [&calm, &curious, &bob] {
        guarded("the push stream", client.server()).await.unwrap();
    }
    call(&calm, "later", "alice").await;
    // The level of the most curious client goes to the upstream.
    let levels = || std::fs::read_to_string(notes.path().join("levels")).unwrap_or_default();
    until("the level", || levels().lines().any(|level| level == "debug")).await;
    std::fs::write(notes.path().join("alice"), "").unwrap();
    until("the news", || {
        has(&of_calm, "the news for alice") && has(&of_curious, "the news for alice")
    })
    .await;
    assert!(has(&of_curious, "a detail for alice"));
    // What comes to bob comes in the order in which it was sent.
    call(&bob, "later", "bob").await;
    std::fs::write(notes.path().join("bob"), "").unwrap();
    until("the news of the other", || has(&of_bob, "the news for bob")).await;
    for (seen, word) in [(&of_calm, "alice"), (&of_curious, "alice"), (&of_bob, "bob")] {
        let all = seen.lock().unwrap().clone();
        assert!(all.iter().all(|message| message.contains(word)), "{all:?}");
    }
    assert!(!has(&of_calm, "a detail"));
    gateway.stop().await;
}

/// An upstream over HTTP sends them on the stream of its session, which outlives the calls.
#[tokio::test]
async fn an_upstream_over_http_is_heard_between_calls() {
    let upstream = Upstream::start(Tasks::Legacy).await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
    let (client, seen) = listener_as(&gateway.url, Tasks::Legacy, LogLevel::Info, None);
    call(&client, "echo", "x").await;
    let engine = upstream.server.engine().unwrap();
    let logs = engine.catalog().session_logs();
    let news = SessionLog {
        principal: Principal::local(),
        session: None,
        level: LogLevel::Warning,
        logger: Some("up".into()),
        data: Json::from(&json!("the news")),
        relayed: None,
        method: None,
    };
    // The streams may open after the call.
    let heard = async {
        while !has(&seen, "the news") {
            logs.send(news.clone());
            tokio::task::yield_now().await;
        }
    };
    guarded("the news", heard).await;
    drop(engine);
    gateway.stop().await;
}

/// It arrives with the answer, while the call is not over here.
#[tokio::test]
async fn a_message_right_behind_the_answer_of_a_call_is_passed_on() {
    let directory = tempfile::tempdir().unwrap();
    let notes = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), vec![child(notes.path())]).await;
    let (client, seen) = listener_as(&gateway.url, Tasks::Legacy, LogLevel::Info, None);
    guarded("the push stream", client.server()).await.unwrap();
    for _ in 0..20 {
        call(&client, "last", "x").await;
        until("the last word", || has(&seen, "the last word")).await;
        seen.lock().unwrap().clear();
    }
    gateway.stop().await;
}

/// It arrives together with the answer, before it, and so it is passed on: on the stream of the call, whatever the two speak. Several threads, so that the
/// readers of the two can overtake each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_right_before_the_answer_of_a_call_is_passed_on_before_it() {
    for upstream_speaks in [Tasks::Legacy, Tasks::Modern] {
        for client_speaks in [Tasks::Legacy, Tasks::Modern] {
            let directory = tempfile::tempdir().unwrap();
            let notes = tempfile::tempdir().unwrap();
            let upstreams = vec![child_of(upstream_speaks, notes.path())];
            let gateway = RunningGateway::start(directory.path(), upstreams).await;
            let (client, seen) = listener_as(&gateway.url, client_speaks, LogLevel::Info, None);
            guarded("the server", client.server()).await.unwrap();
            for nth in 0..30 {
                call(&client, "first", "x").await;
                assert!(
                    has(&seen, "the first word"),
                    "{upstream_speaks:?}, {client_speaks:?}, {nth}"
                );
                seen.lock().unwrap().clear();
            }
            gateway.stop().await;
        }
    }
}
