//! The context of a task's code.

use super::FOREVER;
use longhaul_core::Json;
use longhaul_runtime::{AskError, Question};
use parking_lot::Mutex;
use rmcp::{ErrorData, model::InputRequest, task_manager::TaskExit};
use serde_json::Value;
use std::{collections::HashSet, sync::Arc, time::Duration};

/// As rmcp's [`TaskContext`](rmcp::task_manager::TaskContext), with the same methods, for a task whose record survives the process. Cheap to clone.
#[derive(Clone)]
pub struct TaskContext {
    cx: longhaul_runtime::TaskContext,
    used_keys: Arc<Mutex<HashSet<String>>>,
}

impl TaskContext {
    pub(super) fn new(cx: longhaul_runtime::TaskContext) -> Self {
        Self {
            cx,
            used_keys: Arc::default(),
        }
    }

    /// The id of the task.
    pub fn task_id(&self) -> &str {
        self.cx.task().as_str()
    }

    /// Asks the client and waits for its answer, for as long as the task lasts. The question is stored before a client can read it, and an
    /// answer before it is acknowledged. If the process ends, the question stays open under its key. When the function runs again and asks
    /// under the same key, it gets the answer to that question, whenever it was given.
    ///
    /// # Errors
    /// [`TaskExit::Cancelled`] once the task is to stop; [`TaskExit::Error`] if this attempt has used the key before, or the question could
    /// not be stored.
    pub async fn request_input(&self, key: impl Into<String>, request: InputRequest) -> Result<Value, TaskExit> {
        let key = key.into();
        let is_new = (self.used_keys.lock()).insert(key.clone());
        if !is_new {
            let why = format!("inputRequests key {key:?} was already used for this task");
            return Err(TaskExit::Error(ErrorData::internal_error(why, None)));
        }
        let request = serde_json::to_value(request).map_err(|error| internal_error(&error))?;
        let question = Question {
            name: Some(key.into()),
            within: Some(Duration::from_millis(FOREVER)),
            ..Question::new(Json::from(request))
        };
        match self.cx.ask(question).await {
            Ok(answer) => serde_json::from_str(answer.as_str()).map_err(|error| internal_error(&error)),
            Err(AskError::Stopped(_)) => Err(TaskExit::Cancelled),
            Err(error) => Err(internal_error(&error)),
        }
    }

    /// Sets the status message. It is written at most twice a second.
    pub fn set_status_message(&self, message: impl Into<String>) {
        self.cx.status(message.into());
    }

    /// Whether the task is to stop.
    pub fn is_cancel_requested(&self) -> bool {
        self.cx.stop_requested().is_some()
    }

    /// Completes once the task is to stop. Return [`TaskExit::Cancelled`] then.
    pub async fn cancelled(&self) {
        self.cx.stopped().await;
    }
}

fn internal_error(error: &dyn std::fmt::Display) -> TaskExit {
    TaskExit::Error(ErrorData::internal_error(error.to_string(), None))
}
