//! Calls of other tools of the same server: child tasks.

use crate::{CallError, TaskContext};
use longhaul_core::{BoxFuture, Json, Outcome, TaskId};
use longhaul_runtime::{ChildError, TaskContext as Journaled};
use serde::{Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{borrow::Cow, future::IntoFuture, sync::Arc};

impl TaskContext {
    /// Calls another tool of this server as a child task and waits for its end. The call is made once, also if the function is replayed.
    ///
    /// Awaiting it returns the tool's result as a [`CallResult`]: read its value with [`json`](CallResult::json) or
    /// [`text`](CallResult::text). A call that failed or was cancelled is a [`CallError`]; [`outcome`](Call::outcome) returns every end as a
    /// value instead.
    ///
    /// The child is cancelled when this task ends or is cancelled, or when the future of the call is dropped. It belongs to the same principal
    /// and cannot ask its client anything. Children can have children, at most 8 levels deep; a task can have 1,000 children.
    ///
    /// ```
    /// use longhaul::{TaskContext, ToolOutput, ToolResult};
    /// use serde_json::json;
    /// async fn release(cx: TaskContext) -> ToolResult {
    ///     let build: u64 = cx.call("build", json!({"rev": "abc"})).await?.json()?; // the value, as any type
    ///     let smoke = cx.call("smoke_tests", json!({"build": build})).await?;
    ///     cx.status(smoke.text());
    ///     Ok(ToolOutput::json(&smoke)?)
    /// }
    /// ```
    pub fn call(&self, tool: impl Into<Arc<str>>, arguments: impl Serialize) -> Call {
        Call {
            journal: self.journal().clone(),
            tool: tool.into(),
            arguments: serde_json::to_value(arguments).map_err(|error| error.to_string()),
        }
    }
}

/// A call that is not made yet; made by [`TaskContext::call`]. Awaiting it makes the call and returns the result.
#[must_use = "no call is made until it is awaited"]
pub struct Call {
    journal: Journaled,
    tool: Arc<str>,
    arguments: Result<Value, String>,
}

impl Call {
    /// Makes the call and returns how it ended, also if it failed or was cancelled.
    ///
    /// ```
    /// use longhaul::{TaskContext, ToolResult};
    /// async fn backup(cx: TaskContext) -> ToolResult<String> {
    ///     let upload = cx.call("upload", ()).outcome().await?;
    ///     let task_id = upload.task_id().clone();
    ///     Ok(match upload.result() {
    ///         Ok(result) => result.text(),
    ///         Err(error) => format!("{error}; task {task_id} has the log"),
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError`] if it could not be made or waited for.
    pub async fn outcome(self) -> Result<CallOutcome, CallError> {
        let Self {
            journal,
            tool,
            arguments,
        } = self;
        let arguments = match arguments {
            // `()` stands for no arguments.
            Ok(Value::Null) => json!({}),
            Ok(arguments) => arguments,
            Err(why) => {
                return Err(CallError::Refused {
                    tool,
                    why: format!("its arguments cannot be written as JSON: {why}").into(),
                });
            }
        };
        match journal.call(&tool, Json::from(arguments)).await {
            Ok(end) => Ok(CallOutcome {
                tool,
                task_id: end.task,
                outcome: end.outcome,
            }),
            Err(ChildError::Journal(error)) => Err(CallError::Journal(error)),
            Err(ChildError::Refused(why)) => Err(CallError::Refused { tool, why }),
        }
    }
}

impl IntoFuture for Call {
    type Output = Result<CallResult, CallError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.outcome().await?.result() })
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutcome {
    tool: Arc<str>,
    task_id: TaskId,
    outcome: Outcome,
}

impl CallOutcome {
    /// The call's task.
    pub fn task_id(&self) -> &TaskId {
        &self.task_id
    }

    /// How it ended.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// What the tool returned.
    ///
    /// # Errors
    /// [`CallError`] if the tool failed or the call was cancelled.
    pub fn result(self) -> Result<CallResult, CallError> {
        let Self { tool, task_id, outcome } = self;
        let failed = |why: String| CallError::Failed {
            tool: Arc::clone(&tool),
            task_id: task_id.clone(),
            why,
        };
        match outcome {
            Outcome::Result { json, is_error } => {
                let result: Value = serde_json::from_str(json.as_str())
                    .map_err(|error| failed(format!("its result is not JSON: {error}")))?;
                let result = CallResult {
                    task_id: task_id.clone(),
                    result,
                };
                if is_error {
                    Err(failed(result.text()))
                } else {
                    Ok(result)
                }
            }
            Outcome::RpcError(failure) => Err(failed(failure.message.to_string())),
            Outcome::Cancelled => Err(CallError::Cancelled { tool, task_id }),
        }
    }
}

/// The result of a tool that was called. Its value is the structured content; without any, the text as a string; and for other content the whole
/// `CallToolResult`. It serializes as its value.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    task_id: TaskId,
    result: Value,
}

impl CallResult {
    /// The call's task.
    pub fn task_id(&self) -> &TaskId {
        &self.task_id
    }

    /// All text of the result, concatenated.
    pub fn text(&self) -> String {
        let blocks = self.result["content"].as_array().into_iter().flatten();
        blocks.filter_map(|block| block["text"].as_str()).collect()
    }

    /// The value, read as any type: the structured content, or the text as a `String`.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&*self.value())
    }

    /// The value.
    fn value(&self) -> Cow<'_, Value> {
        let structured = &self.result["structuredContent"];
        if !structured.is_null() {
            return Cow::Borrowed(structured);
        }
        let is_text = |block: &Value| block["type"] == "text";
        match self.result["content"].as_array() {
            Some(blocks) if blocks.iter().all(is_text) => Cow::Owned(Value::String(self.text())),
            _ => Cow::Borrowed(&self.result),
        }
    }

    /// The `CallToolResult`.
    pub fn as_value(&self) -> &Value {
        &self.result
    }
}

impl Serialize for CallResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}
