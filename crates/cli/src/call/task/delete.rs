//! Deleting a task.

use crate::{
    exit::{failure::Failure, result::Exit},
    output,
    servers::notice::with_notice,
};
use longhaul_client::{RequestError, TaskHandle};
use serde_json::json;

/// Deletes the task on the server and in the journal.
pub(super) async fn delete(task: &TaskHandle, json: bool) -> Result<Exit, Failure> {
    match with_notice(task.connection().address(), task.delete()).await {
        Ok(()) => {}
        Err(RequestError::NoDeletion) => return Err(Failure::refused(RequestError::NoDeletion.to_string())),
        Err(error) => return Err(error.into()),
    }
    match json {
        true => output::json_line(&json!({"taskId": task.id(), "deleted": true})),
        false => output::note("the task is deleted, with its result, its log and its history"),
    }
    Ok(Exit::Answered)
}
