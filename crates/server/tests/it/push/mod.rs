//! What legacy clients are sent, however they read it: those that poll and listen, those that call `tasks/result`, those that do both.

mod client_tasks;
mod input_requests;
mod messages;

use crate::{
    client::Connection,
    request::Post,
    server::{Server, text},
};
use serde_json::{Value, json};
use std::sync::Arc;

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn form() -> Value {
    json!({"elicitation": {}, "sampling": {}})
}

/// A legacy client: a session at a server.
struct Client {
    server: Arc<Server>,
    session: String,
}

impl Client {
    async fn with(capabilities: Value) -> Self {
        Self::at(Arc::new(Server::start().await), capabilities).await
    }

    async fn at(server: Arc<Server>, capabilities: Value) -> Self {
        let session = server.session_with("2025-11-25", capabilities).await;
        Self { server, session }
    }

    /// One with a push stream and a task.
    async fn listening(capabilities: Value, act: &str) -> (Self, Connection, String) {
        let client = Self::with(capabilities).await;
        let push = client.listen().await;
        let task = client.create(act).await;
        (client, push, task)
    }

    /// Another session at the same server.
    async fn another(&self, capabilities: Value) -> Self {
        Self::at(Arc::clone(&self.server), capabilities).await
    }

    async fn create(&self, act: &str) -> String {
        let call = Post::legacy_task(Some(&self.session), "optional", act);
        self.server.task(&call.progress_token(json!("p-1"))).await
    }

    async fn status(&self, task: &str) -> Value {
        let get = Post::on_task(&self.session, "tasks/get", task);
        self.server.result(&get).await["status"].clone()
    }

    async fn listen(&self) -> Connection {
        self.server.listen(&self.session).await
    }

    /// The stream of a `tasks/result`, and the request.
    async fn wait(&self, task: &str) -> (Post, Connection) {
        let post = Post::on_task(&self.session, "tasks/result", task).id(json!("wait"));
        let stream = self.server.stream(&post).await;
        (post, stream)
    }

    /// Answers a request of the server's.
    async fn answer(&self, request: &Value, result: Value) {
        self.server.answer(&self.session, request, result).await;
    }

    async fn refuse(&self, request: &Value, error: Value) {
        let refusal = Post::response(&self.session, &request["id"], ("error", error));
        self.server.accepted(&refusal).await;
    }

    /// The answer to the question of a task, as `ask` repeats it.
    async fn answered(&self, task: &str) -> Value {
        self.server.poll(task, "completed").await;
        let result = Post::on_task(&self.session, "tasks/result", task);
        serde_json::from_str(text(&self.server.result(&result).await)).unwrap()
    }
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"sure": true}})
}

fn no() -> Value {
    json!({"action": "decline"})
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
    text(&stream.only_result(post).await).to_owned()
}
