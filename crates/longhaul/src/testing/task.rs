//! A client's task.

use super::{CallToolResult, Client, RequestError};
use crate::Era;
use serde_json::{Map, Value, json};

/// A task that a [`Client`] has created.
///
/// ```
/// use longhaul::{Era, Server, TaskContext, Tool, ToolResult};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Approval { approved: bool }
///
/// async fn publish(cx: TaskContext) -> ToolResult<String> {
///     let answer: Approval = cx.elicit("Publish?").key("publish").await?;
///     Ok(format!("published: {}", answer.approved))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::new("test", "1.0.0").tool(Tool::durable("publish", publish));
/// let client = server.in_memory(Era::Modern).await?;
/// let task = client.start("publish", json!({})).await?;
/// for key in task.questions().await?.keys() {
///     task.answer(key, json!({"action": "accept", "content": {"approved": true}})).await?;
/// }
/// assert_eq!(task.wait().await?.text(), "published: true");
/// # Ok(()) }
/// ```
pub struct Task<'c> {
    client: &'c Client,
    id: String,
}

impl<'c> Task<'c> {
    pub(super) fn new(client: &'c Client, id: String) -> Self {
        Self { client, id }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The result of `tasks/get`.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn get(&self) -> Result<Value, RequestError> {
        self.client.request("tasks/get", json!({"taskId": self.id})).await
    }

    /// Follows it to its end, answers its questions, and returns its result.
    ///
    /// # Errors
    /// The JSON-RPC error of the task; one with code 0 if it was cancelled.
    pub async fn wait(&self) -> Result<CallToolResult, RequestError> {
        match self.client.era {
            Era::Legacy => {
                let result = self.client.request("tasks/result", json!({"taskId": self.id})).await?;
                Ok(CallToolResult { result })
            }
            Era::Modern => self.follow().await,
        }
    }

    /// Waits until it has ended or asks something, and returns the result of `tasks/get`.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn next(&self) -> Result<Value, RequestError> {
        let stopped = || RequestError::new("the server has stopped");
        let mut watch = self.client.server.watch(&self.id).ok_or_else(stopped)?;
        loop {
            let state = self.get().await?;
            if state["status"] != "working" {
                return Ok(state);
            }
            watch.changed().await;
        }
    }

    async fn follow(&self) -> Result<CallToolResult, RequestError> {
        loop {
            let mut state = self.next().await?;
            match state["status"].as_str() {
                Some("input_required") => {
                    self.update(self.client.connection.answers(&state["inputRequests"])?)
                        .await?
                }
                Some("failed") => return Err(RequestError::read(&state["error"])),
                Some("completed") => {
                    return Ok(CallToolResult {
                        result: state["result"].take(),
                    });
                }
                _ => return Err(RequestError::new("the task was cancelled")),
            }
        }
    }

    /// Its open questions, by key. Modern clients only: a legacy client is sent requests.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn questions(&self) -> Result<Map<String, Value>, RequestError> {
        let state = self.next().await?;
        Ok(state["inputRequests"].as_object().cloned().unwrap_or_default())
    }

    /// Answers a question. Modern clients only.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn answer(&self, key: &str, answer: Value) -> Result<(), RequestError> {
        self.update(json!({key: answer})).await
    }

    async fn update(&self, answers: Value) -> Result<(), RequestError> {
        let update = json!({"taskId": self.id, "inputResponses": answers});
        self.client.request("tasks/update", update).await.map(drop)
    }

    /// Cancels it.
    ///
    /// # Errors
    /// The JSON-RPC error it was answered with.
    pub async fn cancel(&self) -> Result<(), RequestError> {
        self.client
            .request("tasks/cancel", json!({"taskId": self.id}))
            .await
            .map(drop)
    }
}
