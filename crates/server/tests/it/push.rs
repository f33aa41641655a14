//! What reaches legacy clients of every habit: those that poll and listen, those that call `tasks/result`, those that do both
//! (conformance.md 4b).

use crate::{
    client::{Connection, Event},
    request::{Post, act_as_task},
    server::{Options, Server, task_of},
};
use longhaul_core::Store;
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn form() -> Value {
    json!({"elicitation": {}, "sampling": {}})
}

/// What a client of ours hosts itself.
fn hosting() -> Value {
    json!({"elicitation": {}, "tasks": {"cancel": {}, "requests": {"elicitation": {"create": {}}}}})
}

async fn create(server: &Server, session: &str, act: &str) -> String {
    let call = Post::legacy(Some(session), "tools/call", act_as_task("optional", act)).progress_token(json!("p-1"));
    task_of(&server.result(&call).await)
}

async fn status(server: &Server, session: &str, task: &str) -> Value {
    let get = Post::legacy(Some(session), "tasks/get", json!({"taskId": task}));
    server.result(&get).await["status"].clone()
}

/// The stream of a `tasks/result`, and the request.
async fn wait(server: &Server, session: &str, task: &str) -> (Post, Connection) {
    let post = Post::legacy(Some(session), "tasks/result", json!({"taskId": task})).id(json!("wait"));
    let mut client = server.connect().await;
    client.send(&post.to_bytes()).await;
    assert!(client.head().await.is_stream());
    (post, client)
}

/// A client's response to a request of the server's.
async fn respond(server: &Server, session: &str, request: &Value, said: (&str, Value)) {
    let mut post = Post::legacy(Some(session), "", json!({}));
    post.body = json!({"jsonrpc": "2.0", "id": request["id"], said.0: said.1});
    let reply = server.connect().await.exchange(&post).await;
    assert_eq!((reply.status(), reply.body.as_str()), (202, ""));
}

fn yes() -> (&'static str, Value) {
    ("result", json!({"action": "accept", "content": {"sure": true}}))
}

/// The next message of `method`; status notifications may come at any time before.
async fn next(stream: &mut Connection, method: &str) -> Value {
    loop {
        let message = stream.pushed().await;
        if message["method"] == method {
            return message;
        }
        assert_eq!(message["method"], "notifications/tasks/status", "{message}");
    }
}

async fn question(stream: &mut Connection, task: &str) -> Value {
    let question = next(stream, "elicitation/create").await;
    assert_eq!(question["params"]["_meta"][RELATED]["taskId"], task, "G1-36");
    assert!(question["params"].get("task").is_none(), "the client hosts no tasks");
    question
}

async fn next_status(stream: &mut Connection, task: &str) -> Value {
    let message = next(stream, "notifications/tasks/status").await;
    assert_eq!(message["params"]["taskId"], task);
    assert!(message["params"].get("_meta").is_none(), "G1-45");
    message["params"]["status"].clone()
}

async fn result(stream: &mut Connection, post: &Post) -> String {
    let messages = stream.messages(post).await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages[0]["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Its answer, as `ask` repeats it.
async fn answered(server: &Server, session: &str, task: &str) -> Value {
    server.poll(task, "completed").await;
    let (post, mut client) = (
        Post::legacy(Some(session), "tasks/result", json!({"taskId": task})),
        server.connect().await,
    );
    let result = client.result(&post).await;
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// ext-tasks, the Inspector, FastMCP: they poll `tasks/get` and wait for the question on any stream (G1-35, G1-38, G1-43).
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
    // Neither asked again nor taken back: what comes next is that it is over.
    while next_status(&mut push, &task).await != "completed" {}
}

/// The TypeScript SDK and Python's `mcp`: they call `tasks/result` when they see `input_required` (G1-34, G1-37).
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

/// Asked on both, answered on the first: the second is told, and no answer counts twice (G1-40, invariant 4).
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

/// A question is a row: whenever a stream opens it is there (G1-40).
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
    // An answer to a delivery whose stream has gone counts too.
    respond(&server, &session, &lost[0], yes()).await;
    let cancelled = next(&mut push, "notifications/cancelled").await;
    assert!(ids(&again).contains(&cancelled["params"]["requestId"]));
    let open = again
        .iter()
        .find(|asked| asked["id"] != cancelled["params"]["requestId"]);
    respond(&server, &session, open.unwrap(), yes()).await;
    server.poll(&task, "completed").await;
}

/// G1-39, T-10: of several streams one carries.
#[tokio::test]
async fn of_two_push_streams_the_newer_one_carries_until_it_goes() {
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

/// The streams of `tasks/result` are many, and the newest carries.
#[tokio::test]
async fn g1_32_many_wait_for_one_result_and_one_of_them_is_asked() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let task = create(&server, &session, "ask").await;
    let (post, mut first) = wait(&server, &session, &task).await;
    let asked = question(&mut first, &task).await;
    let (_, mut second) = wait(&server, &session, &task).await;
    question(&mut second, &task).await;
    respond(&server, &session, &asked, yes()).await;
    next(&mut second, "notifications/cancelled").await;
    let results = [result(&mut first, &post).await, result(&mut second, &post).await];
    assert_eq!(results[0], results[1]);
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

/// G1-42: only what its own `initialize` declared.
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

/// A later session that asks about a task hears of it, wherever the task was created (conformance.md 4c).
#[tokio::test]
async fn a_task_is_taken_up_by_a_later_session() {
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

/// G1-40: a question that nobody needs answered is taken back.
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
        // Too late, and nobody's business any more.
        respond(&server, &session, &asked, yes()).await;
    }
}

#[tokio::test]
async fn a_client_that_cannot_answer_says_so_and_the_work_goes_on() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let mut push = server.listen(&session).await;
    let refused = json!({"code": -1, "message": "no model today"});
    let task = create(&server, &session, "ask").await;
    let asked = question(&mut push, &task).await;
    respond(&server, &session, &asked, ("error", refused.clone())).await;
    assert_eq!(answered(&server, &session, &task).await, json!({"action": "cancel"}));
    let task = create(&server, &session, "sample").await;
    let asked = next(&mut push, "sampling/createMessage").await;
    respond(&server, &session, &asked, ("error", refused)).await;
    let ended = server.poll(&task, "completed").await;
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

/// G1-46: the creating call's token, rising, wherever its session listens; never for another session.
#[tokio::test]
async fn progress_goes_on_after_the_task_was_created() {
    let server = Server::start().await;
    let session = server.session_with("2025-11-25", form()).await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "report 1 2 2 3").await;
    let figure = async |stream: &mut Connection, figure: u64| {
        let news = next(stream, "notifications/progress").await;
        assert_eq!(news["params"]["progress"], figure, "{news}");
        assert_eq!(news["params"]["progressToken"], "p-1");
        assert_eq!(news["params"]["_meta"][RELATED]["taskId"], task.as_str());
        server.stage.released.count();
    };
    figure(&mut push, 1).await;
    let stranger = server.session().await;
    let (post, mut strange) = wait(&server, &stranger, &task).await;
    figure(&mut push, 2).await;
    // The second 2 is told to nobody.
    let (_, mut stream) = wait(&server, &session, &task).await;
    server.stage.released.count();
    figure(&mut stream, 3).await;
    assert_eq!(result(&mut stream, &post).await, "done");
    assert_eq!(result(&mut strange, &post).await, "done");
}

/// A wait that is called off carries no longer; what is told goes where it went before.
#[tokio::test]
async fn the_push_stream_carries_again_when_a_wait_is_over() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "report 1 2").await;
    assert_eq!(next(&mut push, "notifications/progress").await["params"]["progress"], 1);
    let (_, mut stream) = wait(&server, &session, &task).await;
    let cancelled = Post::legacy(Some(&session), "notifications/cancelled", json!({"requestId": "wait"})).without_id();
    assert_eq!(server.connect().await.exchange(&cancelled).await.status(), 202);
    assert_eq!(stream.message().await, None);
    server.stage.released.count();
    assert_eq!(next(&mut push, "notifications/progress").await["params"]["progress"], 2);
}

/// U-08: from the level on that the session has set, tied to the task (C-23).
#[tokio::test]
async fn log_messages_are_heard_from_the_level_on_that_a_session_has_set() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut push = server.listen(&session).await;
    let task = create(&server, &session, "log 3").await;
    let heard = async |stream: &mut Connection, nth: u64, level: &str| {
        let log = next(stream, "notifications/message").await;
        assert_eq!(log["params"]["level"], level, "{log}");
        assert_eq!(log["params"]["data"]["nth"], nth, "{log}");
        assert_eq!(log["params"]["_meta"][RELATED]["taskId"], task.as_str());
    };
    let set = async |level: Value| {
        let post = Post::legacy(Some(&session), "logging/setLevel", json!({"level": level}));
        server.connect().await.exchange(&post).await
    };
    // Whoever hears of the task hears its log.
    next(&mut push, "notifications/tasks/status").await;
    server.stage.released.count();
    heard(&mut push, 1, "info").await;
    heard(&mut push, 1, "error").await;
    assert_eq!(set(json!("error")).await.json()["result"], json!({}));
    assert_eq!(set(json!("loud")).await.error(), (200, -32602));
    server.stage.released.count();
    heard(&mut push, 2, "error").await;
    assert_eq!(set(json!("debug")).await.json()["result"], json!({}));
    let (_, mut stream) = wait(&server, &session, &task).await;
    server.stage.released.count();
    for level in ["debug", "info", "error"] {
        heard(&mut stream, 3, level).await;
    }
}

/// G1-43: not every change, but the last one always; and nothing for tasks of others.
#[tokio::test]
async fn statuses_are_told_while_a_push_stream_is_open() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut push = server.listen(&session).await;
    let other = server.session().await;
    create(&server, &other, "status other").await;
    let task = create(&server, &session, "status hello").await;
    let news = next(&mut push, "notifications/tasks/status").await;
    assert_eq!(news["params"]["taskId"], task.as_str());
    assert_eq!(news["params"]["statusMessage"], "hello");
    server.stage.released.count();
    assert_eq!(next_status(&mut push, &task).await, "completed");
    let failed = create(&server, &session, "refuse").await;
    assert_eq!(next_status(&mut push, &failed).await, "failed");
}

/// Lists that change and resources that are watched.
#[tokio::test]
async fn lists_and_watched_resources_are_told_on_a_push_stream() {
    let server = Server::start().await;
    let capabilities = server.result(&Post::initialize("2025-11-25")).await["capabilities"].clone();
    assert_eq!(capabilities["tools"], json!({"listChanged": true}));
    assert_eq!(
        capabilities["resources"],
        json!({"listChanged": true, "subscribe": true})
    );
    assert_eq!(capabilities["logging"], json!({}));
    let session = server.session().await;
    let about = |method: &str, uri: &str| Post::legacy(Some(&session), method, json!({"uri": uri}));
    for uri in ["test://watched", "test://dropped"] {
        assert_eq!(server.result(&about("resources/subscribe", uri)).await, json!({}));
    }
    assert_eq!(
        server.result(&about("resources/unsubscribe", "test://dropped")).await,
        json!({})
    );
    let mut push = server.listen(&session).await;
    let catalog = server.engine.catalog();
    for uri in ["test://other", "test://dropped", "test://watched"] {
        catalog.resource_updated(uri);
    }
    let updated = push.pushed().await;
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "test://watched");
    assert!(server.engine.remove_tool("never"));
    assert_eq!(push.pushed().await["method"], "notifications/tools/list_changed");
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

/// G1-57, G1-58: we create, poll, fetch.
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

/// One task is enough: of two deliveries' the second is cancelled, and what is told twice is told once.
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

/// A client that could make a task of it and answers at once is as good (G1-05).
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
    assert_eq!(answered(&server, &session, &task).await, json!({"action": "cancel"}));
}

/// What nobody needs answered is not worked on.
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

/// A client's task that is lost, or comes to nothing that is an answer, is a question that is asked again, plainly.
#[tokio::test]
async fn a_question_whose_task_is_lost_is_asked_plainly() {
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

    // The stream is lost: nobody can be asked how the client's task stands, until there is one again.
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

/// G1-15
#[tokio::test]
async fn a_host_is_told_what_its_model_may_hear_meanwhile() {
    let server = Server::start().await;
    let session = server.session().await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "say"));
    let created = server.result(&call).await;
    let hint = created["_meta"]["io.modelcontextprotocol/model-immediate-response"].as_str();
    assert!(hint.unwrap().starts_with("optional has begun"), "{created}");
}
