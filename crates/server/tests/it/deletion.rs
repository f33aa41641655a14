//! `dev.longhaul/tasks/delete`.

use crate::{
    request::Post,
    server::{Server, get},
};
use serde_json::json;

const DELETE: &str = "dev.longhaul/tasks/delete";

#[tokio::test]
async fn a_finished_task_can_be_deleted_in_both_generations() {
    for modern in [true, false] {
        let (server, session) = Server::with_session().await;
        let post = |method: &str, id: &str| match modern {
            true => Post::modern(method, json!({"taskId": id})),
            false => Post::on_task(&session, method, id),
        };
        let create = match modern {
            true => Post::call("optional", "wait"),
            false => Post::legacy_task(Some(&session), "optional", "wait"),
        };
        let task = server.task(&create).await;
        let live = server.exchange(&post(DELETE, &task)).await.json();
        assert_eq!(live["error"]["code"], -32602);
        assert_eq!(live["error"]["message"], "Task has not ended: cancel it first");
        server.stage.released.count();
        server.poll(&task, "completed").await;
        server.result(&post(DELETE, &task)).await;
        let unknown = post("tasks/get", "0123456789abcdefghjkmnpqrstvwxyz0123");
        let unknown = server.error(&unknown).await;
        for method in ["tasks/get", DELETE] {
            assert_eq!(server.error(&post(method, &task)).await, unknown, "{method}");
        }
        let log = format!("longhaul://task/{task}/history");
        let read = Post::modern("resources/read", json!({"uri": log}));
        assert_eq!(server.error(&read).await.1, -32602);
        assert_eq!(server.listed(&session).await, json!([]));
    }
}

/// As for the other methods of tasks.
#[tokio::test]
async fn a_modern_client_declares_the_extension_before_it_deletes() {
    let server = Server::start().await;
    let task = server.task(&Post::call("optional", "say")).await;
    server.poll(&task, "completed").await;
    for declared in [json!({}), json!({"tasks": {}})] {
        let delete = Post::modern_with(DELETE, json!({"taskId": task}), declared);
        assert_eq!(server.error(&delete).await.1, -32021);
    }
    assert_eq!(server.result(&get(&task)).await["status"], "completed");
    let old = Post::legacy(None, DELETE, json!({"taskId": task}));
    assert_eq!(server.error(&old).await.1, -32601, "its revision has no tasks");
}
