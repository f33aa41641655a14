//! Legacy sessions: carried by their ids, ended by their clients, survived by their tasks.

use crate::{
    clock::TestClock,
    request::Post,
    server::{Options, Server, get},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;
use std::time::Duration;

fn ping(session: &str) -> Post {
    Post::ping(Some(session))
}

/// The key that has signed an id.
fn key_of(session: &str) -> u32 {
    let id = URL_SAFE_NO_PAD.decode(session).unwrap();
    u32::from_be_bytes(*id.first_chunk().unwrap())
}

/// New ids are signed with a new key once the old one is 30 days old and the other servers of the store had a day to learn of it. What the old one has signed
/// is accepted.
#[tokio::test]
async fn signing_keys_are_replaced_while_the_server_runs() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let clock = TestClock::standing();
    let server = Server::with(Options::with_clock(&clock)).await;
    let first = server.session().await;
    clock.advance(29 * DAY);
    let old = server.session().await;
    assert_eq!(key_of(&old), key_of(&first));
    // Replaced within an hour of the thirtieth day, used when a look finds it older than its day.
    let (mut last, mut advanced) = (old.clone(), 0);
    while key_of(&last) == key_of(&first) {
        clock.advance(Duration::from_secs(3600));
        advanced += 1;
        tokio::task::yield_now().await;
        last = server.session().await;
        assert!(advanced < 24 * 365);
    }
    assert!(advanced > 24 && key_of(&last) >= key_of(&first) + 30);
    assert_eq!(
        server.error(&ping(&first)).await,
        (404, -32600),
        "it ended after 30 days"
    );
    server.result(&ping(&old)).await;
    server.result(&ping(&last)).await;
}

#[tokio::test]
async fn a_session_ends_on_delete_and_its_tasks_go_on() {
    let server = Server::start().await;
    let (session, untouched) = (server.session().await, server.session().await);
    let task = server.legacy_task(&session, "wait").await;
    assert_eq!(server.delete(&session).await, 204);
    assert_eq!(server.delete(&session).await, 404, "gone");
    let notification = |method| Post::legacy(Some(&session), method, json!({})).without_id();
    let response = Post::of(json!({"jsonrpc": "2.0", "id": "q", "result": {}}));
    for late in [
        ping(&session),
        notification("notifications/initialized"),
        notification("x"),
        response.with("Mcp-Session-Id", &session),
    ] {
        assert_eq!(server.send(&late).await.reply().await.status(), 404, "{}", late.body);
    }
    server.result(&ping(&untouched)).await;
    server.stage.released.count();
    server.poll(&task, "completed").await;
}

/// Until its session ends the client may resume.
#[tokio::test]
async fn a_session_that_ends_cancels_the_plain_calls_that_its_client_has_left() {
    let server = Server::one_by_one().await;
    let (session, untouched) = (server.session().await, server.session().await);
    let wait = Post::legacy_call(Some(&session), "optional", "wait");
    let others = Post::legacy_call(Some(&untouched), "optional", "wait");
    for call in [wait.clone(), wait.clone().json_only(), others, wait.keyed("k")] {
        drop(server.begin(&call).await);
    }
    drop(server.stream(&report(&session)).await);
    // Answered only once the connections before it are over.
    server.result(&ping(&session)).await;
    assert_eq!(server.stage.stopped.get(), 0);

    assert_eq!(server.delete(&session).await, 204);
    server.stage.stopped.reaches(3).await;
    server.stage.released.count();
    server.stage.finished.reaches(2).await;
    // The named call and the other session's run on.
    assert_eq!(server.stage.stopped.get(), 3);
}

/// A call that opens its stream with progress.
fn report(session: &str) -> Post {
    Post::legacy_call(Some(session), "optional", "report 1").progress_token(json!("t"))
}

#[tokio::test]
async fn a_session_that_ends_cancels_the_plain_call_on_an_open_stream() {
    let (server, session) = Server::with_session().await;
    let _client = server.stream(&report(&session)).await;
    assert_eq!(server.delete(&session).await, 204);
    server.stage.stopped.reaches(1).await;
}

/// The end of the session finds no stream to end: the answer's begins after it.
#[tokio::test]
async fn a_session_that_ends_cancels_the_plain_call_whose_stream_begins_later() {
    let clock = TestClock::default();
    let server = Server::with(Options::with_clock(&clock)).await;
    let session = server.session().await;
    let call = Post::legacy_call(Some(&session), "optional", "wait");
    let mut client = server.begin(&call).await;
    assert_eq!(server.delete(&session).await, 204);
    clock.advance(Duration::from_secs(60));
    client.stream_head().await;
    server.stage.stopped.reaches(1).await;
}

/// An abandoned call that ends is removed from memory before its session ends.
#[tokio::test]
async fn a_call_that_was_left_may_end_before_its_session() {
    let server = Server::one_by_one().await;
    let session = server.session().await;
    let call = Post::legacy_call(Some(&session), "optional", "wait");
    drop(server.begin(&call).await);
    server.result(&ping(&session)).await;
    server.stage.released.count();
    server.stage.finished.reaches(1).await;
    assert_eq!(server.delete(&session).await, 204);
    assert_eq!(server.stage.stopped.get(), 0);
}

#[tokio::test]
async fn an_unknown_session_is_answered_404_and_a_response_without_one_400() {
    let (server, session) = Server::with_session().await;
    let mut altered = session.clone();
    altered.replace_range(10..11, if &session[10..11] == "A" { "B" } else { "A" });
    for wrong in ["x", altered.as_str(), &"A".repeat(2_000)] {
        assert_eq!(server.error(&ping(wrong)).await.0, 404, "{wrong}");
        assert_eq!(server.delete(wrong).await, 404);
    }
    let response = Post::of(json!({"jsonrpc": "2.0", "id": "q", "result": {}}));
    let refused = server.send(&response).await.reply().await;
    assert_eq!(refused.error(), (400, -32600));
    server.accepted(&response.with("Mcp-Session-Id", &session)).await;
}

#[tokio::test]
async fn a_handshake_needs_no_session_and_ignores_one() {
    let server = Server::start().await;
    for (name, value) in [("Mcp-Session-Id", "gone"), ("MCP-Protocol-Version", "2026-07-28")] {
        let initialize = Post::initialize("2025-11-25").with(name, value);
        server.result(&initialize).await;
    }
}

/// Opening a store blocks until its last owner closes it, so that needs a thread of its own.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_their_ends_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on_disk(folder.path()).await;
    let (kept, ended) = (server.session().await, server.session().await);
    let task = server.legacy_task(&kept, "say").await;
    server.poll(&task, "completed").await;
    assert_eq!(server.delete(&ended).await, 204);
    server.stop().await;

    let server = Server::on_disk(folder.path()).await;
    server.result(&ping(&kept)).await;
    assert_eq!(server.error(&ping(&ended)).await.0, 404);
    assert_eq!(server.listed(&kept).await[0]["taskId"], json!(task));
    server.result(&get(&task)).await;
}
