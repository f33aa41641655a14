//! Whether one client can learn of another's tasks without authentication.

use crate::{
    request::{Post, act, act_as_task},
    server::{Server, task_of},
};
use serde_json::json;

/// Ids that were never announced.
const NOBODYS: [&str; 5] = ["0123456789abcdefghjkmnpqrstvwxyz0123", "x", "", "../../etc", "a\u{0}b"];

#[tokio::test]
async fn invariant_5_one_principal_cannot_learn_that_anothers_task_exists() {
    let server = Server::start().await;
    let (mine, other) = (server.session().await, server.session().await);
    let create = Post::legacy(Some(&mine), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&server.result(&create).await);
    // Modern clients have no list to appear in, and their tasks appear in none.
    server
        .result(&Post::modern("tools/call", act("optional", "wait")))
        .await;

    let list = |session: &str| Post::legacy(Some(session), "tasks/list", json!({}));
    let seen = server.result(&list(&mine)).await;
    assert_eq!(seen["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(seen["tasks"][0]["taskId"], json!(task));
    assert_eq!(server.result(&list(&other)).await["tasks"], json!([]));
}

#[tokio::test]
async fn invariant_5_every_unknown_id_is_answered_alike() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut client = server.connect().await;
    let mut seen = std::collections::HashMap::new();
    for id in NOBODYS {
        let params = json!({"taskId": id, "inputResponses": {}});
        let posts = [
            Post::modern("tasks/get", params.clone()),
            Post::modern("tasks/update", params.clone()),
            Post::modern("tasks/cancel", params.clone()),
            Post::legacy(Some(&session), "tasks/get", params.clone()),
            Post::legacy(Some(&session), "tasks/result", params.clone()),
            Post::legacy(Some(&session), "tasks/cancel", params.clone()),
        ];
        for post in posts {
            // Not every id can stand in a header, and it need not.
            let reply = client.exchange(&post.without("Mcp-Name")).await;
            *seen.entry(reply.body).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn a_plain_call_is_not_visible_as_a_task() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut client = server.connect().await;
    client
        .send(&Post::legacy(Some(&session), "tools/call", act("optional", "wait")).to_bytes())
        .await;
    server.stage.begun.reaches(1).await;
    let listed = server
        .result(&Post::legacy(Some(&session), "tasks/list", json!({})))
        .await;
    assert_eq!(listed["tasks"], json!([]), "its own session's neither");
    server.stage.released.count();
    assert_eq!(client.reply().await.status(), 200);
}
