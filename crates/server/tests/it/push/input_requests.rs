//! Questions of tasks: on which stream they are asked, asked again, answered and withdrawn.

use super::{answered, create, form, next, next_status, question, respond, result, status, wait, yes};
use crate::{
    client::Event,
    request::Post,
    server::{Options, Server},
};
use longhaul_core::Store;
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// ext-tasks, the Inspector, FastMCP: they poll `tasks/get` and wait for the question on any stream.
#[tokio::test]
async fn a_client_that_polls_and_listens_is_asked_on_its_push_stream() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "ask").await;
    let asked = question(&mut push, &task).await;
    assert_eq!(status(&server, &session, &task).await, "input_required");
    assert_eq!(next_status(&mut push, &task).await, "input_required");
    respond(&server, &session, &asked, yes()).await;
    assert_eq!(answered(&server, &session, &task).await["content"]["sure"], true);
    // Neither asked again nor withdrawn: the next message is the end of the task.
    while next_status(&mut push, &task).await != "completed" {}
}

/// The TypeScript SDK and Python's `mcp`: they call `tasks/result` when they see `input_required`.
#[tokio::test]
async fn a_client_that_only_calls_tasks_result_is_asked_there() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let task = create(&server, &session, "ask").await;
    server.poll(&task, "input_required").await;
    let (post, mut stream) = wait(&server, &session, &task).await;
    let asked = question(&mut stream, &task).await;
    respond(&server, &session, &asked, ("result", json!({"action": "decline"}))).await;
    assert_eq!(result(&mut stream, &post).await, r#"{"action":"decline"}"#);
}

/// Asked on both, answered on the first: the second is cancelled, and no answer counts twice (invariant 4).
#[tokio::test]
async fn a_client_that_does_both_is_asked_on_both_and_one_answer_counts() {
    for first in [true, false] {
        let server = Server::start().await;
        let session = server.session_with("2025-11-25", form()).await;
        let mut push = server.listen(&session).await;
        let task = create(&server, &session, "ask").await;
        let pushed = question(&mut push, &task).await;
        let (post, mut stream) = wait(&server, &session, &task).await;
        let again = question(&mut stream, &task).await;
        assert_ne!(pushed["id"], again["id"], "a fresh id for each delivery");
        let (answer, other) = if first { (&pushed, &again) } else { (&again, &pushed) };
        respond(&server, &session, answer, yes()).await;
        let cancelled = next(if first { &mut stream } else { &mut push }, "notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], other["id"]);
        respond(&server, &session, other, ("result", json!({"action": "decline"}))).await;
        assert!(result(&mut stream, &post).await.contains("accept"));
    }
}

/// A question is a row: whenever a stream opens it is there.
#[tokio::test]
async fn a_question_waits_for_a_stream_and_is_asked_again_on_the_next_one() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let task = create(&server, &session, "ask_two").await;
    server.poll(&task, "input_required").await;
    let mut push = server.listen(&session).await;
    let lost = [question(&mut push, &task).await, question(&mut push, &task).await];
    drop(push);
    let mut push = server.listen(&session).await;
    let again = [question(&mut push, &task).await, question(&mut push, &task).await];
    let ids = |two: &[Value; 2]| two.each_ref().map(|asked| asked["id"].clone());
    assert!(ids(&lost).iter().all(|id| !ids(&again).contains(id)));
    // An answer to a delivery whose stream was closed counts too.
    respond(&server, &session, &lost[0], yes()).await;
    let cancelled = next(&mut push, "notifications/cancelled").await;
    assert!(ids(&again).contains(&cancelled["params"]["requestId"]));
    let open = again
        .iter()
        .find(|asked| asked["id"] != cancelled["params"]["requestId"]);
    respond(&server, &session, open.unwrap(), yes()).await;
    server.poll(&task, "completed").await;
}

/// Of several streams one carries.
#[tokio::test]
async fn of_two_push_streams_the_newer_one_carries_until_it_closes() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let mut older = server.listen(&session).await;
    assert_eq!(older.event().await, Some(Event::Prime));
    let mut newer = server.listen(&session).await;
    let task = create(&server, &session, "ask").await;
    let first = question(&mut newer, &task).await;
    assert_eq!(next_status(&mut newer, &task).await, "input_required");
    assert!(!older.has_news(), "one message, one stream");
    drop(newer);
    let second = question(&mut older, &task).await;
    assert_ne!(first["id"], second["id"]);
    respond(&server, &session, &second, yes()).await;
    server.poll(&task, "completed").await;
}

/// The streams of `tasks/result` may be many, and a question is shown once.
#[tokio::test]
async fn g1_32_many_wait_for_one_result_and_one_of_them_is_asked() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let task = create(&server, &session, "ask").await;
    let (post, mut first) = wait(&server, &session, &task).await;
    let asked = question(&mut first, &task).await;
    let (_, mut second) = wait(&server, &session, &task).await;
    let (_, mut third) = wait(&server, &session, &task).await;
    respond(&server, &session, &asked, yes()).await;
    // Nothing comes before the result.
    for stream in [&mut first, &mut second, &mut third] {
        assert!(result(stream, &post).await.contains("accept"));
    }
}

/// What one stream carried goes to one other when it is closed, and to the push stream only when no wait is open.
#[tokio::test]
async fn a_question_goes_to_the_next_wait_when_the_one_that_carried_it_is_left() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "ask").await;
    let mut asked = vec![question(&mut push, &task).await];
    let (post, mut first) = wait(&server, &session, &task).await;
    asked.push(question(&mut first, &task).await);
    let (_, mut second) = wait(&server, &session, &task).await;
    let (_, mut third) = wait(&server, &session, &task).await;
    let mut later = server.listen(&session).await;
    drop(first);
    asked.push(question(&mut second, &task).await);
    drop(second);
    asked.push(question(&mut third, &task).await);
    let ids: BTreeSet<&str> = asked.iter().map(|asked| asked["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), asked.len(), "a fresh id for each delivery");
    respond(&server, &session, &asked[2], yes()).await;
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
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let task = create(&server, &session, "ask").await;
    let (_, mut waiting) = wait(&server, &session, &task).await;
    let first = question(&mut waiting, &task).await;
    let mut push = server.listen(&session).await;
    drop(waiting);
    let second = question(&mut push, &task).await;
    assert_ne!(first["id"], second["id"]);
    respond(&server, &session, &second, yes()).await;
    server.poll(&task, "completed").await;
}

/// A held JSON answer cannot carry a question; the result comes all the same.
#[tokio::test]
async fn a_client_that_takes_no_stream_is_not_asked_there() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let task = create(&server, &session, "ask").await;
    let post = Post::legacy(Some(&session), "tasks/result", json!({"taskId": task})).with("Accept", "application/json");
    let mut held = server.connect().await;
    held.send(&post.to_bytes()).await;
    let mut push = server.listen(&session).await;
    let asked = question(&mut push, &task).await;
    respond(&server, &session, &asked, yes()).await;
    assert!(
        held.reply().await.json()["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("accept")
    );
}

/// Only what its own `initialize` declared.
#[tokio::test]
async fn a_client_is_not_asked_what_it_did_not_declare() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let other = server.session().await;
    let task = create(&server, &session, "ask").await;
    server.poll(&task, "input_required").await;
    let (post, mut stream) = wait(&server, &other, &task).await;
    let (_, mut asking) = wait(&server, &session, &task).await;
    let asked = question(&mut asking, &task).await;
    respond(&server, &session, &asked, yes()).await;
    assert!(result(&mut stream, &post).await.contains("accept"), "the result alone");
}

/// A later session that reads a task gets its messages, wherever the task was created.
#[tokio::test]
async fn a_task_is_followed_by_a_later_session() {
    let server = Server::start().await;
    let earlier = server.session_with("2025-11-25", form()).await;
    let task = create(&server, &earlier, "ask").await;
    let later = server.session_with("2025-11-25", form()).await;
    let mut push = server.listen(&later).await;
    server.poll(&task, "input_required").await;
    assert_eq!(status(&server, &later, &task).await, "input_required");
    let asked = question(&mut push, &task).await;
    respond(&server, &later, &asked, yes()).await;
    server.poll(&task, "completed").await;
}

/// A question that needs no answer any more is withdrawn.
#[tokio::test]
async fn a_question_is_withdrawn_when_its_work_goes_on_or_is_cancelled() {
    for cancel in [true, false] {
        let server = Server::start().await;
        let session = server.session_with("2025-11-25", form()).await;
        let mut push = server.listen(&session).await;
        let task = create(&server, &session, "ask_or_not").await;
        let asked = question(&mut push, &task).await;
        if cancel {
            let post = Post::legacy(Some(&session), "tasks/cancel", json!({"taskId": task}));
            assert_eq!(server.result(&post).await["status"], "cancelled");
        } else {
            server.stage.released.count();
        }
        let taken_back = next(&mut push, "notifications/cancelled").await;
        assert_eq!(taken_back["params"]["requestId"], asked["id"]);
        let end = if cancel { "cancelled" } else { "completed" };
        while next_status(&mut push, &task).await != end {}
        // Too late: the answer is ignored.
        respond(&server, &session, &asked, yes()).await;
    }
}

#[tokio::test]
async fn a_client_may_refuse_and_the_work_continues() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let mut push = server.listen(&session).await;
    let refused = json!({"code": -1, "message": "no model today"});
    let task = create(&server, &session, "ask").await;
    let asked = question(&mut push, &task).await;
    respond(&server, &session, &asked, ("error", refused.clone())).await;
    assert_refused(&server, &task).await;
    let task = create(&server, &session, "sample").await;
    let asked = next(&mut push, "sampling/createMessage").await;
    respond(&server, &session, &asked, ("error", refused)).await;
    assert_refused(&server, &task).await;
}

async fn assert_refused(server: &Server, task: &str) {
    let ended = server.poll(task, "completed").await;
    assert!(
        ended["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("no model today")
    );
}

/// The session, the task and the question outlive the process.
#[tokio::test]
async fn a_question_is_asked_again_after_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let on = || Options {
        store: Arc::clone(&store),
        ..Options::default()
    };
    let server = Server::with(on()).await;
    let session = server.session_with("2025-11-25", form()).await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "ask_and_outlive").await;
    let before = question(&mut push, &task).await;
    server.stop().await;
    let server = Server::with(on()).await;
    let mut push = server.listen(&session).await;
    let after = question(&mut push, &task).await;
    assert_ne!(before["id"], after["id"]);
    // Also the one from before counts.
    respond(&server, &session, &before, yes()).await;
    assert_eq!(
        next(&mut push, "notifications/cancelled").await["params"]["requestId"],
        after["id"]
    );
    server.poll(&task, "working").await;
}
