//! Questions that a client answers with tasks, which we create, poll, fetch and cancel.

use super::{RELATED, answered, create, next, question, respond, result, wait, yes};
use crate::{client::Connection, server::Server};
use serde_json::{Value, json};

/// What a client of ours hosts itself.
fn hosting() -> Value {
    json!({"elicitation": {}, "tasks": {"cancel": {}, "requests": {"elicitation": {"create": {}}}}})
}

/// A client's task.
fn theirs(status: &str) -> Value {
    let at = "2026-11-20T09:00:00Z";
    json!({
        "taskId": "theirs-1", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": null, "pollInterval": 50,
    })
}

/// A question that lets the client make a task of it.
async fn hosted_question(stream: &mut Connection) -> Value {
    let asked = next(stream, "elicitation/create").await;
    assert!(asked["params"]["task"]["ttl"].is_u64(), "{asked}");
    asked
}

/// We create, poll, fetch.
#[tokio::test]
async fn a_client_may_make_a_task_of_a_question() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", hosting()).await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "ask").await;
    let asked = hosted_question(&mut push).await;
    respond(
        &server,
        &session,
        &asked,
        ("result", json!({"task": theirs("working")})),
    )
    .await;
    for status in ["working", "input_required"] {
        let poll = next(&mut push, "tasks/get").await;
        assert_eq!(poll["params"]["taskId"], "theirs-1");
        respond(&server, &session, &poll, ("result", theirs(status))).await;
    }
    // Another stream: the client works on it already and is not asked again there.
    let (post, mut stream) = wait(&server, &session, &task).await;
    let poll = next(&mut stream, "tasks/get").await;
    respond(&server, &session, &poll, ("result", theirs("completed"))).await;
    let fetch = next(&mut stream, "tasks/result").await;
    let related = json!({RELATED: {"taskId": "theirs-1"}});
    let answer = json!({"action": "accept", "content": {"sure": true}, "_meta": related});
    respond(&server, &session, &fetch, ("result", answer)).await;
    let text = result(&mut stream, &post).await;
    assert!(text.contains("accept") && !text.contains("theirs-1"), "{text}");
}

/// One task is enough: of two for the same question the second is cancelled, and a repeated answer counts once.
#[tokio::test]
async fn a_client_that_makes_two_tasks_of_a_question_is_asked_to_drop_one() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", hosting()).await;
    let task = create(&server, &session, "ask").await;
    server.poll(&task, "input_required").await;
    let mut push = server.listen(&session).await;
    let first = hosted_question(&mut push).await;
    let (_, mut stream) = wait(&server, &session, &task).await;
    let second = hosted_question(&mut stream).await;
    let hosted = |id: &str| {
        let mut task = theirs("working");
        (task["taskId"], task["pollInterval"]) = (json!(id), json!(60_000));
        ("result", json!({"task": task}))
    };
    respond(&server, &session, &first, hosted("one")).await;
    respond(&server, &session, &first, hosted("one")).await;
    respond(&server, &session, &second, hosted("two")).await;
    assert_eq!(next(&mut stream, "tasks/cancel").await["params"]["taskId"], "two");
}

/// A client that could make a task of it and answers at once is as good.
#[tokio::test]
async fn a_client_that_could_host_a_task_may_answer_at_once() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", hosting()).await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "ask").await;
    let asked = hosted_question(&mut push).await;
    respond(&server, &session, &asked, yes()).await;
    assert_eq!(answered(&server, &session, &task).await["action"], "accept");
}

/// An error of `tasks/result` is the error of the question.
#[tokio::test]
async fn a_clients_task_that_failed_is_a_question_that_was_refused() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", hosting()).await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "ask").await;
    let asked = hosted_question(&mut push).await;
    respond(&server, &session, &asked, ("result", json!({"task": theirs("failed")}))).await;
    let poll = next(&mut push, "tasks/get").await;
    respond(&server, &session, &poll, ("result", theirs("failed"))).await;
    let fetch = next(&mut push, "tasks/result").await;
    respond(
        &server,
        &session,
        &fetch,
        ("error", json!({"code": -1, "message": "no"})),
    )
    .await;
    let ended = server.poll(&task, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "the client refused: no");
}

/// A task whose question is closed is cancelled.
#[tokio::test]
async fn a_clients_task_is_cancelled_with_its_question() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", hosting()).await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "ask_or_not").await;
    let asked = hosted_question(&mut push).await;
    let mut working = theirs("working");
    working["pollInterval"] = json!(60_000);
    respond(&server, &session, &asked, ("result", json!({"task": working}))).await;
    server.stage.released.count();
    let cancel = next(&mut push, "tasks/cancel").await;
    assert_eq!(cancel["params"]["taskId"], "theirs-1");
    server.poll(&task, "completed").await;
}

/// If a client's task is lost or has no valid answer, its question is asked again without a task.
#[tokio::test]
async fn a_question_whose_client_task_is_lost_is_asked_without_one() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", hosting()).await;
    let mut push = server.listen(&session).await;
    let hosted = ("result", json!({"task": theirs("working")}));

    let task = create(&server, &session, "ask").await;
    let asked = hosted_question(&mut push).await;
    respond(&server, &session, &asked, hosted.clone()).await;
    let poll = next(&mut push, "tasks/get").await;
    respond(
        &server,
        &session,
        &poll,
        ("error", json!({"code": -32602, "message": "Task not found"})),
    )
    .await;
    let plain = question(&mut push, &task).await;
    respond(&server, &session, &plain, yes()).await;
    server.poll(&task, "completed").await;

    let task = create(&server, &session, "ask").await;
    let asked = hosted_question(&mut push).await;
    respond(&server, &session, &asked, hosted.clone()).await;
    let poll = next(&mut push, "tasks/get").await;
    respond(&server, &session, &poll, ("result", theirs("completed"))).await;
    let fetch = next(&mut push, "tasks/result").await;
    respond(&server, &session, &fetch, ("result", json!({"no": "answer"}))).await;
    let plain = question(&mut push, &task).await;
    respond(&server, &session, &plain, yes()).await;
    server.poll(&task, "completed").await;

    // Without a stream the client's task cannot be polled until there is one again.
    let task = create(&server, &session, "ask").await;
    let asked = hosted_question(&mut push).await;
    drop(push);
    respond(&server, &session, &asked, hosted).await;
    let mut push = server.listen(&session).await;
    let plain = loop {
        let message = push.pushed().await;
        match message["method"].as_str() {
            Some("tasks/get") => {
                let unknown = json!({"code": -32602, "message": "Task not found"});
                respond(&server, &session, &message, ("error", unknown)).await;
            }
            // The push stream may have been back before the first poll.
            Some("elicitation/create") if message["params"].get("task").is_none() => break message,
            _ => {}
        }
    };
    respond(&server, &session, &plain, yes()).await;
    server.poll(&task, "completed").await;
}
