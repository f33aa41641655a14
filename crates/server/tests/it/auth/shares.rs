//! One principal cannot use up what others need.

use super::Authenticated;
use crate::{request::Post, server::Options, stage::HANDED_OFF};
use longhaul_server::Limits;
use serde_json::json;

async fn limited(limit: impl FnOnce(&mut Limits)) -> Authenticated {
    Authenticated::with(Options::with(|options| limit(&mut options.limits))).await
}

#[tokio::test]
async fn s_06_waits_for_results_count_as_streams_of_their_principal() {
    let it = limited(|limits| limits.streams = 2).await;
    let (ann, bob) = (it.session("ann").await, it.session("bob").await);
    let hers = it.legacy_task("ann", &ann, "wait").await;
    let his = it.legacy_task("bob", &bob, "wait").await;
    let wait = |session: &str, task: &str| Post::on_task(session, "tasks/result", task);

    // In sessions, so that the waits go on when their readers leave.
    let mut waiting = Vec::new();
    for session in [&ann, &it.session("ann").await] {
        waiting.push(it.stream("ann", wait(session, &hers)).await);
    }
    for one_more in [wait(&ann, &hers), wait(&ann, &hers).json_only()] {
        let refused = it.exchange("ann", one_more).await.json()["error"].clone();
        assert_eq!(refused["code"], 429);
        let reason = "Too many streams and waits are open: at most 2 of one client";
        assert_eq!(refused["message"], reason);
    }
    let follow = json!({"name": "task_wait", "arguments": {"task": hers}});
    assert!(it.server.engine.catalog().tool(HANDED_OFF).is_some());
    let followed = it.exchange("ann", Post::modern_plain("tools/call", follow)).await;
    assert!(followed.body.contains("Too many streams and waits"), "{followed:?}");

    // Others wait as before.
    let _other = it.stream("bob", wait(&bob, &his)).await;
    it.listen("bob", &bob).await;

    waiting.pop();
    while !it.send("ann", wait(&ann, &hers)).await.head().await.is_stream() {}
}

/// A call whose caller's connection broke can be resumed, however many streams another principal has.
#[tokio::test]
async fn s_06_one_principal_drops_no_stream_of_another() {
    // As many as a single session may have.
    let it = limited(|limits| limits.streams_in_all = 64).await;
    let ann = it.session("ann").await;
    let call = Post::legacy_call(Some(&ann), "optional", "report 1").progress_token(json!("p"));
    let mut broken = it.stream("ann", call).await;
    let event = broken.first_id().await;
    drop(broken);

    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(it.session("bob").await);
    }
    for call in 0..128 {
        let call = Post::legacy_call(Some(&sessions[call % 4]), "optional", "report 1");
        it.stream("bob", call.progress_token(json!("p"))).await;
    }

    it.server.stage.released.count();
    it.resume("ann", &ann, &event).await;
}
