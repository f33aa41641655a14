//! Answering what a task asks while it is waited for.

use crate::{
    InputResponse, RequestError, TaskHandle, TaskSnapshot,
    asking::{Answered, HeldQuestion},
    error::excerpt,
};
use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};
use longhaul_core::Json;
use longhaul_wire::Method;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// How many questions a task may ask while it is waited for.
const MAX_QUESTIONS: usize = 10_000;
/// How many of them are put to the handler at once. The others follow when these are answered.
const MAX_OPEN: usize = 64;
/// The longest key, in bytes.
const MAX_KEY: usize = 1_024;
/// How many polls in a row may show a question whose answer the server has acknowledged. It may acknowledge an answer before its effects can be seen (G2-39),
/// but a key is not used again (G2-34), and no client answers it again (G2-37).
const MAX_REPEATS: u32 = 30;

type Answer = (String, Result<Option<Answered>, RequestError>);

/// What became of a question.
enum Standing {
    /// The handler works on it.
    Open(AbortHandle),
    /// The handler has answered, or the task has withdrawn the question.
    Closed,
    /// The server has acknowledged the answer, and so many polls in a row have shown the question since.
    Acknowledged(u32),
}

/// The questions of one task. Each is put to the handler once.
#[derive(Default)]
pub(crate) struct Questions {
    /// By key.
    asked: HashMap<String, Standing>,
    open: FuturesUnordered<Abortable<BoxFuture<'static, Answer>>>,
    /// Answers that the server has not acknowledged.
    unsent: Map<String, Value>,
    /// The records of the questions with these answers.
    held: Vec<HeldQuestion>,
}

impl Questions {
    /// Puts new questions to the handler, and withdraws those that are no longer open.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] if the task asks without end.
    pub(crate) fn update(&mut self, task: &TaskHandle, snapshot: &TaskSnapshot) -> Result<(), RequestError> {
        if task.connection().options().inputs.is_none() {
            return Ok(());
        }
        let listed: HashSet<&str> = keys(snapshot).collect();
        let mut open = 0;
        for (key, standing) in &mut self.asked {
            if let Standing::Open(question) = standing {
                if listed.contains(key.as_str()) {
                    open += 1;
                } else {
                    question.abort();
                    *standing = Standing::Closed;
                }
            }
        }
        for request in &snapshot.input_requests {
            if open == MAX_OPEN {
                break;
            }
            let Some(key) = request.key.clone().filter(|key| !self.asked.contains_key(key)) else {
                continue;
            };
            if key.len() > MAX_KEY {
                let key = excerpt(&key);
                return Err(invalid(
                    task,
                    &format!("the key of a question is longer than {MAX_KEY} bytes: {key:?}"),
                ));
            }
            if self.asked.len() == MAX_QUESTIONS {
                return Err(invalid(
                    task,
                    &format!("it has asked {MAX_QUESTIONS} questions, and asks more"),
                ));
            }
            let (handle, registration) = AbortHandle::new_pair();
            self.asked.insert(key.clone(), Standing::Open(handle));
            open += 1;
            let (task, request) = (task.clone(), request.clone());
            let answer = async move {
                let (connection, name) = (task.connection(), recorded_as(&key));
                let answer = connection.ask_once(request, task.record(), &name).await;
                (key, answer)
            };
            self.open.push(Abortable::new(Box::pin(answer), registration));
        }
        Ok(())
    }

    /// Counts how often a poll shows a question whose answer was acknowledged.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] if the server does not take it away.
    pub(crate) fn check_repeats(&mut self, task: &TaskHandle, snapshot: &TaskSnapshot) -> Result<(), RequestError> {
        let listed: HashSet<&str> = keys(snapshot).collect();
        for (key, standing) in &mut self.asked {
            let Standing::Acknowledged(repeats) = standing else {
                continue;
            };
            *repeats = if listed.contains(key.as_str()) { *repeats + 1 } else { 0 };
            if *repeats > MAX_REPEATS {
                let key = excerpt(key);
                let reason = format!(
                    "it has acknowledged the answer to {key:?}, and still asks it after {MAX_REPEATS} polls; a key must not be used again"
                );
                return Err(invalid(task, &reason));
            }
        }
        Ok(())
    }

    /// Waits for the next answer of the handler and keeps it to be sent. Never completes if nothing is asked.
    ///
    /// # Errors
    /// [`RequestError::Unanswered`] if there is no answer.
    pub(crate) async fn answered(&mut self) -> Result<(), RequestError> {
        loop {
            match self.open.next().await {
                Some(Ok((key, answer))) => {
                    let Some(Answered { response, held }) = answer? else {
                        self.asked.insert(key, Standing::Acknowledged(0));
                        continue;
                    };
                    self.asked.insert(key.clone(), Standing::Closed);
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
        for (key, _) in std::mem::take(&mut self.unsent) {
            if sent.is_ok() {
                self.asked.insert(key, Standing::Acknowledged(0));
            }
        }
        for question in self.held.drain(..) {
            match &sent {
                Ok(()) => question.accepted().await,
                Err(_) => question.discarded().await,
            }
        }
        sent
    }
}

fn keys(snapshot: &TaskSnapshot) -> impl Iterator<Item = &str> {
    snapshot
        .input_requests
        .iter()
        .filter_map(|request| request.key.as_deref())
}

fn invalid(task: &TaskHandle, reason: &str) -> RequestError {
    RequestError::Invalid(format!("its task {}: {reason}", excerpt(task.id())))
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
