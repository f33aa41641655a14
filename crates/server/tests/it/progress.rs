//! Progress on the response stream of a waiting call.

use crate::{
    request::Post,
    server::{Server, text},
};
use serde_json::json;

#[tokio::test]
async fn progress_only_rises_and_carries_the_token() {
    for modern in [true, false] {
        // The stage's counters only rise, so each round has a server of its own.
        let server = Server::start().await;
        let (call, token) = match modern {
            true => (Post::plain_call("optional", "report 1 3"), json!("a\"b")),
            false => {
                let session = server.session().await;
                (Post::legacy_call(Some(&session), "optional", "report 1 3"), json!(7))
            }
        };
        let call = call.progress_token(token.clone());
        let mut client = server.stream(&call).await;
        for figure in [1, 3] {
            let news = client.message().await.unwrap_or_else(|| panic!("no news of {figure}"));
            let seen = ["progressToken", "progress", "total"].map(|name| &news["params"][name]);
            assert_eq!(seen, [&token, &json!(figure), &json!(10)]);
            server.stage.released.count();
        }
        assert_eq!(text(&client.only_result(&call).await), "done");
    }
}

#[tokio::test]
async fn without_a_token_no_progress_is_sent() {
    let server = Server::start().await;
    let call = Post::plain_call("optional", "report 1 2");
    let mut client = server.begin(&call).await;
    server.stage.released.count();
    server.stage.released.count();
    let reply = client.reply().await.json();
    assert_eq!(text(&reply["result"]), "done", "one message, no stream");
}

#[tokio::test]
async fn an_invalid_progress_token_is_refused_before_anything_starts() {
    let (server, session) = Server::with_session().await;
    for token in [json!(1.5), json!({}), json!(null), json!(true)] {
        for tool in ["optional", "after_an_hour"] {
            let modern = Post::call(tool, "say").progress_token(token.clone());
            let legacy = Post::legacy_call(Some(&session), tool, "say").progress_token(token.clone());
            assert_eq!(server.error(&modern).await, (200, -32602), "{token}");
            assert_eq!(server.error(&legacy).await, (200, -32602), "{token}");
        }
    }
    assert_eq!(server.stage.begun.get(), 0);
}
