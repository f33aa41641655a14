//! Responses of legacy clients to requests of ours.

use crate::{
    request::{Post, act_as_task},
    server::{Server, task_of},
};
use serde_json::{Value, json};

fn response(session: &str, id: &str, member: (&str, Value)) -> Post {
    let mut post = Post::legacy(Some(session), "", json!({}));
    post.body = json!({"jsonrpc": "2.0", "id": id, member.0: member.1});
    post
}

/// A task that asks, and the session that created it.
async fn asking(server: &Server) -> (String, String) {
    let session = server.session_that_can_be_asked().await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "ask"));
    let task = task_of(&server.result(&call).await);
    server.poll(&task, "input_required").await;
    (session, task)
}

/// The result of the task, as text.
async fn text_of(server: &Server, task: &str) -> Value {
    let done = server.poll(task, "completed").await;
    serde_json::from_str(done["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn the_first_response_to_any_delivery_is_the_answer_and_is_stored_before_it_is_accepted() {
    let server = Server::start().await;
    let (session, task) = asking(&server).await;
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": task}, "mine": 1});
    let accepted = json!({"action": "accept", "content": {"sure": true}, "_meta": related});
    let mut client = server.connect().await;
    for member in [accepted, json!({"action": "decline"})] {
        let reply = client
            .exchange(&response(&session, &format!("{task}.in-1.9"), ("result", member)))
            .await;
        assert_eq!((reply.status(), reply.body.as_str()), (202, ""));
    }
    // Kept as any generation would have given it.
    let kept = json!({"action": "accept", "content": {"sure": true}, "_meta": {"mine": 1}});
    assert_eq!(text_of(&server, &task).await, kept);
}

#[tokio::test]
async fn a_form_that_the_client_could_not_show_is_refused_and_not_cancelled() {
    let server = Server::start().await;
    let (session, task) = asking(&server).await;
    let error = json!({"code": -32603, "message": "no window"});
    let reply = server
        .connect()
        .await
        .exchange(&response(&session, &format!("{task}.in-1.1"), ("error", error)))
        .await;
    assert_eq!(reply.status(), 202);
    let ended = server.poll(&task, "completed").await;
    let text = &ended["result"]["content"][0]["text"];
    assert_eq!(text, "the client refused: no window");
}

#[tokio::test]
async fn g2_42_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open() {
    let server = Server::start().await;
    let (session, task) = asking(&server).await;
    let id = format!("{task}.in-1.1");
    for garbled in [
        json!(12345),
        json!(null),
        json!([]),
        json!({}),
        json!({"action": "perhaps"}),
    ] {
        let mut client = server.connect().await;
        client
            .send(&response(&session, &id, ("result", garbled)).to_bytes())
            .await;
        // Without an id: a response is not answered, its POST is.
        assert_eq!(client.reply().await.error(), (400, -32602));
    }
    let declined = response(&session, &id, ("result", json!({"action": "decline"})));
    assert_eq!(server.connect().await.exchange(&declined).await.status(), 202);
    assert_eq!(text_of(&server, &task).await, json!({"action": "decline"}));
}

/// The client cannot be told: what has asked is, and may ask again. Nothing that does not fit is stored.
#[tokio::test]
async fn values_that_do_not_fit_the_form_are_an_error_of_the_question() {
    let server = Server::start().await;
    let (session, task) = asking(&server).await;
    let unfit = json!({"action": "accept", "content": {"sure": "yes"}});
    let post = response(&session, &format!("{task}.in-1.1"), ("result", unfit));
    assert_eq!(server.connect().await.exchange(&post).await.status(), 202);
    let ended = server.poll(&task, "completed").await;
    let text = &ended["result"]["content"][0]["text"];
    assert_eq!(
        text,
        "the client refused: `sure` does not fit; it must be true or false"
    );
}

#[tokio::test]
async fn responses_that_are_not_awaited_are_accepted() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut client = server.connect().await;
    for id in ["", "srv-1", "nobody.in-1.1", "00000000000000000000000000000000"] {
        let post = response(&session, id, ("result", json!({})));
        assert_eq!(client.exchange(&post).await.status(), 202, "{id}");
    }
}
