//! Legacy clients whose requests reach any node: what one node is told, and another one needs.

use crate::{
    client::{Connection, Event},
    clock::TestClock,
    request::{Post, act, act_as_task},
    server::{Options, Server, other, task_of},
};
use longhaul_core::{
    BoxFuture, NodeId, Store, StoreLayer,
    store::{LeaseStore, StoreError},
};
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// Two nodes of one store.
async fn two() -> (Server, Server) {
    let clock = TestClock::default();
    let store = MemoryStore::of_many_nodes(Arc::new(clock.clone()), 15_000);
    two_of(Arc::new(store), &clock).await
}

async fn two_of(store: Arc<dyn Store>, clock: &TestClock) -> (Server, Server) {
    let node = |host| node_of(&store, clock, host);
    (node("here").await, node("there").await)
}

/// A node of this store.
pub(crate) async fn node_of(store: &Arc<dyn Store>, clock: &TestClock, host: &'static str) -> Server {
    Server::with(Options {
        store: Arc::clone(store),
        host,
        clock: clock.clone(),
        ..Options::default()
    })
    .await
}

/// A client that answers questions with tasks of its own.
fn hosting() -> Value {
    json!({"elicitation": {}, "tasks": {"cancel": {}, "requests": {"elicitation": {"create": {}}}}})
}

fn theirs(status: &str) -> Value {
    let at = "2026-11-20T09:00:00Z";
    json!({"taskId": "t", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": null, "pollInterval": 50})
}

async fn respond(server: &Server, session: &str, request: &Value, result: Value) {
    let mut post = Post::legacy(Some(session), "", json!({}));
    post.body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    assert_eq!(server.connect().await.exchange(&post).await.status(), 202);
}

/// The next message of this method.
pub(crate) async fn next(stream: &mut Connection, method: &str) -> Value {
    loop {
        let message = stream.message().await.unwrap();
        if message["method"] == method {
            return message;
        }
    }
}

/// The client ends the session.
pub(crate) async fn end(server: &Server, session: &str) {
    let mut client = server.connect().await;
    let delete = other("DELETE", &format!("Mcp-Session-Id: {session}\r\n"));
    client.send(delete.as_bytes()).await;
    assert_eq!(client.reply().await.status(), 204);
}

/// A task that has put its question on a push stream of a client that makes tasks of questions.
struct Asking {
    session: String,
    push: Connection,
    task: String,
    asked: Value,
}

async fn asking(server: &Server) -> Asking {
    let session = server.session_with("2025-11-25", hosting()).await;
    let mut push = server.listen(&session).await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "ask"));
    let task = task_of(&server.result(&call).await);
    let asked = next(&mut push, "elicitation/create").await;
    Asking {
        session,
        push,
        task,
        asked,
    }
}

/// The task ends with this answer.
async fn has_answer(server: &Server, task: &str, action: &str) {
    let done = server.poll(task, "completed").await;
    let text = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(action), "{done}");
}

#[tokio::test]
async fn a_request_is_cancelled_at_another_node() {
    let (here, there) = two().await;
    let session = here.session().await;
    let call = Post::legacy(Some(&session), "tools/call", act("optional", "wait")).id(json!("a\"b"));
    let mut client = here.connect().await;
    client.send(&call.to_bytes()).await;
    here.stage.begun.reaches(1).await;
    let cancelled = Post::legacy(Some(&session), "notifications/cancelled", json!({"requestId": "a\"b"}));
    assert_eq!(
        there.connect().await.exchange(&cancelled.without_id()).await.status(),
        202
    );
    here.stage.stopped.reaches(1).await;
    assert_eq!(client.reply().await.body, "", "no response is owed");
}

/// The node that has asked polls the client's task. Each of the client's responses goes to the other one.
#[tokio::test]
async fn a_task_of_the_client_is_polled_though_its_responses_reach_another_node() {
    let (here, there) = two().await;
    let Asking {
        session,
        mut push,
        task,
        asked,
    } = asking(&here).await;
    respond(&there, &session, &asked, json!({"task": theirs("working")})).await;
    let poll = next(&mut push, "tasks/get").await;
    respond(&there, &session, &poll, theirs("working")).await;
    let poll = next(&mut push, "tasks/get").await;
    respond(&there, &session, &poll, theirs("completed")).await;
    let fetch = next(&mut push, "tasks/result").await;
    let answer = json!({"action": "accept", "content": {"sure": true}});
    respond(&there, &session, &fetch, answer).await;
    has_answer(&there, &task, "accept").await;
}

/// The stream on which the question was put is over, and the client has another one at the other node.
#[tokio::test]
async fn a_task_of_the_client_is_cancelled_on_a_stream_at_another_node() {
    let (here, there) = two().await;
    let Asking {
        session,
        push,
        task,
        asked,
    } = asking(&here).await;
    respond(&here, &session, &asked, json!({"task": theirs("working")})).await;
    drop(push);
    let mut push = there.listen(&session).await;
    let cancel = Post::legacy(Some(&session), "tasks/cancel", json!({"taskId": task}));
    there.result(&cancel).await;
    let cancelled = next(&mut push, "tasks/cancel").await;
    assert_eq!(cancelled["params"]["taskId"], "t");
}

/// A client of another session cannot answer, also not through another node.
#[tokio::test]
async fn a_response_of_another_session_is_not_passed_on() {
    let (here, there) = two().await;
    let stranger = there.session_with("2025-11-25", hosting()).await;
    let Asking {
        session,
        mut push,
        task,
        asked,
    } = asking(&here).await;
    respond(&there, &session, &asked, json!({"task": theirs("working")})).await;
    let poll = next(&mut push, "tasks/get").await;
    respond(&there, &stranger, &poll, theirs("completed")).await;
    respond(&there, &session, &poll, theirs("working")).await;
    // It was not taken for completed.
    let poll = next(&mut push, "tasks/get").await;
    respond(&there, &session, &poll, theirs("completed")).await;
    let fetch = next(&mut push, "tasks/result").await;
    respond(
        &there,
        &stranger,
        &fetch,
        json!({"action": "accept", "content": {"sure": true}}),
    )
    .await;
    respond(&there, &session, &fetch, json!({"action": "decline"})).await;
    has_answer(&there, &task, "decline").await;
}

#[tokio::test]
async fn a_session_that_ends_at_another_node_ends_its_streams() {
    let (here, there) = two().await;
    let session = here.session().await;
    let mut push = here.listen(&session).await;
    end(&there, &session).await;
    assert_eq!(push.event().await, Some(Event::Prime));
    assert_eq!(push.event().await, None);
}

#[tokio::test]
async fn a_log_level_that_is_set_at_one_node_holds_at_others() {
    let (here, there) = two().await;
    let session = here.session().await;
    let mut push = here.listen(&session).await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "log 1000"));
    here.result(&call).await;
    next(&mut push, "notifications/tasks/status").await;
    let set = Post::legacy(Some(&session), "logging/setLevel", json!({"level": "debug"}));
    there.result(&set).await;
    // Each release logs at three levels. The message between the nodes is on its way.
    loop {
        here.stage.released.count();
        let first = next(&mut push, "notifications/message").await;
        if first["params"]["level"] == "debug" {
            break;
        }
        assert_eq!(
            next(&mut push, "notifications/message").await["params"]["level"],
            "error"
        );
    }
}

/// Its client does not ask the node with its push stream about the task.
#[tokio::test]
async fn a_push_stream_carries_the_questions_of_a_task_that_was_created_at_another_node() {
    let (here, there) = two().await;
    let session = here.session_with("2025-11-25", json!({"elicitation": {}})).await;
    let mut push = here.listen(&session).await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "ask"));
    let task = task_of(&there.result(&call).await);
    let asked = next(&mut push, "elicitation/create").await;
    let answer = json!({"action": "accept", "content": {"sure": true}});
    respond(&there, &session, &asked, answer).await;
    let ended = loop {
        let told = next(&mut push, "notifications/tasks/status").await;
        if told["params"]["status"] == "completed" {
            break told;
        }
    };
    assert_eq!(ended["params"]["taskId"], task.as_str());
}

/// Holds the messages between its nodes until it is open.
pub(crate) struct HeldMessages {
    inner: MemoryStore,
    is_open: watch::Sender<bool>,
}

impl HeldMessages {
    pub(crate) fn new(clock: &TestClock) -> Self {
        Self {
            inner: MemoryStore::of_many_nodes(Arc::new(clock.clone()), 3_600_000),
            is_open: watch::Sender::new(false),
        }
    }

    fn open(&self) {
        self.is_open.send_replace(true);
    }
}

impl StoreLayer for HeldMessages {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn send(&self, to: Option<NodeId>, text: Arc<str>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
            self.inner.send(to, text).await
        })
    }
}

#[tokio::test]
async fn a_push_stream_carries_the_end_of_a_task_that_ended_before_its_node_learned_of_it() {
    let clock = TestClock::default();
    let store = Arc::new(HeldMessages::new(&clock));
    let (here, there) = two_of(Arc::<HeldMessages>::clone(&store), &clock).await;
    let session = here.session().await;
    let mut push = here.listen(&session).await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "say"));
    let task = task_of(&there.result(&call).await);
    has_answer(&there, &task, "done").await;
    store.open();
    let ended = next(&mut push, "notifications/tasks/status").await;
    assert_eq!(ended["params"]["taskId"], task.as_str());
    assert_eq!(ended["params"]["status"], "completed");
}

/// A stream of `tasks/result`.
async fn wait(server: &Server, session: &str, task: &str) -> Connection {
    let mut client = server.connect().await;
    let wait = Post::legacy(Some(session), "tasks/result", json!({"taskId": task}));
    client.send(&wait.to_bytes()).await;
    assert!(client.head().await.is_stream());
    client
}

/// Neither node needs to know of the other one's question.
#[tokio::test]
async fn a_question_is_put_at_each_node_that_has_a_stream_of_its_client() {
    let clock = TestClock::default();
    let store: Arc<dyn Store> = Arc::new(HeldMessages::new(&clock));
    let (here, there) = two_of(store, &clock).await;
    let Asking {
        session,
        mut push,
        task,
        asked,
    } = asking(&here).await;
    respond(&here, &session, &asked, json!({"task": theirs("working")})).await;
    next(&mut push, "tasks/get").await;
    let mut result = wait(&there, &session, &task).await;
    let again = next(&mut result, "elicitation/create").await;
    let answer = json!({"action": "accept", "content": {"sure": true}});
    respond(&there, &session, &again, answer).await;
    has_answer(&there, &task, "accept").await;
    let cancelled = next(&mut push, "tasks/cancel").await;
    assert_eq!(cancelled["params"]["taskId"], "t");
}

#[tokio::test]
async fn of_two_tasks_that_a_client_makes_of_one_question_at_two_nodes_the_first_that_ends_answers() {
    let (here, there) = two().await;
    let Asking {
        session,
        mut push,
        task,
        asked,
    } = asking(&here).await;
    let mut result = wait(&there, &session, &task).await;
    let again = next(&mut result, "elicitation/create").await;
    let other = |status| {
        let mut other = theirs(status);
        other["taskId"] = json!("u");
        other
    };
    respond(&here, &session, &asked, json!({"task": theirs("working")})).await;
    respond(&there, &session, &again, json!({"task": other("working")})).await;
    next(&mut push, "tasks/get").await;
    let poll = next(&mut result, "tasks/get").await;
    respond(&there, &session, &poll, other("completed")).await;
    let fetch = next(&mut result, "tasks/result").await;
    let answer = json!({"action": "accept", "content": {"sure": true}});
    respond(&there, &session, &fetch, answer).await;
    has_answer(&there, &task, "accept").await;
    let cancelled = next(&mut push, "tasks/cancel").await;
    assert_eq!(cancelled["params"]["taskId"], "t");
}

/// Clients send the id of the last event again when a stream breaks, and give up if that is refused.
#[tokio::test]
async fn a_push_stream_that_breaks_goes_on_at_another_node() {
    let (here, there) = two().await;
    let Asking {
        session,
        mut push,
        task,
        asked,
    } = asking(&here).await;
    let last = push.last_event_id.take().unwrap();
    drop(push);
    let resume = format!("Mcp-Session-Id: {session}\r\nAccept: text/event-stream\r\nLast-Event-ID: {last}\r\n");
    let mut push = there.connect().await;
    push.send(other("GET", &resume).as_bytes()).await;
    assert!(push.head().await.is_stream());
    let again = next(&mut push, "elicitation/create").await;
    assert_ne!(again["id"], asked["id"]);
    respond(&here, &session, &again, json!({"action": "decline"})).await;
    has_answer(&there, &task, "decline").await;
}
