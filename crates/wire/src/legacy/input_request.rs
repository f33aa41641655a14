//! Input requests as JSON-RPC requests to a legacy client.

use super::push_task_ref;
use crate::{
    input::request::InputRequest,
    json::{self, Edit, splice::splice},
    jsonrpc::{write_notification, write_request},
    meta::RELATED_TASK,
    params::TaskMetadata,
    protocol::RpcError,
};
use longhaul_core::{Json, TaskId};

/// An input request to be sent to a legacy client. An elicitation by URL gets an `elicitationId`, which
/// [`write_elicitation_complete`] uses: its own if it has one, else the request's id.
#[derive(Debug, Clone, Copy)]
pub struct LegacyInputRequest<'a> {
    /// The request's id, new for each delivery. It must be unguessable where the answer comes on another connection.
    pub id: &'a str,
    /// The input request, `{"method":…,"params":…}`.
    pub request: &'a str,
    /// The task that asks; `None` for a plain call.
    pub task: Option<&'a TaskId>,
    /// Allows the client to answer with a task of its own, if it has declared that capability. Not for roots.
    pub client_task: Option<TaskMetadata>,
}

impl LegacyInputRequest<'_> {
    /// Appends the request.
    ///
    /// # Errors
    /// −32603 if the input request is invalid. Nothing is appended then.
    pub fn write(&self, out: &mut String) -> Result<(), RpcError> {
        let invalid = || RpcError::internal("The tool's input request is not valid");
        let request = InputRequest::read(self.request).map_err(|_| invalid())?;
        let (mut related, mut metadata, mut elicitation) = (String::new(), String::new(), String::new());
        let mut edits = Vec::with_capacity(3);
        let related_edit;
        if let Some(task) = self.task {
            push_task_ref(&mut related, task);
            related_edit = [Edit::Set(RELATED_TASK, &related)];
            edits.push(Edit::Within("_meta", &related_edit));
        }
        edits.push(match self.client_task {
            Some(TaskMetadata { ttl }) => {
                push_task_metadata(&mut metadata, ttl);
                Edit::Set("task", &metadata)
            }
            None => Edit::Remove("task"),
        });
        if request.is_url() {
            json::push_string(&mut elicitation, self.id);
            edits.push(Edit::Default("elicitationId", &elicitation));
        }
        let start = out.len();
        let mut spliced = Ok(());
        write_request(out, self.id, request.method(), |out| {
            spliced = splice(out, request.params(), &edits);
        });
        spliced.map_err(|_| {
            out.truncate(start);
            invalid()
        })
    }
}

fn push_task_metadata(out: &mut String, ttl: Option<u64>) {
    out.push('{');
    if let Some(ttl) = ttl {
        out.push_str(r#""ttl":"#);
        json::push_int(out, ttl);
    }
    out.push('}');
}

/// Removes the related task from a client's answer, so that it is stored the same for both generations.
///
/// # Errors
/// −32602 if the answer is not an object.
pub fn strip_related_task(answer: &str) -> Result<Json, RpcError> {
    let mut out = String::with_capacity(answer.len());
    splice(
        &mut out,
        answer,
        &[Edit::Within("_meta", &[Edit::Remove(RELATED_TASK)])],
    )
    .map_err(|_| RpcError::invalid_params("An answer must be an object"))?;
    Ok(Json::trusted(out))
}

/// Appends `notifications/elicitation/complete`: an elicitation by URL has ended.
pub fn write_elicitation_complete(out: &mut String, elicitation_id: &str) {
    write_notification(out, "notifications/elicitation/complete", |out| {
        out.push_str(r#"{"elicitationId":"#);
        json::push_string(out, elicitation_id);
        out.push('}');
    });
}
