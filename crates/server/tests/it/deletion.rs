//! `dev.longhaul/tasks/delete`.

use crate::{
    request::{Post, act, act_as_task},
    server::{Server, get, task_of},
};
use serde_json::json;

const DELETE: &str = "dev.longhaul/tasks/delete";

#[tokio::test]
async fn a_finished_task_can_be_deleted_in_both_generations() {
    for modern in [true, false] {
        let server = Server::start().await;
        let session = server.session().await;
        let post = |method: &str, id: &str| match modern {
            true => Post::modern(method, json!({"taskId": id})),
            false => Post::legacy(Some(&session), method, json!({"taskId": id})),
        };
        let create = match modern {
            true => Post::modern("tools/call", act("optional", "wait")),
            false => Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait")),
        };
        let task = task_of(&server.result(&create).await);
        let live = server.connect().await.exchange(&post(DELETE, &task)).await.json();
        assert_eq!(live["error"]["code"], -32602);
        assert_eq!(live["error"]["message"], "Task has not ended: cancel it first");
        server.stage.released.count();
        server.poll(&task, "completed").await;
        server.result(&post(DELETE, &task)).await;
        let unknown = server
            .error(&post("tasks/get", "0123456789abcdefghjkmnpqrstvwxyz0123"))
            .await;
        for method in ["tasks/get", DELETE] {
            assert_eq!(server.error(&post(method, &task)).await, unknown, "{method}");
        }
        let log = format!("longhaul://task/{task}/history");
        let read = Post::modern("resources/read", json!({"uri": log}));
        assert_eq!(server.error(&read).await.1, -32602);
        let list = Post::legacy(Some(&session), "tasks/list", json!({}));
        assert_eq!(server.result(&list).await["tasks"], json!([]));
    }
}

/// As for the other methods of tasks.
#[tokio::test]
async fn a_modern_client_declares_the_extension_before_it_deletes() {
    let server = Server::start().await;
    let create = Post::modern("tools/call", act("optional", "say"));
    let task = task_of(&server.result(&create).await);
    server.poll(&task, "completed").await;
    for declared in [json!({}), json!({"tasks": {}})] {
        let delete = Post::modern_with(DELETE, json!({"taskId": task}), declared);
        assert_eq!(server.error(&delete).await.1, -32021);
    }
    assert_eq!(server.result(&get(&task)).await["status"], "completed");
    let old = Post::legacy(None, DELETE, json!({"taskId": task}));
    assert_eq!(server.error(&old).await.1, -32601, "its revision has no tasks");
}
