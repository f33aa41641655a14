//! `notifications/cancelled`: a legacy client cancels its own requests, and no others.

use crate::{
    client::Event,
    request::Post,
    server::{Server, get},
};
use serde_json::{Value, json};

fn cancelled(session: &str, id: &Value) -> Post {
    let params = json!({"requestId": id, "reason": "^C"});
    Post::legacy(Some(session), "notifications/cancelled", params).without_id()
}

#[tokio::test]
async fn a_waiting_call_is_cancelled_by_its_own_session_only() {
    let server = Server::start().await;
    let (mine, other) = (server.session().await, server.session().await);
    let id = json!("call-\"1\"");
    let call = Post::legacy_call(Some(&mine), "optional", "wait").id(id.clone());
    let mut client = server.begin(&call).await;
    for (session, id) in [(&other, &id), (&mine, &json!("call-2")), (&mine, &json!(1))] {
        server.accepted(&cancelled(session, id)).await;
    }
    server.result(&Post::ping(Some(&mine))).await;
    assert_eq!(server.stage.stopped.get(), 0, "not by others, nor other ids");

    server.accepted(&cancelled(&mine, &id)).await;
    server.stage.stopped.reaches(1).await;
    let reply = client.reply().await;
    assert_eq!((reply.status(), reply.body.as_str()), (202, ""), "no response is owed");
    client.result(&Post::ping(Some(&mine))).await;
}

/// A client that leaves a call sends its cancellation on another connection, and the server may see first that the one with the call is closed.
#[tokio::test]
async fn a_call_that_its_client_has_left_is_cancelled_by_its_own_session_only() {
    for accept in ["application/json", "application/json, text/event-stream"] {
        let server = Server::one_by_one().await;
        let (mine, other) = (server.session().await, server.session().await);
        let id = json!("call-1");
        let call = Post::legacy_call(Some(&mine), "optional", "wait").id(id.clone());
        let call = call.with("Accept", accept);
        for (begun, call) in [(1, call.clone()), (2, call.keyed("k"))] {
            drop(server.begin(&call).await);
            // Each is answered only once the connection before it is over.
            for (session, id) in [(&other, &id), (&mine, &json!("call-2"))] {
                server.accepted(&cancelled(session, id)).await;
            }
            server.result(&Post::ping(Some(&mine))).await;
            assert_eq!(server.stage.stopped.get(), begun - 1, "not by others, nor other ids");
            server.accepted(&cancelled(&mine, &id)).await;
            server.stage.stopped.reaches(begun).await;
        }
    }
}

#[tokio::test]
async fn cancelling_a_wait_for_a_result_leaves_the_task_alone() {
    let (server, session) = Server::with_session().await;
    let task = server.legacy_task(&session, "wait").await;
    let waiting = Post::on_task(&session, "tasks/result", &task).id(json!(7));
    let mut client = server.stream(&waiting).await;
    assert_eq!(client.event().await, Some(Event::Prime));
    server.accepted(&cancelled(&session, &json!(7))).await;
    assert_eq!(client.event().await, None, "the stream ends without a response");
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    assert_eq!(server.stage.stopped.get(), 0);
}

#[tokio::test]
async fn an_invalid_notification_is_refused() {
    let (server, session) = Server::with_session().await;
    let notification = |method: &str| Post::legacy(Some(&session), method, json!({})).without_id();
    let garbled = server.error(&notification("notifications/cancelled")).await;
    assert_eq!(garbled, (400, -32602), "200 would read as accepted");
    for unknown in ["notifications/roots/list_changed", "notifications/of/tomorrow"] {
        server.accepted(&notification(unknown)).await;
        server.accepted(&Post::modern(unknown, json!({})).without_id()).await;
    }
}
