//! Calling other tools of the same server.

use crate::TaskContext;
use longhaul_core::{BoxFuture, Json, Outcome, TaskId};
use longhaul_runtime::{ChildError, JournalError, TaskContext as Journaled};
use serde::{Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{borrow::Cow, future::IntoFuture, sync::Arc};

impl TaskContext {
    /// Calls another tool of this server as a task of its own, and waits for its end; however often the function is run, the call is made
    /// once. The task ends with this one: when this one is cancelled or over, or the future of the call is dropped, it is cancelled.
    ///
    /// It belongs to the same caller, who can see it, but it cannot ask the caller anything. It may call further ones, up to 8 deep and
    /// 1,000 each.
    ///
    /// Awaiting gives what the tool returned; a call that failed or was cancelled is an error. [`ended`](Call::ended) tells the cases
    /// apart instead.
    ///
    /// ```
    /// use longhaul::{TaskContext, ToolOutput, ToolResult};
    /// use serde_json::json;
    /// async fn release(cx: TaskContext) -> ToolResult {
    ///     let smoke = cx.call("smoke_tests", json!({"build": 7})).await?;
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

/// A call of another tool, not made yet; see [`TaskContext::call`]. Awaiting it makes it.
#[must_use = "no call is made until it is awaited"]
pub struct Call {
    journal: Journaled,
    tool: Arc<str>,
    arguments: Result<Value, String>,
}

impl Call {
    /// Makes the call, and tells how it ended, whatever that is.
    ///
    /// # Errors
    /// [`CallError`] if it could not be made or waited for.
    pub async fn ended(self) -> Result<Ended, CallError> {
        let Self {
            journal,
            tool,
            arguments,
        } = self;
        let arguments = match arguments {
            // What a tool without arguments is called with.
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
            Ok(end) => Ok(Ended {
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
        Box::pin(async move { self.ended().await?.result() })
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    tool: Arc<str>,
    task_id: TaskId,
    outcome: Outcome,
}

impl Ended {
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
    /// [`CallError`] if the tool failed, in whatever way, or the call was cancelled.
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
                    .map_err(|error| failed(format!("its result is no JSON: {error}")))?;
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

/// What a tool returned that was called. Written as JSON it is the structured content; without any the text, as a string; and the whole
/// result if that has more than text.
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

    /// All text of the result, put together.
    pub fn text(&self) -> String {
        let blocks = self.result["content"].as_array().into_iter().flatten();
        blocks.filter_map(|block| block["text"].as_str()).collect()
    }

    /// What the tool returned, read as any type: its structured content, or its text as a `String`.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&*self.returned())
    }

    /// The structured content; without it the text, if the result is nothing but text; else the whole result.
    fn returned(&self) -> Cow<'_, Value> {
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
        self.returned().serialize(serializer)
    }
}

/// A call came to nothing. `?` hands it on from a tool: the client reads which call it was, and why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// It could not be made.
    #[error("the tool {tool:?} could not be called: {why}")]
    Refused {
        /// What was to be called.
        tool: Arc<str>,
        /// Why not.
        why: Arc<str>,
    },
    /// The tool failed.
    #[error("the tool {tool:?} failed: {why}")]
    Failed {
        /// What was called.
        tool: Arc<str>,
        /// The call's task.
        task_id: TaskId,
        /// The tool's words, or those of the server about it.
        why: String,
    },
    /// The call was cancelled, by someone else than this one.
    #[error("the call of the tool {tool:?} was cancelled")]
    Cancelled {
        /// What was called.
        tool: Arc<str>,
        /// The call's task.
        task_id: TaskId,
    },
    /// The journal cannot be gone along.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
