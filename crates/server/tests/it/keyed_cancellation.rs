//! `dev.longhaul/calls/cancel`: calls are cancelled by their idempotency keys.

use crate::{
    request::{Post, act},
    server::{Server, task_of},
};
use serde_json::{Value, json};

const CANCEL: &str = "dev.longhaul/calls/cancel";

fn keyed(mut post: Post, key: &str) -> Post {
    post.body["params"]["_meta"]["dev.longhaul/idempotency-key"] = json!(key);
    post
}

fn named(tool: &str) -> Value {
    json!({"name": tool})
}

/// Its caller has gone, and nobody else would stop it.
#[tokio::test]
async fn a_call_whose_caller_has_gone_is_cancelled_by_its_key() {
    for modern in [true, false] {
        let server = Server::start().await;
        let session = server.session().await;
        let post = |method: &str, params: Value| match modern {
            true => keyed(Post::modern_plain(method, params), "k"),
            false => keyed(Post::legacy(Some(&session), method, params), "k"),
        };
        let call = post("tools/call", act("optional", "wait"));
        let mut client = server.connect().await;
        client.send(&call.to_bytes()).await;
        server.stage.begun.reaches(1).await;
        drop(client);
        let cancelled = server.result(&post(CANCEL, named("optional"))).await;
        assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
        assert_eq!(cancelled["taskId"], Value::Null, "{cancelled}");
        assert_eq!(cancelled["resultType"] == "complete", modern, "{cancelled}");
        server.stage.stopped.reaches(1).await;
        // It is not made again, and cancelling it again says the same.
        let repeated = server.connect().await.exchange(&call).await.json();
        assert!(repeated["error"]["code"].is_number(), "{repeated}");
        let again = server.result(&post(CANCEL, named("optional"))).await;
        assert_eq!(again["status"], "cancelled", "{again}");
        assert_eq!(server.stage.begun.get(), 1);
    }
}

/// Whoever still waits for it is told.
#[tokio::test]
async fn the_caller_of_a_cancelled_call_gets_an_error() {
    let server = Server::start().await;
    let call = keyed(Post::modern_plain("tools/call", act("optional", "wait")), "k");
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    server
        .result(&keyed(Post::modern_plain(CANCEL, named("optional")), "k"))
        .await;
    let told = client.reply().await.json();
    assert!(told["error"]["code"].is_number(), "{told}");
}

#[tokio::test]
async fn a_task_is_cancelled_by_the_key_of_its_call() {
    let server = Server::start().await;
    let create = keyed(Post::modern("tools/call", act("optional", "wait")), "k");
    let task = task_of(&server.result(&create).await);
    server.stage.begun.reaches(1).await;
    let cancelled = server
        .result(&keyed(Post::modern(CANCEL, named("optional")), "k"))
        .await;
    assert_eq!(cancelled["taskId"], *task, "{cancelled}");
    server.poll(&task, "cancelled").await;
}

/// One that has ended is told as it is, and its result is kept.
#[tokio::test]
async fn a_call_that_has_ended_is_not_cancelled() {
    let server = Server::start().await;
    let call = keyed(Post::modern_plain("tools/call", act("optional", "say")), "k");
    let result = server.result(&call).await;
    let cancelled = server
        .result(&keyed(Post::modern_plain(CANCEL, named("optional")), "k"))
        .await;
    assert_eq!(cancelled["status"], "completed", "{cancelled}");
    assert_eq!(server.result(&call).await["content"], result["content"]);
}

#[tokio::test]
async fn a_call_is_named_by_tool_and_key() {
    let server = Server::start().await;
    let call = keyed(Post::modern("tools/call", act("optional", "wait")), "k");
    let task = task_of(&server.result(&call).await);
    for (wrong, why) in [
        (
            Post::modern(CANCEL, named("optional")),
            "params._meta has no dev.longhaul/idempotency-key: it says which call to cancel",
        ),
        (
            keyed(Post::modern(CANCEL, named("optional")), "another"),
            "Call not found",
        ),
        (keyed(Post::modern(CANCEL, named("forbidden")), "k"), "Call not found"),
    ] {
        let refused = server.connect().await.exchange(&wrong).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(refused["error"]["message"], why);
    }
    server.stage.released.count();
    server.poll(&task, "completed").await;
}
