//! `notifications/cancelled`: a legacy client cancels its own requests, and no others.

use crate::{
    client::Event,
    request::{Post, act, act_as_task},
    server::{Server, get, task_of},
};
use serde_json::{Value, json};

fn cancelled(session: &str, id: &Value) -> Post {
    Post::legacy(
        Some(session),
        "notifications/cancelled",
        json!({"requestId": id, "reason": "^C"}),
    )
    .without_id()
}

#[tokio::test]
async fn a_waiting_call_is_cancelled_by_its_own_session_only() {
    let server = Server::start().await;
    let (mine, other) = (server.session().await, server.session().await);
    let id = json!("call-\"1\"");
    let call = Post::legacy(Some(&mine), "tools/call", act("optional", "wait")).id(id.clone());
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    server.stage.begun.reaches(1).await;

    let mut notifier = server.connect().await;
    for (session, id) in [(&other, &id), (&mine, &json!("call-2")), (&mine, &json!(1))] {
        assert_eq!(notifier.exchange(&cancelled(session, id)).await.status(), 202);
    }
    let ping = Post::legacy(Some(&mine), "ping", json!({}));
    notifier.result(&ping).await;
    assert_eq!(
        server.stage.stopped.get(),
        0,
        "others cannot, and other ids mean nothing"
    );

    assert_eq!(notifier.exchange(&cancelled(&mine, &id)).await.status(), 202);
    server.stage.stopped.reaches(1).await;
    let reply = client.reply().await;
    assert_eq!((reply.status(), reply.body.as_str()), (202, ""), "no response is owed");
    client.result(&ping).await;
}

/// A client that leaves a call sends its cancellation on another connection, and the server may see first that the one with the call is closed.
#[tokio::test]
async fn a_call_that_its_client_has_left_is_cancelled_by_its_own_session_only() {
    for accept in ["application/json", "application/json, text/event-stream"] {
        let server = Server::one_by_one().await;
        let (mine, other) = (server.session().await, server.session().await);
        let id = json!("call-1");
        let mut keyed = act("optional", "wait");
        keyed["_meta"] = json!({"dev.longhaul/idempotency-key": "k"});
        for (begun, call) in [(1, act("optional", "wait")), (2, keyed)] {
            let call = Post::legacy(Some(&mine), "tools/call", call).id(id.clone());
            let mut client = server.connect().await;
            client.send(&call.with("Accept", accept).to_bytes()).await;
            server.stage.begun.reaches(begun).await;
            drop(client);

            // Each is answered only once the connection before it is over.
            for (session, id) in [(&other, &id), (&mine, &json!("call-2"))] {
                let reply = server.connect().await.exchange(&cancelled(session, id)).await;
                assert_eq!(reply.status(), 202);
            }
            server.result(&Post::legacy(Some(&mine), "ping", json!({}))).await;
            assert_eq!(
                server.stage.stopped.get(),
                begun - 1,
                "others cannot, and other ids mean nothing"
            );
            let reply = server.connect().await.exchange(&cancelled(&mine, &id)).await;
            assert_eq!(reply.status(), 202);
            server.stage.stopped.reaches(begun).await;
        }
    }
}

#[tokio::test]
async fn cancelling_a_wait_for_a_result_leaves_the_task_alone() {
    let server = Server::start().await;
    let session = server.session().await;
    let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&server.result(&create).await);
    let waiting = Post::legacy(Some(&session), "tasks/result", json!({"taskId": task})).id(json!(7));
    let mut client = server.connect().await;
    client.send(&waiting.to_bytes()).await;
    client.head().await;
    assert_eq!(client.event().await, Some(Event::Prime));
    assert_eq!(
        server
            .connect()
            .await
            .exchange(&cancelled(&session, &json!(7)))
            .await
            .status(),
        202
    );
    assert_eq!(client.event().await, None, "the stream ends without a response");
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    assert_eq!(server.stage.stopped.get(), 0);
}

#[tokio::test]
async fn an_invalid_notification_is_refused() {
    let server = Server::start().await;
    let session = server.session().await;
    let garbled = Post::legacy(Some(&session), "notifications/cancelled", json!({})).without_id();
    let reply = server.connect().await.exchange(&garbled).await;
    assert_eq!(reply.error(), (400, -32602), "200 would read as accepted");
    for unknown in ["notifications/roots/list_changed", "notifications/of/tomorrow"] {
        let post = Post::legacy(Some(&session), unknown, json!({})).without_id();
        assert_eq!(server.connect().await.exchange(&post).await.status(), 202, "{unknown}");
        let post = Post::modern(unknown, json!({})).without_id();
        assert_eq!(server.connect().await.exchange(&post).await.status(), 202, "{unknown}");
    }
}
