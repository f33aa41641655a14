//! What legacy clients are sent, however they read it: those that poll and listen, those that call `tasks/result`, those that do both.

mod client_tasks;
mod input_requests;
mod messages;

use crate::{
    client::Connection,
    request::{Post, act_as_task},
    server::{Server, task_of},
};
use serde_json::{Value, json};

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn form() -> Value {
    json!({"elicitation": {}, "sampling": {}})
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
async fn respond(server: &Server, session: &str, request: &Value, member: (&str, Value)) {
    let mut post = Post::legacy(Some(session), "", json!({}));
    post.body = json!({"jsonrpc": "2.0", "id": request["id"], member.0: member.1});
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
    assert_eq!(question["params"]["_meta"][RELATED]["taskId"], task);
    assert!(question["params"].get("task").is_none(), "the client hosts no tasks");
    question
}

async fn next_status(stream: &mut Connection, task: &str) -> Value {
    let message = next(stream, "notifications/tasks/status").await;
    assert_eq!(message["params"]["taskId"], task);
    assert!(message["params"].get("_meta").is_none());
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
