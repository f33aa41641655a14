//! Progress on the response stream of a waiting call.

use crate::{
    request::{Post, act},
    server::Server,
};
use serde_json::{Value, json};

#[tokio::test]
async fn figures_only_rise_and_carry_the_token() {
    let server = Server::start().await;
    let session = server.session().await;
    for token in [json!("a\"b"), json!(7)] {
        let calls = [
            Post::legacy(Some(&session), "tools/call", act("optional", "report 1 3")),
            Post::modern_plain("tools/call", act("optional", "report 1 3")),
        ];
        for call in calls {
            // The stage's counter only rises, so each round has a server of its own.
            let server = Server::start().await;
            let call = match call.body["params"].pointer("/_meta/io.modelcontextprotocol~1protocolVersion") {
                Some(_) => call,
                None => Post::legacy(
                    Some(&server.session().await),
                    "tools/call",
                    act("optional", "report 1 3"),
                ),
            };
            let call = call.progress_token(token.clone());
            let mut client = server.connect().await;
            client.send(&call.to_bytes()).await;
            assert!(client.head().await.is_stream());
            for figure in [1.0, 3.0] {
                let Some(crate::client::Event::Message(news)) = client.event().await else {
                    panic!("no news of {figure}")
                };
                crate::schema::check_notification(&call.body, &news);
                assert_eq!(news["params"]["progressToken"], token);
                assert_eq!(news["params"]["progress"], json!(figure as u64));
                assert_eq!(news["params"]["total"], json!(10));
                server.stage.released.count();
            }
            let rest = client.messages(&call).await;
            assert_eq!(rest.len(), 1, "the response is the last: {rest:?}");
            assert_eq!(rest[0]["result"]["content"][0]["text"], "done");
        }
    }
}

#[tokio::test]
async fn figures_that_fall_are_not_told() {
    let server = Server::start().await;
    let call = Post::modern_plain("tools/call", act("optional", "report 5 4 nan 6")).progress_token(json!(1));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    assert!(client.head().await.is_stream());
    let mut told: Vec<Value> = Vec::new();
    for _ in 0..4 {
        server.stage.released.count();
    }
    for message in client.messages(&call).await {
        if message.get("id").is_none() {
            told.push(message["params"]["progress"].clone());
        }
    }
    let figures: Vec<f64> = told.iter().map(|figure| figure.as_f64().unwrap()).collect();
    assert!(figures.windows(2).all(|pair| pair[0] < pair[1]), "{figures:?}");
}

#[tokio::test]
async fn nobody_is_told_who_did_not_ask() {
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
async fn a_token_that_is_none_is_refused_before_anything_starts() {
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
