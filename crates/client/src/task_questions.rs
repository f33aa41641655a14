//! Answering what a task asks while it is waited for.

use crate::{
    InputResponse, RequestError, TaskHandle, TaskSnapshot,
    asking::{Answered, HeldQuestion},
};
use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};
use longhaul_core::Json;
use longhaul_wire::Method;
use serde_json::{Map, Value};
use std::collections::HashMap;

type Answer = (String, Result<Answered, RequestError>);

/// The questions of one task. Each is put to the handler once.
#[derive(Default)]
pub(crate) struct Questions {
    /// By key; `None` once the handler has answered.
    asked: HashMap<String, Option<AbortHandle>>,
    open: FuturesUnordered<Abortable<BoxFuture<'static, Answer>>>,
    /// Answers that the server has not acknowledged.
    unsent: Map<String, Value>,
    /// The records of the questions with these answers.
    held: Vec<HeldQuestion>,
}

impl Questions {
    /// Puts new questions to the handler, and withdraws those that are no longer open.
    pub(crate) fn update(&mut self, task: &TaskHandle, snapshot: &TaskSnapshot) {
        if task.connection().options().inputs.is_none() {
            return;
        }
        let is_open = |key: &String| {
            snapshot
                .input_requests
                .iter()
                .any(|request| request.key.as_ref() == Some(key))
        };
        for (key, question) in &mut self.asked {
            if !is_open(key)
                && let Some(question) = question.take()
            {
                question.abort();
            }
        }
        for request in &snapshot.input_requests {
            let Some(key) = request.key.clone().filter(|key| !self.asked.contains_key(key)) else {
                continue;
            };
            let (handle, registration) = AbortHandle::new_pair();
            self.asked.insert(key.clone(), Some(handle));
            let (task, request) = (task.clone(), request.clone());
            let answer = async move {
                let (connection, name) = (task.connection(), recorded_as(&key));
                let answer = connection.ask_once(request, task.record(), &name).await;
                (key, answer)
            };
            self.open.push(Abortable::new(Box::pin(answer), registration));
        }
    }

    /// Waits for the next answer of the handler and keeps it to be sent. Never completes if nothing is asked.
    ///
    /// # Errors
    /// [`RequestError::Unanswered`] if there is no answer.
    pub(crate) async fn answered(&mut self) -> Result<(), RequestError> {
        loop {
            match self.open.next().await {
                Some(Ok((key, answer))) => {
                    self.asked.insert(key.clone(), None);
                    let Answered { response, held } = answer?;
                    self.unsent.insert(key, response.into_value());
                    self.held.extend(held);
                    return Ok(());
                }
                Some(Err(_withdrawn)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Sends the answers that the server has not acknowledged. After a transient error they are sent again the next time.
    ///
    /// # Errors
    /// The error of the request.
    pub(crate) async fn send(&mut self, task: &TaskHandle) -> Result<(), RequestError> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let sent = task.update(self.unsent.clone()).await;
        if matches!(&sent, Err(error) if error.is_transient()) {
            return sent;
        }
        self.unsent.clear();
        for question in self.held.drain(..) {
            match &sent {
                Ok(()) => question.accepted().await,
                Err(_) => question.refused().await,
            }
        }
        sent
    }
}

/// The name of a question in the journal. Questions from before the task have other names.
fn recorded_as(key: &str) -> String {
    format!("task {key}")
}

impl TaskHandle {
    /// Answers a question of a modern task; `key` is that of the [`InputRequest`](crate::InputRequest) in its snapshot. The server ignores answers to
    /// questions that are no longer open. The answer to a recorded task is in the journal before it is sent, unless there is another one; the server takes the first that arrives.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Rpc`] if the answer does not fit the question. A legacy server has no such request: it asks
    /// [`Options::inputs`](crate::Options::inputs) while the task is waited for.
    pub async fn answer(&self, key: &str, answer: InputResponse) -> Result<(), RequestError> {
        let name = recorded_as(key);
        if let Some(record) = self.record() {
            match record.record_answer(&name, Json::from(answer.as_value().clone())).await {
                // After another answer, which may not have arrived, the server decides: it takes one.
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "an answer is not recorded"),
            }
        }
        let sent = self
            .update(Map::from_iter([(key.to_owned(), answer.into_value())]))
            .await;
        if let Some(record) = self.record() {
            match &sent {
                Ok(()) => record.answer_accepted(&name).await,
                Err(error) if error.is_transient() => record.release_question(name),
                Err(_) => record.answer_refused(&name).await,
            }
        }
        sent
    }

    async fn update(&self, responses: Map<String, Value>) -> Result<(), RequestError> {
        let params = Map::from_iter([
            ("taskId".to_owned(), Value::from(self.id())),
            ("inputResponses".to_owned(), responses.into()),
        ]);
        self.connection().request(Method::TasksUpdate, params).await.map(drop)
    }
}
