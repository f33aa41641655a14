//! Plain calls of legacy clients that ask: by requests on the stream of the call.

use crate::{
    client::Connection,
    request::Post,
    rounds::accept,
    server::{Server, text},
};
use serde_json::{Value, json};

/// The next request on a stream.
pub(crate) async fn request(client: &mut Connection) -> Value {
    let request = client.pushed().await;
    assert!(request.get("id").is_some(), "{request}");
    request
}

async fn begin(server: &Server, session: &str, acting: &str) -> (Connection, Post) {
    let call = Post::legacy_call(Some(session), "optional", acting);
    (server.stream(&call).await, call)
}

#[tokio::test]
async fn questions_are_requests_on_the_stream_of_the_call() {
    let server = Server::start().await;
    let session = server.session_that_can_be_asked().await;
    let (mut client, call) = begin(&server, &session, "ask_all name town").await;
    let (name, town) = (request(&mut client).await, request(&mut client).await);
    assert_ne!(name["id"], town["id"]);
    assert!(name["params"].get("_meta").is_none(), "nothing was announced: {name}");
    server.answer(&session, &town, accept("town", "Ulm")).await;
    server.answer(&session, &name, accept("name", "Ann")).await;
    let result = client.only_result(&call).await;
    let answers: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(answers, json!([accept("name", "Ann"), accept("town", "Ulm")]));
}

#[tokio::test]
async fn each_answer_leads_to_the_next_question() {
    let server = Server::start().await;
    let session = server.session_that_can_be_asked().await;
    let (mut client, call) = begin(&server, &session, "ask_each name town").await;
    for name in ["name", "town"] {
        let asked = request(&mut client).await;
        assert_eq!(asked["params"]["message"], format!("What is your {name}?"));
        server.answer(&session, &asked, accept(name, "x")).await;
    }
    client.only_result(&call).await;
}

#[tokio::test]
async fn a_client_that_refuses_is_not_asked_again() {
    let server = Server::start().await;
    let session = server.session_that_can_be_asked().await;
    let (mut client, call) = begin(&server, &session, "sample").await;
    let asked = request(&mut client).await;
    let error = json!({"code": -1, "message": "the user said no"});
    server
        .accepted(&Post::response(&session, &asked["id"], ("error", error)))
        .await;
    let result = client.only_result(&call).await;
    assert_eq!(result["isError"], true);
    assert_eq!(text(&result), "the client refused: the user said no");
}

#[tokio::test]
async fn g1_42_a_client_that_cannot_be_asked_gets_a_result_with_the_reason() {
    let (server, session) = Server::with_session().await;
    let call = |session| Post::legacy_call(session, "optional", "ask_all name");
    let undeclared = ["the client has not declared", "elicitation (form)"];
    let sessionless = ["the request came", "without a session"];
    let of_revision = call(None).with("MCP-Protocol-Version", "2025-11-25");
    for (call, reason) in [
        (call(Some(&session)), undeclared),
        (call(None), sessionless),
        (of_revision, sessionless),
    ] {
        for call in [call.clone(), call.json_only()] {
            let result = server.result(&call).await;
            assert_eq!(result["isError"], true);
            assert!(reason.iter().all(|part| text(&result).contains(part)), "{result}");
        }
    }
}

#[tokio::test]
async fn without_a_session_a_response_is_refused() {
    let server = Server::start().await;
    let call = Post::legacy_call(None, "optional", "ask");
    // The question needs no capability, so it was asked, but it could not be sent.
    let refused = "the client refused: The client cannot be asked without a session and a stream";
    assert_eq!(text(&server.result(&call).await), refused);
}

#[tokio::test]
async fn a_session_is_sent_log_messages_from_info_on() {
    let (server, session) = Server::with_session().await;
    let (mut client, call) = begin(&server, &session, "tell debug info error").await;
    let messages = client.messages(&call).await;
    let levels = messages.iter().filter_map(|message| message["params"].get("level"));
    assert_eq!(levels.collect::<Vec<_>>(), ["info", "error"]);
}

#[tokio::test]
async fn u_04_a_question_of_a_cancelled_call_is_cancelled() {
    let server = Server::start().await;
    let session = server.session_that_can_be_asked().await;
    let (mut client, call) = begin(&server, &session, "ask_or_not").await;
    let asked = request(&mut client).await;
    server.stage.released.count();
    let rest = client.messages(&call).await;
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert_eq!(rest[0]["method"], "notifications/cancelled");
    assert_eq!(rest[0]["params"]["requestId"], asked["id"]);
    assert_eq!(text(&rest[1]["result"]), "never mind");
    // Too late, and harmless.
    server.answer(&session, &asked, json!({"action": "cancel"})).await;
}
