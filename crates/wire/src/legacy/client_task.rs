//! Tasks that a client runs: it may answer an input request with a task of its own, which the server then polls.

use crate::{
    json::{self, object::object},
    jsonrpc::write_request,
    protocol::Method,
    task::TaskStatus,
};
use serde_json::value::RawValue;
use std::borrow::Cow;

object! { struct Created { task = "task", } }
object! { struct Members { task_id = "taskId", status = "status", status_message = "statusMessage", poll_interval = "pollInterval", } }

/// A task that a client runs. Its id is valid with that client only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTask<'a> {
    /// Its id.
    pub id: Cow<'a, str>,
    /// Its status.
    pub status: TaskStatus,
    /// The client's status message.
    pub status_message: Option<Cow<'a, str>>,
    /// The poll interval the client asks for, in milliseconds.
    pub poll_interval: Option<u64>,
}

/// A client's answer is not a valid task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a task needs a taskId and one of the five statuses")]
pub struct InvalidClientTask;

impl<'a> ClientTask<'a> {
    /// Reads the answer to an input request that allowed a task; `None` if the client answered directly, as it may.
    ///
    /// # Errors
    /// [`InvalidClientTask`] if it has an invalid `task`.
    pub fn created(result: &'a RawValue) -> Result<Option<Self>, InvalidClientTask> {
        let mut created = Created::default();
        created.fill(result.get()).map_err(|_| InvalidClientTask)?;
        created.task.map(Self::read).transpose()
    }

    /// Reads a Task: the answer to `tasks/get` or `tasks/cancel`, or the params of `notifications/tasks/status`.
    ///
    /// # Errors
    /// [`InvalidClientTask`].
    pub fn read(task: &'a RawValue) -> Result<Self, InvalidClientTask> {
        let mut members = Members::default();
        members.fill(task.get()).map_err(|_| InvalidClientTask)?;
        let status = members.status.and_then(json::string).ok_or(InvalidClientTask)?;
        Ok(Self {
            id: members.task_id.and_then(json::string).ok_or(InvalidClientTask)?,
            status: TaskStatus::parse(&status).ok_or(InvalidClientTask)?,
            status_message: members.status_message.and_then(json::string),
            poll_interval: members.poll_interval.and_then(json::whole),
        })
    }
}

/// Appends `tasks/get`.
pub fn write_get(out: &mut String, id: &str, task: &str) {
    write_task_request(out, id, Method::TasksGet, task);
}

/// Appends `tasks/result`, which the client answers when the task has ended.
pub fn write_result(out: &mut String, id: &str, task: &str) {
    write_task_request(out, id, Method::TasksResult, task);
}

/// Appends `tasks/cancel`.
pub fn write_cancel(out: &mut String, id: &str, task: &str) {
    write_task_request(out, id, Method::TasksCancel, task);
}

fn write_task_request(out: &mut String, id: &str, method: Method, task: &str) {
    write_request(out, id, method.as_str(), |out| {
        out.push_str(r#"{"taskId":"#);
        json::push_string(out, task);
        out.push('}');
    });
}
