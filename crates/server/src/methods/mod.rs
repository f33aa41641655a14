//! One file a method.

mod completion_complete;
mod core_task;
mod initialize;
mod logging_set_level;
mod prompts_get;
mod resources_read;
mod resources_subscribe;
mod server_discover;
mod subscriptions_listen;
mod task_cursor;
mod tasks_cancel;
mod tasks_get;
mod tasks_list;
mod tasks_result;
mod tasks_update;
mod tools_call;

use crate::{
    catalog::pages::{self, List},
    dispatch::Call,
    response::Answer,
    transport::front::Front,
};
use longhaul_core::TaskId;
use longhaul_wire::{Method, RpcError};
use std::sync::Arc;

/// Answers a request by its method. `tasks/get` outnumbers all others and its future is small; theirs would make the one for
/// every request large, and it is moved several times on its way through HTTP.
pub(crate) async fn answer(front: &Arc<Front>, method: Method, call: &Call<'_>) -> Result<Answer, RpcError> {
    match method {
        Method::TasksGet if call.caller.declares_core_tasks_only() => Box::pin(core_task::get(front, call)).await,
        Method::TasksCancel if call.caller.declares_core_tasks_only() => Box::pin(core_task::cancel(front, call)).await,
        Method::TasksGet => tasks_get::answer(front, call).await,
        Method::ToolsCall => Box::pin(tools_call::answer(front, call)).await,
        Method::TasksResult => Box::pin(tasks_result::answer(front, call)).await,
        Method::TasksUpdate => Box::pin(tasks_update::answer(front, call)).await,
        Method::TasksCancel => Box::pin(tasks_cancel::answer(front, call)).await,
        Method::TasksList => Box::pin(tasks_list::answer(front, call)).await,
        Method::SubscriptionsListen => Box::pin(subscriptions_listen::answer(front, call)).await,
        Method::ToolsList => pages::answer(front, call, List::Tools),
        Method::PromptsList => pages::answer(front, call, List::Prompts),
        Method::PromptsGet => prompts_get::answer(front, call),
        Method::CompletionComplete => completion_complete::answer(front, call),
        Method::LoggingSetLevel => logging_set_level::answer(front, call),
        Method::ResourcesSubscribe => Box::pin(resources_subscribe::subscribe(front, call)).await,
        Method::ResourcesUnsubscribe => resources_subscribe::unsubscribe(front, call),
        Method::Initialize => initialize::answer(front, call),
        Method::Discover => Ok(server_discover::answer(front, call)),
        Method::Ping => Ok(Answer::result(call.id, |out| out.push_str("{}"))),
        Method::ResourcesList => pages::answer(front, call, List::Resources),
        Method::ResourceTemplatesList => pages::answer(front, call, List::Templates),
        Method::ResourcesRead => Box::pin(resources_read::read(front, call)).await,
        unserved => Err(RpcError::method_not_found(call.caller.generation, unserved.as_str())),
    }
}

/// The task a request names. What cannot be an id is answered like an unknown one (S-05).
fn task_id(call: &Call<'_>) -> Result<TaskId, RpcError> {
    call.params.task_id()?.parse().map_err(|_| RpcError::task_not_found())
}
