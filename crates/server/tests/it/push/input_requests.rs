//! Questions of tasks: on which stream they are asked, asked again, answered and withdrawn.

use super::{Client, form, next, next_status, no, question, result, yes};
use crate::{
    client::Event,
    request::Post,
    server::{Options, Server, text},
};
use longhaul_core::Store;
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// ext-tasks, the Inspector, FastMCP: they poll `tasks/get` and wait for the question on any stream.
#[tokio::test]
async fn a_client_that_polls_and_listens_is_asked_on_its_push_stream() {
    let (client, mut push, task) = Client::listening(form(), "ask").await;
    let asked = question(&mut push, &task).await;
    assert_eq!(client.status(&task).await, "input_required");
    assert_eq!(next_status(&mut push, &task).await, "input_required");
    client.answer(&asked, yes()).await;
    assert_eq!(client.answered(&task).await["content"]["sure"], true);
    // Neither asked again nor withdrawn: the next message is the end of the task.
    while next_status(&mut push, &task).await != "completed" {}
}

/// The TypeScript SDK and Python's `mcp`: they call `tasks/result` when they see `input_required`.
#[tokio::test]
async fn a_client_that_only_calls_tasks_result_is_asked_there() {
    let client = Client::with(form()).await;
    let task = client.create("ask").await;
    client.server.poll(&task, "input_required").await;
    let (post, mut stream) = client.wait(&task).await;
    let asked = question(&mut stream, &task).await;
    client.answer(&asked, no()).await;
    assert_eq!(result(&mut stream, &post).await, r#"{"action":"decline"}"#);
}

/// Asked on both, answered on the first: the second is cancelled, and no answer counts twice (invariant 4).
#[tokio::test]
async fn a_client_that_does_both_is_asked_on_both_and_one_answer_counts() {
    for first in [true, false] {
        let (client, mut push, task) = Client::listening(form(), "ask").await;
        let pushed = question(&mut push, &task).await;
        let (post, mut stream) = client.wait(&task).await;
        let again = question(&mut stream, &task).await;
        assert_ne!(pushed["id"], again["id"], "a fresh id for each delivery");
        let (answer, other) = if first { (&pushed, &again) } else { (&again, &pushed) };
        client.answer(answer, yes()).await;
        let cancelled = next(if first { &mut stream } else { &mut push }, "notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], other["id"]);
        client.answer(other, no()).await;
        assert!(result(&mut stream, &post).await.contains("accept"));
    }
}

/// A question is a row: whenever a stream opens it is there.
#[tokio::test]
async fn a_question_waits_for_a_stream_and_is_asked_again_on_the_next_one() {
    let client = Client::with(form()).await;
    let task = client.create("ask_two").await;
    client.server.poll(&task, "input_required").await;
    let mut push = client.listen().await;
    let lost = [question(&mut push, &task).await, question(&mut push, &task).await];
    drop(push);
    let mut push = client.listen().await;
    let again = [question(&mut push, &task).await, question(&mut push, &task).await];
    let ids = |two: &[Value; 2]| two.each_ref().map(|asked| asked["id"].clone());
    assert!(ids(&lost).iter().all(|id| !ids(&again).contains(id)));
    // An answer to a delivery whose stream was closed counts too.
    client.answer(&lost[0], yes()).await;
    let cancelled = next(&mut push, "notifications/cancelled").await;
    assert!(ids(&again).contains(&cancelled["params"]["requestId"]));
    let is_open = |asked: &&Value| asked["id"] != cancelled["params"]["requestId"];
    client.answer(again.iter().find(is_open).unwrap(), yes()).await;
    client.server.poll(&task, "completed").await;
}

/// Of several streams one carries, whichever thread comes first.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_push_streams_the_newer_one_carries_until_it_closes() {
    let client = Client::with(form()).await;
    let mut older = client.listen().await;
    assert_eq!(older.event().await, Some(Event::Prime));
    let mut newer = client.listen().await;
    let task = client.create("ask").await;
    let first = question(&mut newer, &task).await;
    assert_eq!(next_status(&mut newer, &task).await, "input_required");
    assert!(!older.has_news(), "one message, one stream");
    drop(newer);
    let second = question(&mut older, &task).await;
    assert_ne!(first["id"], second["id"]);
    client.answer(&second, yes()).await;
    client.server.poll(&task, "completed").await;
}

/// The streams of `tasks/result` may be many, and a question is shown once.
#[tokio::test]
async fn g1_32_many_wait_for_one_result_and_one_of_them_is_asked() {
    let client = Client::with(form()).await;
    let task = client.create("ask").await;
    let (post, mut first) = client.wait(&task).await;
    let asked = question(&mut first, &task).await;
    let (_, mut second) = client.wait(&task).await;
    let (_, mut third) = client.wait(&task).await;
    client.answer(&asked, yes()).await;
    // Nothing comes before the result.
    for stream in [&mut first, &mut second, &mut third] {
        assert!(result(stream, &post).await.contains("accept"));
    }
}

/// What one stream carried goes to one other when it is closed, and to the push stream only when no wait is open.
#[tokio::test]
async fn a_question_goes_to_the_next_wait_when_the_one_that_carried_it_is_left() {
    let (client, mut push, task) = Client::listening(form(), "ask").await;
    let mut asked = vec![question(&mut push, &task).await];
    let (post, mut first) = client.wait(&task).await;
    asked.push(question(&mut first, &task).await);
    let (_, mut second) = client.wait(&task).await;
    let (_, mut third) = client.wait(&task).await;
    let mut later = client.listen().await;
    drop(first);
    asked.push(question(&mut second, &task).await);
    drop(second);
    asked.push(question(&mut third, &task).await);
    let ids: BTreeSet<&str> = asked.iter().map(|asked| asked["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), asked.len(), "a fresh id for each delivery");
    client.answer(&asked[2], yes()).await;
    let taken_back = next(&mut third, "notifications/cancelled").await;
    assert_eq!(taken_back["params"]["requestId"], asked[3]["id"]);
    assert!(result(&mut third, &post).await.contains("accept"));
    let taken_back = next(&mut push, "notifications/cancelled").await;
    assert_eq!(taken_back["params"]["requestId"], asked[0]["id"]);
    // The newest push stream gets the status of the task, and no question.
    while next_status(&mut later, &task).await != "completed" {}
}

#[tokio::test]
async fn a_push_stream_is_asked_when_no_wait_is_open() {
    let client = Client::with(form()).await;
    let task = client.create("ask").await;
    let (_, mut waiting) = client.wait(&task).await;
    let first = question(&mut waiting, &task).await;
    let mut push = client.listen().await;
    drop(waiting);
    let second = question(&mut push, &task).await;
    assert_ne!(first["id"], second["id"]);
    client.answer(&second, yes()).await;
    client.server.poll(&task, "completed").await;
}

/// A held JSON answer cannot carry a question; the result comes all the same.
#[tokio::test]
async fn a_client_that_takes_no_stream_is_not_asked_there() {
    let client = Client::with(form()).await;
    let task = client.create("ask").await;
    let post = Post::on_task(&client.session, "tasks/result", &task).json_only();
    let mut held = client.server.send(&post).await;
    let mut push = client.listen().await;
    let asked = question(&mut push, &task).await;
    client.answer(&asked, yes()).await;
    let reply = held.reply().await.json();
    assert!(text(&reply["result"]).contains("accept"), "{reply}");
}

/// Only what its own `initialize` declared.
#[tokio::test]
async fn a_client_is_not_asked_what_it_did_not_declare() {
    let client = Client::with(form()).await;
    let other = client.another(json!({})).await;
    let task = client.create("ask").await;
    client.server.poll(&task, "input_required").await;
    let (post, mut stream) = other.wait(&task).await;
    let (_, mut asking) = client.wait(&task).await;
    let asked = question(&mut asking, &task).await;
    client.answer(&asked, yes()).await;
    assert!(result(&mut stream, &post).await.contains("accept"), "the result alone");
}

/// A later session that reads a task gets its messages, wherever the task was created.
#[tokio::test]
async fn a_task_is_followed_by_a_later_session() {
    let earlier = Client::with(form()).await;
    let task = earlier.create("ask").await;
    let later = earlier.another(form()).await;
    let mut push = later.listen().await;
    later.server.poll(&task, "input_required").await;
    assert_eq!(later.status(&task).await, "input_required");
    let asked = question(&mut push, &task).await;
    later.answer(&asked, yes()).await;
    later.server.poll(&task, "completed").await;
}

/// A question that needs no answer any more is withdrawn.
#[tokio::test]
async fn a_question_is_withdrawn_when_its_work_goes_on_or_is_cancelled() {
    for cancel in [true, false] {
        let (client, mut push, task) = Client::listening(form(), "ask_or_not").await;
        let asked = question(&mut push, &task).await;
        if cancel {
            let post = Post::on_task(&client.session, "tasks/cancel", &task);
            assert_eq!(client.server.result(&post).await["status"], "cancelled");
        } else {
            client.server.stage.released.count();
        }
        let taken_back = next(&mut push, "notifications/cancelled").await;
        assert_eq!(taken_back["params"]["requestId"], asked["id"]);
        let end = if cancel { "cancelled" } else { "completed" };
        while next_status(&mut push, &task).await != end {}
        // Too late: the answer is ignored.
        client.answer(&asked, yes()).await;
    }
}

#[tokio::test]
async fn a_client_may_refuse_and_the_work_continues() {
    let client = Client::with(form()).await;
    let mut push = client.listen().await;
    for (act, method) in [("ask", "elicitation/create"), ("sample", "sampling/createMessage")] {
        let task = client.create(act).await;
        let asked = next(&mut push, method).await;
        let refused = json!({"code": -1, "message": "no model today"});
        client.refuse(&asked, refused).await;
        let text = client.server.text_of(&task).await;
        assert!(text.contains("no model today"), "{text}");
    }
}

/// The session, the task and the question outlive the process.
#[tokio::test]
async fn a_question_is_asked_again_after_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let serve = async || Arc::new(Server::with(Options::with_store(Arc::clone(&store))).await);
    let mut client = Client::at(serve().await, form()).await;
    let mut push = client.listen().await;
    let task = client.create("ask_and_outlive").await;
    let before = question(&mut push, &task).await;
    Arc::into_inner(client.server).unwrap().stop().await;
    client.server = serve().await;
    let mut push = client.listen().await;
    let after = question(&mut push, &task).await;
    assert_ne!(before["id"], after["id"]);
    // Also the one from before counts.
    client.answer(&before, yes()).await;
    let cancelled = next(&mut push, "notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], after["id"]);
    client.server.poll(&task, "working").await;
}
