//! One file a method.

mod cancel_task;
mod complete;
mod core_task;
mod create;
pub(crate) mod custom;
mod discover;
mod get_prompt;
mod get_task;
pub(crate) mod handoff;
mod initialize;
mod list;
mod list_tasks;
mod listen;
mod mirrored;
mod resources;
mod route;
mod set_level;
mod subscribe;
mod task_resource;
mod task_result;
mod update_task;

pub(crate) use list::FirstPages;
pub(crate) use mirrored::Mirrored;
pub(crate) use route::Patience;

use crate::{answer::Answer, dispatch::Call, front::Front};
use list::List;
use longhaul_core::TaskId;
use longhaul_wire::{Method, RpcError};
use std::sync::Arc;

/// Answers a request by its method. `tasks/get` outnumbers all others and its future is small; theirs would make the one for
/// every request large, and it is moved several times on its way through HTTP.
pub(crate) async fn answer(front: &Arc<Front>, method: Method, call: &Call<'_>) -> Result<Answer, RpcError> {
    match method {
        Method::TasksGet if call.caller.declares_core_tasks_only() => Box::pin(core_task::get(front, call)).await,
        Method::TasksCancel if call.caller.declares_core_tasks_only() => Box::pin(core_task::cancel(front, call)).await,
        Method::TasksGet => get_task::answer(front, call).await,
        Method::ToolsCall => Box::pin(create::answer(front, call)).await,
        Method::TasksResult => Box::pin(task_result::answer(front, call)).await,
        Method::TasksUpdate => Box::pin(update_task::answer(front, call)).await,
        Method::TasksCancel => Box::pin(cancel_task::answer(front, call)).await,
        Method::TasksList => Box::pin(list_tasks::answer(front, call)).await,
        Method::SubscriptionsListen => Box::pin(listen::answer(front, call)).await,
        Method::ToolsList => list::answer(front, call, List::Tools),
        Method::PromptsList => list::answer(front, call, List::Prompts),
        Method::PromptsGet => get_prompt::answer(front, call),
        Method::CompletionComplete => complete::answer(front, call),
        Method::LoggingSetLevel => set_level::answer(front, call),
        Method::ResourcesSubscribe => Box::pin(subscribe::subscribe(front, call)).await,
        Method::ResourcesUnsubscribe => subscribe::unsubscribe(front, call),
        Method::Initialize => initialize::answer(front, call),
        Method::Discover => Ok(discover::answer(front, call)),
        Method::Ping => Ok(Answer::result(call.id, |out| out.push_str("{}"))),
        Method::ResourcesList => list::answer(front, call, List::Resources),
        Method::ResourceTemplatesList => list::answer(front, call, List::Templates),
        Method::ResourcesRead => Box::pin(resources::read(front, call)).await,
        unserved => Err(RpcError::method_not_found(call.caller.generation, unserved.as_str())),
    }
}

/// The task a request names. What cannot be an id is answered like an unknown one (S-05).
fn task_id(call: &Call<'_>) -> Result<TaskId, RpcError> {
    call.params.task_id()?.parse().map_err(|_| RpcError::task_not_found())
}
