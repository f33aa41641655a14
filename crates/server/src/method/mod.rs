//! One file a method.

mod cancel_task;
mod create;
mod discover;
mod get_task;
mod initialize;
mod list_tasks;
mod list_tools;
mod resources;
mod route;
mod task_result;
mod update_task;

pub(crate) use list_tools::ToolTexts;

use crate::{answer::Answer, dispatch::Call, front::Front};
use longhaul_core::TaskId;
use longhaul_wire::{Method, RpcError};
use std::sync::Arc;

/// Answers a request by its method. `tasks/get` outnumbers all others and its future is small; theirs would make the one for
/// every request large, and it is moved several times on its way through HTTP.
pub(crate) async fn answer(front: &Arc<Front>, method: Method, call: &Call<'_>) -> Result<Answer, RpcError> {
    match method {
        Method::TasksGet => get_task::answer(front, call).await,
        Method::ToolsCall => Box::pin(create::answer(front, call)).await,
        Method::TasksResult => Box::pin(task_result::answer(front, call)).await,
        Method::TasksUpdate => Box::pin(update_task::answer(front, call)).await,
        Method::TasksCancel => Box::pin(cancel_task::answer(front, call)).await,
        Method::TasksList => Box::pin(list_tasks::answer(front, call)).await,
        Method::ToolsList => list_tools::answer(front, call),
        Method::Initialize => initialize::answer(front, call),
        Method::Discover => Ok(discover::answer(front, call)),
        Method::Ping => Ok(Answer::result(call.id, |out| out.push_str("{}"))),
        Method::ResourcesList => resources::list(front, call),
        Method::ResourceTemplatesList => resources::list_templates(front, call),
        Method::ResourcesRead => Box::pin(resources::read(front, call)).await,
        unserved => Err(RpcError::method_not_found(call.caller.generation, unserved.as_str())),
    }
}

/// The task a request names. What cannot be an id is answered like an unknown one (S-05).
fn task_id(call: &Call<'_>) -> Result<TaskId, RpcError> {
    call.params.task_id()?.parse().map_err(|_| RpcError::task_not_found())
}

/// A list that has one page has given out no cursor (U-07).
fn one_page(call: &Call<'_>) -> Result<(), RpcError> {
    match call.params.cursor()? {
        None => Ok(()),
        Some(_) => Err(RpcError::invalid_params(
            "params.cursor is not one this list gave out: it has one page",
        )),
    }
}
