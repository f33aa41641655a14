//! Questions that a client answers with tasks, which we create, poll, fetch and cancel.

use super::{Client, RELATED, next, question, result, yes};
use crate::client::Connection;
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

/// A client's task that is not polled soon.
fn unpolled(id: &str) -> Value {
    let mut task = theirs("working");
    (task["taskId"], task["pollInterval"]) = (json!(id), json!(60_000));
    json!({"task": task})
}

/// A question that lets the client make a task of it.
async fn hosted_question(stream: &mut Connection) -> Value {
    let asked = next(stream, "elicitation/create").await;
    assert!(asked["params"]["task"]["ttl"].is_u64(), "{asked}");
    asked
}

/// A client with a push stream, on which the question of a task was put.
async fn asking(act: &str) -> (Client, Connection, String, Value) {
    let (client, mut push, task) = Client::listening(hosting(), act).await;
    let asked = hosted_question(&mut push).await;
    (client, push, task, asked)
}

/// We create, poll, fetch.
#[tokio::test]
async fn a_client_may_make_a_task_of_a_question() {
    let (client, mut push, task, asked) = asking("ask").await;
    client.answer(&asked, json!({"task": theirs("working")})).await;
    for status in ["working", "input_required"] {
        let poll = next(&mut push, "tasks/get").await;
        assert_eq!(poll["params"]["taskId"], "theirs-1");
        client.answer(&poll, theirs(status)).await;
    }
    // Another stream: the client works on it already and is not asked again there.
    let (post, mut stream) = client.wait(&task).await;
    let poll = next(&mut stream, "tasks/get").await;
    client.answer(&poll, theirs("completed")).await;
    let fetch = next(&mut stream, "tasks/result").await;
    let related = json!({RELATED: {"taskId": "theirs-1"}});
    let answer = json!({"action": "accept", "content": {"sure": true}, "_meta": related});
    client.answer(&fetch, answer).await;
    let text = result(&mut stream, &post).await;
    assert!(text.contains("accept") && !text.contains("theirs-1"), "{text}");
}

/// One task is enough: of two for the same question the second is cancelled, and a repeated answer counts once.
#[tokio::test]
async fn a_client_that_makes_two_tasks_of_a_question_is_asked_to_drop_one() {
    let client = Client::with(hosting()).await;
    let task = client.create("ask").await;
    client.server.poll(&task, "input_required").await;
    let mut push = client.listen().await;
    let first = hosted_question(&mut push).await;
    let (_, mut stream) = client.wait(&task).await;
    let second = hosted_question(&mut stream).await;
    for (asked, id) in [(&first, "one"), (&first, "one"), (&second, "two")] {
        client.answer(asked, unpolled(id)).await;
    }
    assert_eq!(next(&mut stream, "tasks/cancel").await["params"]["taskId"], "two");
}

/// A client that could make a task of it and answers at once is as good.
#[tokio::test]
async fn a_client_that_could_host_a_task_may_answer_at_once() {
    let (client, _push, task, asked) = asking("ask").await;
    client.answer(&asked, yes()).await;
    assert_eq!(client.answered(&task).await["action"], "accept");
}

/// An error of `tasks/result` is the error of the question.
#[tokio::test]
async fn a_clients_task_that_failed_is_a_question_that_was_refused() {
    let (client, mut push, task, asked) = asking("ask").await;
    client.answer(&asked, json!({"task": theirs("failed")})).await;
    let poll = next(&mut push, "tasks/get").await;
    client.answer(&poll, theirs("failed")).await;
    let fetch = next(&mut push, "tasks/result").await;
    client.refuse(&fetch, json!({"code": -1, "message": "no"})).await;
    assert_eq!(client.server.text_of(&task).await, "the client refused: no");
}

/// A task whose question is closed is cancelled.
#[tokio::test]
async fn a_clients_task_is_cancelled_with_its_question() {
    let (client, mut push, task, asked) = asking("ask_or_not").await;
    client.answer(&asked, unpolled("theirs-1")).await;
    client.server.stage.released.count();
    let cancel = next(&mut push, "tasks/cancel").await;
    assert_eq!(cancel["params"]["taskId"], "theirs-1");
    client.server.poll(&task, "completed").await;
}

/// If a client's task is lost or has no valid answer, its question is asked again without a task.
#[tokio::test]
async fn a_question_whose_client_task_is_lost_is_asked_without_one() {
    let hosted = || json!({"task": theirs("working")});
    let unknown = || json!({"code": -32602, "message": "Task not found"});
    for is_lost in [true, false] {
        let (client, mut push, task, asked) = asking("ask").await;
        client.answer(&asked, hosted()).await;
        let poll = next(&mut push, "tasks/get").await;
        if is_lost {
            client.refuse(&poll, unknown()).await;
        } else {
            client.answer(&poll, theirs("completed")).await;
            let fetch = next(&mut push, "tasks/result").await;
            client.answer(&fetch, json!({"no": "answer"})).await;
        }
        let plain = question(&mut push, &task).await;
        client.answer(&plain, yes()).await;
        client.server.poll(&task, "completed").await;
    }

    // Without a stream the client's task cannot be polled until there is one again.
    let (client, push, task, asked) = asking("ask").await;
    drop(push);
    client.answer(&asked, hosted()).await;
    let mut push = client.listen().await;
    let plain = loop {
        let message = push.pushed().await;
        match message["method"].as_str() {
            Some("tasks/get") => client.refuse(&message, unknown()).await,
            // The push stream may have been back before the first poll.
            Some("elicitation/create") if message["params"].get("task").is_none() => break message,
            _ => {}
        }
    };
    client.answer(&plain, yes()).await;
    client.server.poll(&task, "completed").await;
}
