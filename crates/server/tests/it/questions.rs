//! Plain calls of legacy clients that ask: by requests on the stream of the call.

use crate::{
    client::Connection,
    request::{Post, act},
    rounds::accept,
    server::Server,
};
use serde_json::{Value, json};

pub(crate) fn response(session: &str, request: &Value, result: Value) -> Post {
    let mut post = Post::legacy(Some(session), "", json!({}));
    post.body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    post
}

/// The next request on a stream.
pub(crate) async fn request(client: &mut Connection) -> Value {
    let request = client.pushed().await;
    assert!(request.get("id").is_some(), "{request}");
    request
}

async fn answer(server: &Server, session: &str, request: &Value, result: Value) {
    let post = response(session, request, result);
    assert_eq!(server.connect().await.exchange(&post).await.status(), 202);
}

async fn begin(server: &Server, session: &str, acting: &str) -> (Connection, Post) {
    let call = Post::legacy(Some(session), "tools/call", act("optional", acting));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    (client, call)
}

#[tokio::test]
async fn questions_are_requests_on_the_stream_of_the_call() {
    let server = Server::start().await;
    let session = server.session_that_can_be_asked().await;
    let (mut client, call) = begin(&server, &session, "ask_all name town").await;
    assert!(client.head().await.is_stream());
    let (name, town) = (request(&mut client).await, request(&mut client).await);
    assert_ne!(name["id"], town["id"]);
    assert!(name["params"].get("_meta").is_none(), "nothing was announced: {name}");
    answer(&server, &session, &town, accept("town", "Ulm")).await;
    answer(&server, &session, &name, accept("name", "Ann")).await;
    let rest = client.messages(&call).await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    let text = rest[0]["result"]["content"][0]["text"].as_str().unwrap();
    let text: Value = serde_json::from_str(text).unwrap();
    assert_eq!(text, json!([accept("name", "Ann"), accept("town", "Ulm")]));
}

#[tokio::test]
async fn each_answer_leads_to_the_next_question() {
    let server = Server::start().await;
    let session = server.session_that_can_be_asked().await;
    let (mut client, call) = begin(&server, &session, "ask_each name town").await;
    client.head().await;
    for name in ["name", "town"] {
        let asked = request(&mut client).await;
        assert_eq!(asked["params"]["message"], format!("What is your {name}?"));
        answer(&server, &session, &asked, accept(name, "x")).await;
    }
    assert_eq!(client.messages(&call).await.len(), 1);
}

#[tokio::test]
async fn a_client_that_refuses_is_not_asked_again() {
    let server = Server::start().await;
    let session = server.session_that_can_be_asked().await;
    let (mut client, call) = begin(&server, &session, "sample").await;
    client.head().await;
    let asked = request(&mut client).await;
    let mut post = response(&session, &asked, json!(null));
    post.body.as_object_mut().unwrap().remove("result");
    post.body["error"] = json!({"code": -1, "message": "the user said no"});
    assert_eq!(server.connect().await.exchange(&post).await.status(), 202);
    let result = &client.messages(&call).await[0]["result"];
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "the client refused: the user said no");
}

#[tokio::test]
async fn g1_42_a_client_that_cannot_be_asked_gets_a_result_with_the_reason() {
    let server = Server::start().await;
    let reasons = [
        (Some(server.session().await), "elicitation (form)"),
        (None, "the request came without a session"),
    ];
    for (session, reason) in reasons {
        let call = Post::legacy(session.as_deref(), "tools/call", act("optional", "ask_all name"));
        let result = server.result(&call).await;
        assert_eq!(result["isError"], true);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(reason), "{text}");
    }
}

#[tokio::test]
async fn without_a_session_a_response_is_refused() {
    let server = Server::start().await;
    let call = Post::legacy(None, "tools/call", act("optional", "ask"));
    let result = server.result(&call).await;
    // The question needs no capability, so it was asked, but it could not be sent.
    assert_eq!(
        result["content"][0]["text"],
        "the client refused: The client cannot be asked without a session and a stream"
    );
}

#[tokio::test]
async fn a_session_is_sent_log_messages_from_info_on() {
    let server = Server::start().await;
    let session = server.session().await;
    let (mut client, call) = begin(&server, &session, "tell debug info error").await;
    client.head().await;
    let messages = client.messages(&call).await;
    let levels: Vec<&Value> = messages
        .iter()
        .filter_map(|message| message["params"].get("level"))
        .collect();
    assert_eq!(levels, ["info", "error"]);
}

#[tokio::test]
async fn u_04_a_question_of_a_cancelled_call_is_cancelled() {
    let server = Server::start().await;
    let session = server.session_that_can_be_asked().await;
    let (mut client, call) = begin(&server, &session, "ask_or_not").await;
    client.head().await;
    let asked = request(&mut client).await;
    server.stage.released.count();
    let rest = client.messages(&call).await;
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert_eq!(rest[0]["method"], "notifications/cancelled");
    assert_eq!(rest[0]["params"]["requestId"], asked["id"]);
    assert_eq!(rest[1]["result"]["content"][0]["text"], "never mind");
    // Too late, and harmless.
    answer(&server, &session, &asked, json!({"action": "cancel"})).await;
}
