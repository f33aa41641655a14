//! What servers ask while the calls of a file are made. Nobody answers it here: what a task asks is left to `longhaul answer`, and a call that asks before
//! there is a task ends.

use crate::ask::{page_not_opened, text_of};
use longhaul_client::{ClientCapabilities, InputHandler, InputRequest, InputResponse, Inputs, RpcFailure};
use longhaul_core::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::Notify;

/// The questions that are open.
pub(super) struct OpenQuestions {
    left: Inputs,
    /// The recorded questions by task.
    of_tasks: Mutex<HashMap<String, Vec<InputRequest>>>,
    /// The text of the first question before there is a task, by the [source](InputRequest::source) of the call.
    early: Mutex<HashMap<u64, String>>,
    changed: Notify,
}

impl Default for OpenQuestions {
    fn default() -> Self {
        Self {
            left: Inputs::deferred(),
            of_tasks: Mutex::default(),
            early: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl OpenQuestions {
    /// Waits until the task asks, and returns its questions.
    pub(super) async fn of_task(&self, task: &str) -> Vec<InputRequest> {
        self.first(|| self.of_tasks.lock().get(task).cloned()).await
    }

    /// Waits until the call of this source asks before there is a task, and returns the text of the question.
    pub(super) async fn of_call(&self, source: u64) -> String {
        self.first(|| self.early.lock().get(&source).cloned()).await
    }

    async fn first<T>(&self, find: impl Fn() -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From now on no question is missed.
            changed.as_mut().enable();
            if let Some(found) = find() {
                return found;
            }
            changed.await;
        }
    }
}

impl InputHandler for OpenQuestions {
    fn capabilities(&self) -> ClientCapabilities {
        self.left.capabilities()
    }

    fn answer(&self, request: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        if !request.is_elicitation() {
            return self.left.answer(request);
        }
        if request.refuses_call() {
            return Box::pin(std::future::ready(Err(page_not_opened())));
        }
        match (&request.task, request.source) {
            (Some(task), _) => {
                let mut of_tasks = self.of_tasks.lock();
                let asked = of_tasks.entry(task.clone()).or_default();
                if request.key.is_some() && asked.iter().all(|other| other.key != request.key) {
                    asked.push(request);
                }
            }
            (None, Some(source)) => {
                let message = text_of(&request);
                self.early.lock().entry(source).or_insert(message);
            }
            // Which call asks is not known, so none can end for it.
            (None, None) => return Box::pin(std::future::ready(Err(nobody_is_asked()))),
        }
        self.changed.notify_waiters();
        Box::pin(std::future::pending())
    }
}

/// No user has seen the question, so there is no answer, not even `cancel`.
fn nobody_is_asked() -> RpcFailure {
    RpcFailure {
        code: -32603,
        message: "No user can be asked".into(),
        data: None,
    }
}
