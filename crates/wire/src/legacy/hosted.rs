//! Tasks that a client hosts for us (G1-57): it may answer a question with one, and we are the one who polls.

use crate::{envelope::write_request, json, method::Method, object::object, projection::Status};
use serde_json::value::RawValue;
use std::borrow::Cow;

object! { struct Created { task = "task", } }
object! { struct Members { task_id = "taskId", status = "status", status_message = "statusMessage", poll_interval = "pollInterval", } }

/// A task of a client's, as far as whoever waits for it cares. Its id means something to that client only (G1-58).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedTask<'a> {
    /// Its id.
    pub id: Cow<'a, str>,
    /// How it stands.
    pub status: Status,
    /// The client's line about it.
    pub status_message: Option<Cow<'a, str>>,
    /// How many milliseconds to wait before asking again, if the client says so (G1-23).
    pub poll_interval: Option<u64>,
}

/// A client's answer is no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a task needs a taskId and one of the five statuses")]
pub struct NotATask;

impl<'a> HostedTask<'a> {
    /// Reads the answer to a question that offered the client to make a task of it; `None` if it answered at once, as it may (G1-05).
    ///
    /// # Errors
    /// [`NotATask`] if it has a `task` that is none.
    pub fn created(result: &'a RawValue) -> Result<Option<Self>, NotATask> {
        let mut created = Created::default();
        created.fill(result.get()).map_err(|_| NotATask)?;
        created.task.map(Self::read).transpose()
    }

    /// Reads a Task: the answer to `tasks/get` or `tasks/cancel`, or the params of `notifications/tasks/status`.
    ///
    /// # Errors
    /// [`NotATask`].
    pub fn read(task: &'a RawValue) -> Result<Self, NotATask> {
        let mut members = Members::default();
        members.fill(task.get()).map_err(|_| NotATask)?;
        let status = members.status.and_then(json::string).ok_or(NotATask)?;
        Ok(Self {
            id: members.task_id.and_then(json::string).ok_or(NotATask)?,
            status: Status::parse(&status).ok_or(NotATask)?,
            status_message: members.status_message.and_then(json::string),
            poll_interval: members.poll_interval.and_then(json::whole),
        })
    }
}

/// Appends `tasks/get`.
pub fn write_get(out: &mut String, id: &str, task: &str) {
    write_about(out, id, Method::TasksGet, task);
}

/// Appends `tasks/result`, which the client holds until the task is over (G1-28).
pub fn write_result(out: &mut String, id: &str, task: &str) {
    write_about(out, id, Method::TasksResult, task);
}

/// Appends `tasks/cancel`.
pub fn write_cancel(out: &mut String, id: &str, task: &str) {
    write_about(out, id, Method::TasksCancel, task);
}

fn write_about(out: &mut String, id: &str, method: Method, task: &str) {
    write_request(out, id, method.as_str(), |out| {
        out.push_str(r#"{"taskId":"#);
        json::push_string(out, task);
        out.push('}');
    });
}
