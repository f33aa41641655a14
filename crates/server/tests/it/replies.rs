//! Responses of legacy clients to requests of ours.

use crate::{request::Post, server::Server};
use serde_json::{Value, json};

/// A question of a task, and where it was put.
struct OpenQuestion {
    server: Server,
    session: String,
    task: String,
}

impl OpenQuestion {
    async fn new() -> Self {
        let server = Server::start().await;
        let session = server.session_that_can_be_asked().await;
        let task = server.legacy_task(&session, "ask").await;
        server.poll(&task, "input_required").await;
        Self { server, session, task }
    }

    /// A response to this delivery of the question.
    fn response(&self, delivery: u32, member: (&str, Value)) -> Post {
        let id = format!("{}.in-1.{delivery}", self.task);
        Post::response(&self.session, &json!(id), member)
    }

    async fn text(&self) -> String {
        self.server.text_of(&self.task).await
    }

    /// The answer, as the task repeats it.
    async fn answer(&self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }
}

#[tokio::test]
async fn the_first_response_to_any_delivery_is_the_answer_and_is_stored_before_it_is_accepted() {
    let asked = OpenQuestion::new().await;
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": asked.task}, "mine": 1});
    let accepted = json!({"action": "accept", "content": {"sure": true}, "_meta": related});
    for result in [accepted, json!({"action": "decline"})] {
        let response = asked.response(9, ("result", result));
        asked.server.accepted(&response).await;
    }
    // Kept as any generation would have given it.
    let kept = json!({"action": "accept", "content": {"sure": true}, "_meta": {"mine": 1}});
    assert_eq!(asked.answer().await, kept);
}

/// What does not fit cannot be told to the client: what has asked is told, and may ask again. Nothing of it is stored.
#[tokio::test]
async fn a_form_that_the_client_could_not_show_or_fill_in_is_refused_and_not_cancelled() {
    let error = json!({"code": -32603, "message": "no window"});
    let unfit = json!({"action": "accept", "content": {"sure": "yes"}});
    for (member, why) in [
        (("error", error), "no window"),
        (("result", unfit), "`sure` does not fit; it must be true or false"),
    ] {
        let asked = OpenQuestion::new().await;
        asked.server.accepted(&asked.response(1, member)).await;
        assert_eq!(asked.text().await, format!("the client refused: {why}"));
    }
}

#[tokio::test]
async fn g2_42_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open() {
    let asked = OpenQuestion::new().await;
    let unknown = json!({"action": "perhaps"});
    for garbled in [json!(12345), json!(null), json!([]), json!({}), unknown] {
        let response = asked.response(1, ("result", garbled));
        // Without an id: a response is not answered, its POST is.
        let reply = asked.server.send(&response).await.reply().await;
        assert_eq!(reply.error(), (400, -32602));
    }
    let declined = json!({"action": "decline"});
    let response = asked.response(1, ("result", declined.clone()));
    asked.server.accepted(&response).await;
    assert_eq!(asked.answer().await, declined);
}

#[tokio::test]
async fn responses_that_are_not_awaited_are_accepted() {
    let (server, session) = Server::with_session().await;
    for id in ["", "srv-1", "nobody.in-1.1", "00000000000000000000000000000000"] {
        let response = Post::response(&session, &json!(id), ("result", json!({})));
        server.accepted(&response).await;
    }
}
