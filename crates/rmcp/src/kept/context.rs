//! What work of the manager can do while it runs.

use longhaul_core::{InputKey, InputState, Json, Store, store::StoreError};
use longhaul_runtime::{AskError, Question, read_answer};
use rmcp::{ErrorData, model::InputRequest, task_manager::TaskExit};
use serde_json::Value;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

/// rmcp's [`TaskContext`](rmcp::task_manager::TaskContext), over a record that survives the process: the same methods. Cheap to clone.
#[derive(Clone)]
pub struct TaskContext {
    cx: longhaul_runtime::TaskContext,
    store: Arc<dyn Store>,
    /// Whether an earlier attempt may have asked something already.
    again: bool,
    used: Arc<Mutex<HashSet<String>>>,
}

impl TaskContext {
    pub(super) fn new(cx: longhaul_runtime::TaskContext, store: Arc<dyn Store>, epoch: u32) -> Self {
        Self {
            cx,
            store,
            again: epoch > 1,
            used: Arc::default(),
        }
    }

    /// The id of the task.
    pub fn task_id(&self) -> &str {
        self.cx.task().as_str()
    }

    /// Asks the client and waits for its answer. The question is kept before anyone sees it, and an answer before it is acknowledged: if
    /// the process ends and the function is run again, what it asks under this key is answered at once with what was said before.
    ///
    /// # Errors
    /// [`TaskExit::Cancelled`] once the task is asked to stop; [`TaskExit::Error`] if the key was used before, or the question could not
    /// be kept.
    pub async fn request_input(&self, key: impl Into<String>, request: InputRequest) -> Result<Value, TaskExit> {
        let key = key.into();
        if !self
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.clone())
        {
            let why = format!("inputRequests key {key:?} was already used for this task");
            return Err(TaskExit::Error(ErrorData::internal_error(why, None)));
        }
        let request = serde_json::to_value(request).map_err(|error| failed(&error))?;
        let said = match self.said_before(&key).await.map_err(|error| failed(&error))? {
            Some(answer) => read_answer(answer),
            None => {
                let name = Some(key.into());
                let question = Question {
                    name,
                    ..Question::new(Json::from(request))
                };
                self.cx.ask(question).await
            }
        };
        match said {
            Ok(answer) => serde_json::from_str(answer.as_str()).map_err(|error| failed(&error)),
            Err(AskError::Stopped(_)) => Err(TaskExit::Cancelled),
            Err(error) => Err(failed(&error)),
        }
    }

    /// The answer that an earlier attempt was given.
    async fn said_before(&self, name: &str) -> Result<Option<Json>, StoreError> {
        if !self.again {
            return Ok(None);
        }
        let task = self.cx.task();
        let asked = self
            .store
            .peek(task)
            .await?
            .map_or(0, |record| record.task.inputs_asked);
        for nth in 1..=asked {
            let input = self.store.answer(task, &InputKey::nth(nth)).await?;
            let input = input.filter(|input| input.name.as_deref() == Some(name));
            if let Some(InputState::Answered(answer)) = input.map(|input| input.state) {
                return Ok(Some(answer));
            }
        }
        Ok(None)
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
