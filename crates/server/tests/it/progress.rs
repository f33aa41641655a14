//! Progress on the response stream of a waiting call.

use crate::{
    request::{Post, act},
    server::Server,
};
use serde_json::json;

#[tokio::test]
async fn progress_only_rises_and_carries_the_token() {
    for modern in [true, false] {
        // The stage's counters only rise, so each round has a server of its own.
        let server = Server::start().await;
        let params = act("optional", "report 1 3");
        let call = if modern {
            Post::modern_plain("tools/call", params).progress_token(json!("a\"b"))
        } else {
            Post::legacy(Some(&server.session().await), "tools/call", params).progress_token(json!(7))
        };
        let mut client = server.connect().await;
        client.send(&call.to_bytes()).await;
        assert!(client.head().await.is_stream());
        for figure in [1, 3] {
            let news = client.message().await.unwrap_or_else(|| panic!("no news of {figure}"));
            assert_eq!(
                news["params"]["progressToken"],
                call.body["params"]["_meta"]["progressToken"]
            );
            assert_eq!(news["params"]["progress"], json!(figure));
            assert_eq!(news["params"]["total"], json!(10));
            server.stage.released.count();
        }
        let rest = client.messages(&call).await;
        assert_eq!(rest.len(), 1, "the response is the last: {rest:?}");
        assert_eq!(rest[0]["result"]["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn without_a_token_no_progress_is_sent() {
    let server = Server::start().await;
    let call = Post::modern_plain("tools/call", act("optional", "report 1 2"));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    server.stage.released.count();
    server.stage.released.count();
    let reply = client.reply().await;
    assert_eq!(
        reply.json()["result"]["content"][0]["text"],
        "done",
        "one message, no stream"
    );
}

#[tokio::test]
async fn an_invalid_progress_token_is_refused_before_anything_starts() {
    let server = Server::start().await;
    let session = server.session().await;
    for token in [json!(1.5), json!({}), json!(null), json!(true)] {
        for tool in ["optional", "after_an_hour"] {
            let modern = Post::modern("tools/call", act(tool, "say")).progress_token(token.clone());
            let legacy = Post::legacy(Some(&session), "tools/call", act(tool, "say")).progress_token(token.clone());
            assert_eq!(server.error(&modern).await, (200, -32602), "{token}");
            assert_eq!(server.error(&legacy).await, (200, -32602), "{token}");
        }
    }
    assert_eq!(server.stage.begun.get(), 0);
}
