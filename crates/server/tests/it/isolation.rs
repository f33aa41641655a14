//! Whether one client can learn of another's tasks without authentication.

use crate::{request::Post, server::Server};
use serde_json::json;

/// Ids that were never announced.
const NOBODYS: [&str; 5] = ["0123456789abcdefghjkmnpqrstvwxyz0123", "x", "", "../../etc", "a\u{0}b"];

#[tokio::test]
async fn invariant_5_one_principal_cannot_learn_that_anothers_task_exists() {
    let server = Server::start().await;
    let (mine, other) = (server.session().await, server.session().await);
    let task = server.legacy_task(&mine, "wait").await;
    // Modern clients have no list to appear in, and their tasks appear in none.
    server.result(&Post::call("optional", "wait")).await;

    let seen = server.listed(&mine).await;
    assert_eq!((seen.as_array().unwrap().len(), &seen[0]["taskId"]), (1, &json!(task)));
    assert_eq!(server.listed(&other).await, json!([]));
}

#[tokio::test]
async fn invariant_5_every_unknown_id_is_answered_alike() {
    let (server, session) = Server::with_session().await;
    let mut client = server.connect().await;
    let mut seen = std::collections::BTreeSet::new();
    for id in NOBODYS {
        let params = json!({"taskId": id, "inputResponses": {}});
        let modern = ["tasks/get", "tasks/update", "tasks/cancel"].map(|method| Post::modern(method, params.clone()));
        let legacy = ["tasks/get", "tasks/result", "tasks/cancel"];
        let legacy = legacy.map(|method| Post::legacy(Some(&session), method, params.clone()));
        for post in modern.into_iter().chain(legacy) {
            // Not every id can stand in a header, and it need not.
            seen.insert(client.exchange(&post.without("Mcp-Name")).await.body);
        }
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn a_plain_call_is_not_visible_as_a_task() {
    let (server, session) = Server::with_session().await;
    let call = Post::legacy_call(Some(&session), "optional", "wait");
    let mut client = server.begin(&call).await;
    assert_eq!(server.listed(&session).await, json!([]), "its own session's neither");
    server.stage.released.count();
    assert_eq!(client.reply().await.status(), 200);
}
