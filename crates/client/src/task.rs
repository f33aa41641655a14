//! A task on a server: reading it, waiting for it, cancelling it.

use crate::{Connection, Event, Observer, Outcome, RequestError, TaskSnapshot, TaskStatus, polling};
use longhaul_core::Json;
use longhaul_wire::Method;
use serde_json::{Map, Value};

/// A task by its id. Cheap to clone. Dropping it does not affect the task.
#[derive(Debug, Clone)]
pub struct TaskHandle {
    connection: Connection,
    id: String,
    /// The task as the server created it, if this handle comes from a call.
    created: Option<TaskSnapshot>,
}

impl Connection {
    /// A handle to the task with this id. Sends no request.
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(self.clone(), id.into(), None)
    }
}

impl TaskHandle {
    pub(crate) fn new(connection: Connection, id: String, created: Option<TaskSnapshot>) -> Self {
        Self {
            connection,
            id,
            created,
        }
    }

    /// The task id. On a server without authentication, whoever knows it can read the task.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The connection to its server.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads the task.
    ///
    /// # Errors
    /// Any [`RequestError`]; see [`RequestError::is_unknown_task`].
    pub async fn get(&self) -> Result<TaskSnapshot, RequestError> {
        let task = self.request(Method::TasksGet).await?;
        TaskSnapshot::read(task.as_str())
    }

    /// Waits until the task has ended and returns its outcome.
    ///
    /// Polls at the interval the server asks for. While the server is down, overloaded or restarting, it retries without limit, with
    /// exponential backoff. To stop waiting, drop the future; the task is not affected.
    ///
    /// # Errors
    /// A [`RequestError`] that is not transient, for example for an unknown task.
    pub async fn wait(&self, on_event: Observer<'_>) -> Result<Outcome, RequestError> {
        let mut wait = Wait {
            handle: self,
            on_event,
            last_seen: None,
            failures: 0,
        };
        if let Some(created) = &self.created {
            wait.report(created);
            wait.pause(created).await;
        }
        loop {
            match self.poll().await {
                Ok(Polled::Ended(outcome, snapshot)) => {
                    wait.report(&snapshot);
                    return Ok(outcome);
                }
                Ok(Polled::Live(snapshot)) => {
                    wait.report(&snapshot);
                    wait.pause(&snapshot).await;
                }
                Err(error) if error.is_transient() => wait.back_off(&error).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks the server to cancel the task. A modern server only acknowledges the request, so the task may still end with any outcome;
    /// a legacy server returns the cancelled task.
    ///
    /// # Errors
    /// Any [`RequestError`]; a legacy server refuses a task that has ended, with [`RequestError::Rpc`].
    pub async fn cancel(&self) -> Result<Option<TaskSnapshot>, RequestError> {
        let answer = self.request(Method::TasksCancel).await?;
        match self.connection.era().await?.legacy() {
            Some(_) => TaskSnapshot::read(answer.as_str()).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the task, and its outcome if it has ended.
    async fn poll(&self) -> Result<Polled, RequestError> {
        let snapshot = self.get().await?;
        if !snapshot.status.is_final() {
            return Ok(Polled::Live(snapshot));
        }
        let outcome = match &snapshot.outcome {
            Some(outcome) => outcome.clone(),
            None => self.fetch_outcome(snapshot.status).await?,
        };
        Ok(Polled::Ended(outcome, snapshot))
    }

    /// Reads the outcome of an ended legacy task (G1-29).
    async fn fetch_outcome(&self, status: TaskStatus) -> Result<Outcome, RequestError> {
        if self.connection.era().await?.legacy().is_none() {
            let reason = format!("the task is {}, but its result is missing", status.as_str());
            return Err(RequestError::Invalid(reason));
        }
        match self.request(Method::TasksResult).await {
            Ok(result) => Ok(Outcome::result(result)),
            Err(RequestError::Rpc(failure)) if status == TaskStatus::Failed => Ok(Outcome::RpcError(failure)),
            Err(error) => Err(error),
        }
    }

    async fn request(&self, method: Method) -> Result<Json, RequestError> {
        let params = Map::from_iter([("taskId".to_owned(), Value::from(self.id.as_str()))]);
        self.connection.request(method, params).await
    }
}

enum Polled {
    Live(TaskSnapshot),
    Ended(Outcome, TaskSnapshot),
}

/// The state of [`TaskHandle::wait`].
struct Wait<'a> {
    handle: &'a TaskHandle,
    on_event: Observer<'a>,
    last_seen: Option<TaskSnapshot>,
    /// In a row.
    failures: u32,
}

impl Wait<'_> {
    fn report(&mut self, snapshot: &TaskSnapshot) {
        if std::mem::take(&mut self.failures) > 0 {
            (self.on_event)(Event::Recovered);
        }
        if self.last_seen.as_ref() != Some(snapshot) {
            (self.on_event)(Event::Status(snapshot));
            self.last_seen = Some(snapshot.clone());
        }
    }

    async fn pause(&self, snapshot: &TaskSnapshot) {
        let connection = &self.handle.connection;
        connection
            .sleep(polling::next_poll(snapshot.poll_interval, connection.jitter()))
            .await;
    }

    async fn back_off(&mut self, error: &RequestError) {
        let connection = &self.handle.connection;
        self.failures = self.failures.saturating_add(1);
        let retry_in = polling::next_retry(self.failures, error.retry_after(), connection.jitter());
        (self.on_event)(Event::Retrying {
            error,
            attempt: self.failures,
            retry_in,
        });
        connection.sleep(retry_in).await;
    }
}
