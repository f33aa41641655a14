//! Legacy sessions: carried by their ids, ended by their clients, survived by their tasks.

use crate::{
    clock::TestClock,
    request::{Post, act, act_as_task},
    server::{Options, Server, get, other, task_of},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use longhaul_store::{SqliteOptions, SqliteStore};
use serde_json::json;
use std::{sync::Arc, time::Duration};

fn ping(session: &str) -> Post {
    Post::legacy(Some(session), "ping", json!({}))
}

async fn delete(server: &Server, session: &str) -> u16 {
    let mut client = server.connect().await;
    client
        .send(other("DELETE", &format!("Mcp-Session-Id: {session}\r\n")).as_bytes())
        .await;
    client.reply().await.status()
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
    let server = Server::with(Options {
        clock: clock.clone(),
        ..Options::default()
    })
    .await;
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
    let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&server.result(&create).await);
    assert_eq!(delete(&server, &session).await, 204);
    let (status, _) = server.error(&ping(&session)).await;
    assert_eq!(status, 404, "gone");
    assert_eq!(delete(&server, &session).await, 404);
    let mut client = server.connect().await;
    let late = [
        Post::legacy(Some(&session), "notifications/initialized", json!({})).without_id(),
        Post::legacy(Some(&session), "x", json!({})).without_id(),
    ];
    for notification in late {
        assert_eq!(client.exchange(&notification).await.status(), 404);
    }
    let response = Post::of(json!({"jsonrpc": "2.0", "id": "q", "result": {}})).with("Mcp-Session-Id", &session);
    client.send(&response.to_bytes()).await;
    assert_eq!(client.reply().await.status(), 404);
    server.result(&ping(&untouched)).await;
    server.stage.released.count();
    server.poll(&task, "completed").await;
}

/// Until its session ends the client may resume.
#[tokio::test]
async fn a_session_that_ends_cancels_the_plain_calls_that_its_client_has_left() {
    let server = Server::one_by_one().await;
    let (session, untouched) = (server.session().await, server.session().await);
    let mut begun = 0;
    let mut leave = async |call: Post| {
        begun += 1;
        let mut client = server.connect().await;
        client.send(&call.to_bytes()).await;
        server.stage.begun.reaches(begun).await;
    };
    let wait = |session: &str| Post::legacy(Some(session), "tools/call", act("optional", "wait"));
    leave(wait(&session)).await;
    leave(wait(&session).with("Accept", "application/json")).await;
    leave(wait(&untouched)).await;
    let mut named = wait(&session);
    named.body["params"]["_meta"] = json!({"dev.longhaul/idempotency-key": "k"});
    leave(named).await;
    let call = Post::legacy(Some(&session), "tools/call", act("optional", "report 1")).progress_token(json!("t"));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    assert!(client.head().await.is_stream(), "progress opened it");
    drop(client);
    // Answered only once the connections before it are over.
    server.result(&ping(&session)).await;
    assert_eq!(server.stage.stopped.get(), 0);

    assert_eq!(delete(&server, &session).await, 204);
    server.stage.stopped.reaches(3).await;
    server.stage.released.count();
    server.stage.finished.reaches(2).await;
    assert_eq!(
        server.stage.stopped.get(),
        3,
        "the named call and the other session's run on"
    );
}

#[tokio::test]
async fn a_session_that_ends_cancels_the_plain_call_on_an_open_stream() {
    let server = Server::start().await;
    let session = server.session().await;
    let call = Post::legacy(Some(&session), "tools/call", act("optional", "report 1")).progress_token(json!("t"));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    assert!(client.head().await.is_stream(), "progress opened it");
    assert_eq!(delete(&server, &session).await, 204);
    server.stage.stopped.reaches(1).await;
}

/// The end of the session finds no stream to end: the answer's begins after it.
#[tokio::test]
async fn a_session_that_ends_cancels_the_plain_call_whose_stream_begins_later() {
    let clock = TestClock::default();
    let server = Server::with(Options {
        clock: clock.clone(),
        ..Options::default()
    })
    .await;
    let session = server.session().await;
    let mut client = server.connect().await;
    let call = Post::legacy(Some(&session), "tools/call", act("optional", "wait"));
    client.send(&call.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    assert_eq!(delete(&server, &session).await, 204);
    clock.advance(Duration::from_secs(60));
    assert!(client.head().await.is_stream());
    server.stage.stopped.reaches(1).await;
}

/// An abandoned call that ends is removed from memory before its session ends.
#[tokio::test]
async fn a_call_that_was_left_may_end_before_its_session() {
    let server = Server::one_by_one().await;
    let session = server.session().await;
    let mut client = server.connect().await;
    let call = Post::legacy(Some(&session), "tools/call", act("optional", "wait"));
    client.send(&call.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    drop(client);
    server.result(&ping(&session)).await;
    server.stage.released.count();
    server.stage.finished.reaches(1).await;
    assert_eq!(delete(&server, &session).await, 204);
    assert_eq!(server.stage.stopped.get(), 0);
}

#[tokio::test]
async fn an_unknown_session_is_answered_404_and_a_response_without_one_400() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut altered = session.clone();
    altered.replace_range(10..11, if &session[10..11] == "A" { "B" } else { "A" });
    for wrong in ["x", altered.as_str(), &"A".repeat(2_000)] {
        let (status, _) = server.error(&ping(wrong)).await;
        assert_eq!(status, 404, "{wrong}");
        assert_eq!(delete(&server, wrong).await, 404);
    }
    let response = Post::of(json!({"jsonrpc": "2.0", "id": "q", "result": {}}));
    let mut client = server.connect().await;
    client.send(&response.to_bytes()).await;
    assert_eq!(client.reply().await.error(), (400, -32600));
    client.send(&response.with("Mcp-Session-Id", &session).to_bytes()).await;
    assert_eq!(client.reply().await.status(), 202);
}

#[tokio::test]
async fn a_handshake_needs_no_session_and_ignores_one() {
    let server = Server::start().await;
    server
        .result(&Post::initialize("2025-11-25").with("Mcp-Session-Id", "gone"))
        .await;
    server
        .result(&Post::initialize("2025-11-25").with("MCP-Protocol-Version", "2026-07-28"))
        .await;
}

/// Opening a store blocks until its last owner closes it, so that needs a thread of its own.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_their_ends_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let on_disk = || Options {
        store: Arc::new(SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap()),
        ..Options::default()
    };
    let server = Server::with(on_disk()).await;
    let (kept, ended) = (server.session().await, server.session().await);
    let create = Post::legacy(Some(&kept), "tools/call", act_as_task("optional", "say"));
    let task = task_of(&server.result(&create).await);
    server.poll(&task, "completed").await;
    assert_eq!(delete(&server, &ended).await, 204);
    server.stop().await;

    let server = Server::with(on_disk()).await;
    server.result(&ping(&kept)).await;
    let (status, _) = server.error(&ping(&ended)).await;
    assert_eq!(status, 404);
    let listed = server.result(&Post::legacy(Some(&kept), "tasks/list", json!({}))).await;
    assert_eq!(listed["tasks"][0]["taskId"], json!(task));
    server.result(&get(&task)).await;
}
