//! One principal cannot use up what others need.

use super::{Authenticated, get_stream, of};
use crate::{
    request::{Post, act, act_as_task},
    server::{Options, task_of},
    stage::HANDED_OFF,
};
use longhaul_server::Limits;
use serde_json::json;

async fn with_streams(streams: usize) -> Authenticated {
    Authenticated::with(Options {
        limits: Limits {
            streams,
            ..Limits::default()
        },
        ..Options::default()
    })
    .await
}

impl Authenticated {
    /// A task of the token's principal that waits.
    async fn waiting_task(&self, token: &str, session: &str) -> String {
        let create = Post::legacy(Some(session), "tools/call", act_as_task("optional", "wait"));
        task_of(&self.result(token, create).await)
    }
}

#[tokio::test]
async fn s_06_waits_for_results_count_as_streams_of_their_principal() {
    let it = with_streams(2).await;
    let (ann, bob) = (it.session("ann").await, it.session("bob").await);
    let (hers, his) = (it.waiting_task("ann", &ann).await, it.waiting_task("bob", &bob).await);
    let wait = |session: &str, task: &str| Post::legacy(Some(session), "tasks/result", json!({"taskId": task}));

    // In sessions, so that the waits go on when their readers leave.
    let mut waiting = Vec::new();
    for session in [&ann, &it.session("ann").await] {
        let mut client = it.server.connect().await;
        client.send(&of("ann", wait(session, &hers)).to_bytes()).await;
        assert!(client.head().await.is_stream());
        waiting.push(client);
    }
    for one_more in [wait(&ann, &hers), wait(&ann, &hers).with("Accept", "application/json")] {
        let mut client = it.server.connect().await;
        let refused = client.exchange(&of("ann", one_more)).await.json()["error"].clone();
        assert_eq!(refused["code"], 429);
        let reason = "Too many streams and waits are open: at most 2 of one client";
        assert_eq!(refused["message"], reason);
    }
    let follow = json!({"name": "task_wait", "arguments": {"task": hers}});
    assert!(it.server.engine.catalog().tool(HANDED_OFF).is_some());
    let followed = it
        .server
        .connect()
        .await
        .exchange(&of("ann", Post::modern_plain("tools/call", follow)))
        .await;
    assert!(
        followed.body.contains("Too many streams and waits"),
        "{}",
        followed.body
    );

    let mut other = it.server.connect().await;
    other.send(&of("bob", wait(&bob, &his)).to_bytes()).await;
    assert!(other.head().await.is_stream(), "others wait as before");
    it.listen("bob", &bob).await;

    waiting.pop();
    loop {
        let mut again = it.server.connect().await;
        again.send(&of("ann", wait(&ann, &hers)).to_bytes()).await;
        if again.head().await.is_stream() {
            break;
        }
    }
}

/// A call whose caller's connection broke can be resumed, however many streams another principal has.
#[tokio::test]
async fn s_06_one_principal_drops_no_stream_of_another() {
    let it = Authenticated::with(Options {
        limits: Limits {
            // As many as a single session may have.
            streams_in_all: 64,
            ..Limits::default()
        },
        ..Options::default()
    })
    .await;
    let ann = it.session("ann").await;
    let call = Post::legacy(Some(&ann), "tools/call", act("optional", "report 1")).progress_token(json!("p"));
    let mut broken = it.server.connect().await;
    broken.send(&of("ann", call).to_bytes()).await;
    assert!(broken.head().await.is_stream());
    broken.event().await;
    let event = broken.last_event_id.take().unwrap();
    drop(broken);

    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(it.session("bob").await);
    }
    for call in 0..128 {
        let call = Post::legacy(Some(&sessions[call % 4]), "tools/call", act("optional", "report 1"));
        let mut client = it.server.connect().await;
        client
            .send(&of("bob", call.progress_token(json!("p"))).to_bytes())
            .await;
        assert!(client.head().await.is_stream());
    }

    it.server.stage.released.count();
    let mut resumed = it.server.connect().await;
    let headers = format!("Last-Event-ID: {event}\r\n");
    resumed.send(get_stream("ann", &ann, &headers).as_bytes()).await;
    let head = resumed.head().await;
    assert!(head.status == 200 && head.is_stream(), "{head:?}");
}
