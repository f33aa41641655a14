//! What legacy servers ask while their tasks are waited for. Nobody answers it here: it is left to `longhaul answer`.

use longhaul_client::{ClientCapabilities, InputHandler, InputRequest, InputResponse, Inputs, RpcFailure};
use longhaul_core::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::Notify;

/// The recorded questions by task.
pub(super) struct OpenQuestions {
    left: Inputs,
    keys: Mutex<HashMap<String, Vec<String>>>,
    changed: Notify,
}

impl Default for OpenQuestions {
    fn default() -> Self {
        Self {
            left: Inputs::deferred(),
            keys: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl OpenQuestions {
    /// Waits until the task asks, and returns the keys of its questions.
    pub(super) async fn of_task(&self, task: &str) -> Vec<String> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From now on no question is missed.
            changed.as_mut().enable();
            if let Some(keys) = self.keys.lock().get(task) {
                return keys.clone();
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
        if let (Some(task), Some(key), true) = (&request.task, &request.key, request.is_elicitation()) {
            let mut keys = self.keys.lock();
            let keys = keys.entry(task.clone()).or_default();
            if !keys.contains(key) {
                keys.push(key.clone());
            }
            self.changed.notify_waiters();
        }
        self.left.answer(request)
    }
}
