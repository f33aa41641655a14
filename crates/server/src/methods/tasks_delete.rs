//! `dev.longhaul/tasks/delete`: a finished task goes with all that it has left. An extension of Longhaul, in both generations.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    response::{Answer, store_failed},
};
use longhaul_runtime::DeleteError;
use longhaul_wire::{Generation, RpcError, modern};

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let id = request.task_id()?;
    let deleted = methods.engine.delete(&request.caller.scope(), &id).await;
    match deleted {
        Ok(()) => Ok(Answer::result(request.id, |out| match request.caller.generation {
            Generation::Legacy => out.push_str("{}"),
            Generation::Modern => modern::tasks::write_ack(out, &methods.server_info),
        })),
        Err(DeleteError::NotFound) => Err(RpcError::task_not_found()),
        Err(DeleteError::Store(error)) => Err(store_failed(error)),
        Err(DeleteError::Live) => Err(RpcError::cannot_delete("Task has not ended: cancel it first")),
        Err(DeleteError::LiveChild) => Err(RpcError::cannot_delete(
            "A task that this one started has not ended: cancel that first",
        )),
        Err(DeleteError::Stopping) => Err(RpcError::cannot_delete(
            "Task has ended, but its work is still being stopped: try again in a moment",
        )),
        Err(DeleteError::Files) => Err(RpcError::internal(
            "The files of the task could not all be removed: try again later",
        )),
    }
}
