//! What work of the manager can do while it runs.

use super::FOR_EVER;
use longhaul_core::Json;
use longhaul_runtime::{AskError, Question};
use parking_lot::Mutex;
use rmcp::{ErrorData, model::InputRequest, task_manager::TaskExit};
use serde_json::Value;
use std::{collections::HashSet, sync::Arc, time::Duration};

/// rmcp's [`TaskContext`](rmcp::task_manager::TaskContext), over a record that survives the process: the same methods. Cheap to clone.
#[derive(Clone)]
pub struct TaskContext {
    cx: longhaul_runtime::TaskContext,
    used: Arc<Mutex<HashSet<String>>>,
}

impl TaskContext {
    pub(super) fn new(cx: longhaul_runtime::TaskContext) -> Self {
        Self {
            cx,
            used: Arc::default(),
        }
    }

    /// The id of the task.
    pub fn task_id(&self) -> &str {
        self.cx.task().as_str()
    }

    /// Asks the client and waits for its answer, for as long as the task lasts. The question is kept before anyone sees it, and an answer
    /// before it is acknowledged: if the process ends and the function is run again, the question stays open under its key meanwhile, and
    /// what the function asks under this key is that question. What was answered to it, at any time, is its answer.
    ///
    /// # Errors
    /// [`TaskExit::Cancelled`] once the task is asked to stop; [`TaskExit::Error`] if the key was used before, or the question could not
    /// be kept.
    pub async fn request_input(&self, key: impl Into<String>, request: InputRequest) -> Result<Value, TaskExit> {
        let key = key.into();
        let is_new = (self.used.lock()).insert(key.clone());
        if !is_new {
            let why = format!("inputRequests key {key:?} was already used for this task");
            return Err(TaskExit::Error(ErrorData::internal_error(why, None)));
        }
        let request = serde_json::to_value(request).map_err(|error| failed(&error))?;
        let question = Question {
            name: Some(key.into()),
            within: Some(Duration::from_millis(FOR_EVER)),
            ..Question::new(Json::from(request))
        };
        match self.cx.ask(question).await {
            Ok(answer) => serde_json::from_str(answer.as_str()).map_err(|error| failed(&error)),
            Err(AskError::Stopped(_)) => Err(TaskExit::Cancelled),
            Err(error) => Err(failed(&error)),
        }
    }

    /// A line for people. The latest one is kept, at most twice a second.
    pub fn set_status_message(&self, message: impl Into<String>) {
        self.cx.status(message.into());
    }

    /// Whether the task was asked to stop.
    pub fn is_cancel_requested(&self) -> bool {
        self.cx.stop_requested().is_some()
    }

    /// Completes once the task is asked to stop. Work that follows returns [`TaskExit::Cancelled`].
    pub async fn cancelled(&self) {
        self.cx.stopped().await;
    }
}

fn failed(error: &dyn std::fmt::Display) -> TaskExit {
    TaskExit::Error(ErrorData::internal_error(error.to_string(), None))
}
