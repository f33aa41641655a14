//! Calls that become tasks when they take long.

use crate::{
    request::Post,
    server::{Server, get, task_of, text},
};

/// Also when its client leaves.
#[tokio::test]
async fn invariant_9_a_long_call_is_answered_with_a_task_that_continues() {
    let server = Server::one_by_one().await;
    let created = server.result(&Post::call("after_a_moment", "wait")).await;
    assert_eq!(created["resultType"], "task");
    let task = task_of(&created);
    // Answered only once the first connection is over.
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    server.stage.released.count();
    let completed = server.poll(&task, "completed").await;
    assert_eq!(text(&completed["result"]), "done");
    assert_eq!(server.stage.begun.get(), 1, "it is the same call");
    assert_eq!(server.stage.stopped.get(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_before_the_promotion_cancels_its_call() {
    let server = Server::one_by_one().await;
    drop(server.begin(&Post::call("after_an_hour", "wait")).await);
    server.stage.stopped.reaches(1).await;
}
