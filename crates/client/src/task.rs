//! A task on a server: reading it, waiting for it, cancelling it.

use crate::{Connection, Event, Observer, Outcome, RequestError, Status, TaskSnapshot, pace};
use longhaul_core::Json;
use longhaul_wire::Method;
use serde_json::{Map, Value};

/// A task by its id. Cheap to clone; dropping it changes nothing for the task.
#[derive(Debug, Clone)]
pub struct TaskHandle {
    connection: Connection,
    id: String,
    /// What the server showed when it made the task, if that was just now.
    created: Option<TaskSnapshot>,
}

impl TaskHandle {
    pub(crate) fn new(connection: Connection, id: String, created: Option<TaskSnapshot>) -> Self {
        Self {
            connection,
            id,
            created,
        }
    }

    /// The server's id for it. Where there is no authentication, whoever knows it can read the task.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The server it lives on.
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
    /// The server is polled as it asks to be. While it is down, overloaded or restarting it is asked again and again, more
    /// and more slowly, without end: bound the wait from outside by dropping the future, which does not touch the task.
    ///
    /// # Errors
    /// A [`RequestError`] that will not go away by itself, for example for an unknown task.
    pub async fn wait(&self, on_event: Observer<'_>) -> Result<Outcome, RequestError> {
        let mut watch = Watch {
            handle: self,
            on_event,
            last_seen: None,
            failures: 0,
        };
        if let Some(created) = &self.created {
            watch.seen(created);
            watch.pause(created).await;
        }
        loop {
            match self.look().await {
                Ok(Look::Ended(outcome, snapshot)) => {
                    watch.seen(&snapshot);
                    return Ok(outcome);
                }
                Ok(Look::Going(snapshot)) => {
                    watch.seen(&snapshot);
                    watch.pause(&snapshot).await;
                }
                Err(error) if error.is_transient() => watch.trouble(&error).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks the server to end the task. A modern server takes note and answers nothing about the task (G2-45), so its
    /// outcome may still be any; a legacy server shows the cancelled task.
    ///
    /// # Errors
    /// Any [`RequestError`]; a legacy server refuses a task that has ended, with [`RequestError::Rpc`] (G1-51).
    pub async fn cancel(&self) -> Result<Option<TaskSnapshot>, RequestError> {
        let answer = self.request(Method::TasksCancel).await?;
        match self.connection.era().await?.legacy() {
            Some(_) => TaskSnapshot::read(answer.as_str()).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the task and, where the server keeps it apart, its outcome.
    async fn look(&self) -> Result<Look, RequestError> {
        let snapshot = self.get().await?;
        if !snapshot.status.is_final() {
            return Ok(Look::Going(snapshot));
        }
        let outcome = match &snapshot.outcome {
            Some(outcome) => outcome.clone(),
            None => self.fetch_outcome(snapshot.status).await?,
        };
        Ok(Look::Ended(outcome, snapshot))
    }

    /// The outcome of an ended legacy task: what the call itself would have been answered (G1-29).
    async fn fetch_outcome(&self, status: Status) -> Result<Outcome, RequestError> {
        if self.connection.era().await?.legacy().is_none() {
            let reason = format!("the task is {}, but its result is missing", status.as_str());
            return Err(RequestError::Invalid(reason));
        }
        match self.request(Method::TasksResult).await {
            Ok(result) => Ok(Outcome::result(result)),
            Err(RequestError::Rpc(failure)) if status == Status::Failed => Ok(Outcome::RpcError(failure)),
            Err(error) => Err(error),
        }
    }

    async fn request(&self, method: Method) -> Result<Json, RequestError> {
        let params = Map::from_iter([("taskId".to_owned(), Value::from(self.id.as_str()))]);
        self.connection.request(method, params).await
    }
}

enum Look {
    Going(TaskSnapshot),
    Ended(Outcome, TaskSnapshot),
}

/// What [`TaskHandle::wait`] remembers between two looks.
struct Watch<'a> {
    handle: &'a TaskHandle,
    on_event: Observer<'a>,
    last_seen: Option<TaskSnapshot>,
    /// In a row.
    failures: u32,
}

impl Watch<'_> {
    fn seen(&mut self, snapshot: &TaskSnapshot) {
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
            .sleep(pace::next_poll(snapshot.poll_interval, connection.chance()))
            .await;
    }

    async fn trouble(&mut self, error: &RequestError) {
        let connection = &self.handle.connection;
        self.failures = self.failures.saturating_add(1);
        let retry_in = pace::next_retry(self.failures, error.retry_after(), connection.chance());
        (self.on_event)(Event::Trouble {
            error,
            attempt: self.failures,
            retry_in,
        });
        connection.sleep(retry_in).await;
    }
}
