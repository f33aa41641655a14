//! Calls that become tasks when they take long.

use crate::{
    request::{Post, act},
    server::{Server, get, task_of},
};

#[tokio::test]
async fn a_long_call_is_answered_with_a_task_that_continues() {
    let server = Server::start().await;
    let created = server
        .result(&Post::modern("tools/call", act("after_a_moment", "wait")))
        .await;
    assert_eq!(created["resultType"], "task");
    let task = task_of(&created);
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    server.stage.released.count();
    let completed = server.poll(&task, "completed").await;
    assert_eq!(completed["result"]["content"][0]["text"], "done");
    assert_eq!(server.stage.begun.get(), 1, "it is the same call");
}

#[tokio::test]
async fn a_client_that_leaves_before_the_promotion_cancels_its_call() {
    let server = Server::one_by_one().await;
    let mut client = server.connect().await;
    client
        .send(&Post::modern("tools/call", act("after_an_hour", "wait")).to_bytes())
        .await;
    server.stage.begun.reaches(1).await;
    drop(client);
    server.stage.stopped.reaches(1).await;
}

#[tokio::test]
async fn invariant_9_a_client_that_leaves_after_the_promotion_cancels_nothing() {
    let server = Server::one_by_one().await;
    let mut client = server.connect().await;
    let created = client
        .result(&Post::modern("tools/call", act("after_a_moment", "wait")))
        .await;
    drop(client);
    let task = task_of(&created);
    // Answered only once the first connection is over.
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    server.stage.released.count();
    server.poll(&task, "completed").await;
    assert_eq!(server.stage.stopped.get(), 0);
}
