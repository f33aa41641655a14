//! A call repeated under its idempotency key. It has the outcome of the first call, even if the tool was changed or removed since, so the first
//! call is looked up before the request is compared with the tool.

use super::{
    Calls,
    blocking::{BlockingCall, CallContext, QuestionChannel},
    policy::{CallerMode, Route, WaitPolicy},
    start::{caller_mode, created, immediate_response_text, task_metadata},
};
use crate::{
    admission::request::AdmittedRequest,
    interaction::{
        exchange,
        legacy::push_stream,
        notifications::RequestNotifications,
        rounds::{Round, RoundRequest},
    },
    response::{Answer, OwnedRequestId, store_failed},
};
use longhaul_core::{Json, Millis, Task};
use longhaul_runtime::Tool;
use longhaul_wire::RpcError;
use std::sync::Arc;

/// The task of the first call under the idempotency key `key`, if this is the same call again. For a retry of a round nothing is looked up: its
/// state names its call.
///
/// # Errors
/// The store's.
pub(crate) async fn find(
    calls: &Calls,
    request: &AdmittedRequest<'_>,
    key: &str,
    asked: &RoundRequest<'_>,
) -> Result<Option<Task>, RpcError> {
    if asked.state.is_some() {
        return Ok(None);
    }
    let none = Json::trusted("{}");
    let arguments = asked.arguments.as_ref().unwrap_or(&none);
    let found = (calls.engine).find_repeated(request.caller.principal(), asked.target, key, arguments);
    found.await.map_err(store_failed)
}

/// Answers with the first call's task to a client that asks for one, else with its outcome. `tool` is the tool that has the name
/// now.
///
/// # Errors
/// Those of the request's shape, and the store's.
pub(crate) async fn rejoin(
    calls: &Arc<Calls>,
    request: &AdmittedRequest<'_>,
    task: Task,
    tool: Option<&Tool>,
    asked: RoundRequest<'_>,
) -> Result<Answer, RpcError> {
    let mode = caller_mode(request, task_metadata(request)?.as_ref());
    let (id, generation) = (OwnedRequestId::of(request.id), request.caller.generation);
    let handoff = request.caller.mode.handoff;
    let handoff = tool.and_then(|tool| handoff.of_tool(tool, &calls.engine.catalog().snapshot()));
    match route(tool, handoff, mode, &task) {
        Route::Task => {
            let task = calls.engine.announce(task).await.map_err(store_failed)?;
            push_stream::follow_for(&calls.interaction, &request.caller, &task);
            if let Some(audit) = &request.audit {
                audit.created(&task.id);
            }
            let hint = tool.map(immediate_response_text);
            Ok(created(calls, &id, generation, &task, hint.as_deref()).into())
        }
        Route::Wait(wait_policy) => {
            let round = Round::of(&calls.interaction, request, asked)?;
            let context = CallContext {
                sender: Arc::clone(request.caller.identity()),
                calls: Arc::clone(calls),
                tool: Arc::clone(&task.tool),
                generation,
                id,
                notifications: RequestNotifications::requested_by(&calls.interaction, request)?,
                resumable_session: request.resumable_session().cloned(),
                wait_policy,
                questions: QuestionChannel::of(request, round),
                audit: request.audit.clone(),
            };
            let waiting = calls.engine.rejoin(&task.id).await.map_err(store_failed)?;
            // Its retention may have passed since it was found.
            let waiting = waiting.ok_or_else(|| RpcError::unknown_tool(&task.tool, None))?;
            let call = BlockingCall::begun(context, waiting);
            Ok(exchange::answer_with(&calls.interaction, request, Box::new(call)))
        }
    }
}

/// A task stays one for a client that supports tasks. Otherwise the tool's policy decides, where it still allows the call.
fn route(tool: Option<&Tool>, handoff: Option<Millis>, mode: CallerMode, task: &Task) -> Route {
    let supports_tasks = mode.takes_task();
    if supports_tasks && task.announced {
        return Route::Task;
    }
    let settings = tool.map(Tool::settings);
    let route = settings.and_then(|settings| Route::of(settings.policy, handoff, mode).ok());
    route.unwrap_or(match supports_tasks {
        true => Route::Task,
        false => Route::Wait(WaitPolicy::Unlimited),
    })
}
