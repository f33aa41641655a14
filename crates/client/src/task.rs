//! A task on a server: reading it, cancelling it.

use crate::{
    Connection, Outcome, RequestError, TaskSnapshot, TaskStatus, Tool, connection::Request, era::Era,
    output_schema::OutputSchema,
};
use http::HeaderMap;
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
    /// That of its tool, if this handle comes from a call.
    output: Option<OutputSchema>,
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
            output: None,
        }
    }

    /// The same task, whose result must fit the output schema of `tool`.
    pub(crate) fn of_tool(self, tool: &Tool) -> Self {
        Self {
            output: tool.output.clone(),
            ..self
        }
    }

    /// Checks the outcome against the output schema of the tool, if that is known.
    pub(crate) fn check(&self, outcome: &Outcome) -> Result<(), RequestError> {
        self.output.as_ref().map_or(Ok(()), |output| output.check(outcome))
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

    /// Reads the outcome of an ended legacy task (G1-29).
    pub(crate) async fn fetch_outcome(&self, status: TaskStatus) -> Result<Outcome, RequestError> {
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

    /// The task as the server created it, if this handle comes from a call.
    pub fn created(&self) -> Option<&TaskSnapshot> {
        self.created.as_ref()
    }

    /// Waits for the result of a legacy task with the request that holds until there is one (G1-28). On its stream the server asks what the task
    /// needs. `None` if the server answers that there is no result yet, as some do.
    pub(crate) async fn hold_for_outcome(&self) -> Result<Option<Outcome>, RequestError> {
        let build = |_: &Era| Request {
            method: Method::TasksResult.as_str().to_owned(),
            params: Map::from_iter([("taskId".to_owned(), Value::from(self.id.as_str()))]),
            headers: HeaderMap::new(),
            timeout: None,
            wants_progress: false,
        };
        match self.connection.exchange(build, &mut |_| {}).await {
            Ok((result, _)) => Ok(Some(Outcome::result(result))),
            Err(RequestError::Rpc(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn request(&self, method: Method) -> Result<Json, RequestError> {
        let params = Map::from_iter([("taskId".to_owned(), Value::from(self.id.as_str()))]);
        self.connection.request(method, params).await
    }
}
