//! `dev.longhaul/calls/cancel`: calls are cancelled by their idempotency keys.

use crate::{
    request::{Post, act, both},
    server::Server,
};
use serde_json::{Value, json};

const CANCEL: &str = "dev.longhaul/calls/cancel";

/// Cancels a call of this tool under this key.
fn cancel(tool: &str, key: &str) -> Post {
    Post::modern(CANCEL, json!({"name": tool})).keyed(key)
}

/// Its caller has gone, and nobody else would stop it.
#[tokio::test]
async fn a_call_whose_caller_has_gone_is_cancelled_by_its_key() {
    for (era, modern) in [true, false].into_iter().enumerate() {
        let (server, session) = Server::with_session().await;
        let post = |method, params| both(&session, method, params)[era].clone().keyed("k");
        let call = post("tools/call", act("optional", "wait"));
        let cancel = post(CANCEL, json!({"name": "optional"}));
        drop(server.begin(&call).await);
        let cancelled = server.result(&cancel).await;
        assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
        assert_eq!(cancelled["taskId"], Value::Null, "{cancelled}");
        assert_eq!(cancelled["resultType"] == "complete", modern, "{cancelled}");
        server.stage.stopped.reaches(1).await;
        // It is not made again, and cancelling it again says the same.
        let repeated = server.exchange(&call).await.json();
        assert!(repeated["error"]["code"].is_number(), "{repeated}");
        let again = server.result(&cancel).await;
        assert_eq!(again["status"], "cancelled", "{again}");
        assert_eq!(server.stage.begun.get(), 1);
    }
}

/// Whoever still waits for it is told.
#[tokio::test]
async fn the_caller_of_a_cancelled_call_gets_an_error() {
    let server = Server::start().await;
    let call = Post::plain_call("optional", "wait").keyed("k");
    let mut client = server.begin(&call).await;
    server.result(&cancel("optional", "k")).await;
    let told = client.reply().await.json();
    assert!(told["error"]["code"].is_number(), "{told}");
}

#[tokio::test]
async fn a_task_is_cancelled_by_the_key_of_its_call() {
    let server = Server::start().await;
    let task = server.task(&Post::call("optional", "wait").keyed("k")).await;
    server.stage.begun.reaches(1).await;
    let cancelled = server.result(&cancel("optional", "k")).await;
    assert_eq!(cancelled["taskId"], *task, "{cancelled}");
    server.poll(&task, "cancelled").await;
}

/// One that has ended is told as it is, and its result is kept.
#[tokio::test]
async fn a_call_that_has_ended_is_not_cancelled() {
    let server = Server::start().await;
    let call = Post::plain_call("optional", "say").keyed("k");
    let result = server.result(&call).await;
    let cancelled = server.result(&cancel("optional", "k")).await;
    assert_eq!(cancelled["status"], "completed", "{cancelled}");
    assert_eq!(server.result(&call).await["content"], result["content"]);
}

#[tokio::test]
async fn a_call_is_named_by_tool_and_key() {
    let server = Server::start().await;
    let task = server.task(&Post::call("optional", "wait").keyed("k")).await;
    let unkeyed = Post::modern(CANCEL, json!({"name": "optional"}));
    let missing = "params._meta has no dev.longhaul/idempotency-key: it says which call to cancel";
    for (wrong, why) in [
        (unkeyed, missing),
        (cancel("optional", "another"), "Call not found"),
        (cancel("forbidden", "k"), "Call not found"),
    ] {
        let refused = server.exchange(&wrong).await.json()["error"].clone();
        assert_eq!((&refused["code"], &refused["message"]), (&json!(-32602), &json!(why)));
    }
    server.stage.released.count();
    server.poll(&task, "completed").await;
}
