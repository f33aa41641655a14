//! `tools/call`: as a task, or waited for.

use super::route::{Asking, Route};
use crate::{
    answer::{Answer, store_failed},
    dispatch::Call,
    front::Front,
    waiting,
};
use longhaul_core::{Json, Outcome, Task};
use longhaul_runtime::{ArgumentError, Call as ToolCall};
use longhaul_wire::{Capability, Generation, RpcError, legacy, modern};
use std::sync::Arc;

/// The order is X-12's: the tool exists → gating → arguments.
pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let wish = call.params.call_tool()?;
    let tool = front
        .engine
        .catalog()
        .get(&wish.name)
        .ok_or_else(|| RpcError::unknown_tool(&wish.name))?;
    let route = Route::of(tool.settings().policy, asking(call)?);
    let arguments = wish.arguments.map_or_else(|| Json::trusted("{}"), Json::from);
    let checked = tool.check(arguments.as_str());
    let tool_call = ToolCall {
        tool: Arc::clone(tool),
        arguments,
        owner: call.caller.owner(),
        origin: call.caller.origin(),
        cancel_if_caller_leaves: call.caller.generation == Generation::Modern,
    };
    match route {
        Route::MustBeTask => Err(RpcError::must_be_task(&wish.name)),
        Route::CannotBeTask => Err(RpcError::cannot_be_task(&wish.name)),
        Route::MustDeclare => Err(RpcError::missing_capability(Capability::Tasks)),
        Route::Task => as_task(front, call, tool_call, checked).await,
        Route::Wait => waited_for(front, call, tool_call, checked, None).await,
        Route::WaitThenTask(millis) => waited_for(front, call, tool_call, checked, Some(millis)).await,
    }
}

fn asking(call: &Call<'_>) -> Result<Asking, RpcError> {
    Ok(match call.caller.generation {
        Generation::Modern if call.caller.declares_tasks => Asking::ModernDeclaring,
        Generation::Modern => Asking::ModernPlain,
        // Revisions without tasks ignore the member (G1-05).
        Generation::Legacy if call.caller.has_core_tasks() && call.params.task_wish()?.is_some() => Asking::LegacyTask,
        Generation::Legacy => Asking::LegacyPlain,
    })
}

async fn as_task(
    front: &Arc<Front>,
    call: &Call<'_>,
    tool_call: ToolCall,
    checked: Result<(), ArgumentError>,
) -> Result<Answer, RpcError> {
    let created = match (checked, call.caller.generation) {
        (Ok(()), _) => front.engine.create(tool_call).await,
        (Err(wrong), Generation::Modern) => return Ok(refused(front, call, &wrong)),
        // An accepted augmented call is owed a task, also for arguments that can never run.
        (Err(wrong), Generation::Legacy) => {
            let outcome = Outcome::tool_error(&wrong.to_string());
            front.engine.create_ended(tool_call, outcome).await
        }
    };
    Ok(created_answer(front, call, &created.map_err(store_failed)?))
}

fn created_answer(front: &Front, call: &Call<'_>, task: &Task) -> Answer {
    let now = front.engine.ports().clock.now();
    Answer::result(call.id, |out| match call.caller.generation {
        Generation::Legacy => legacy::tasks::write_created(out, task, None, now),
        Generation::Modern => modern::tasks::write_created(out, task, &front.identity, now),
    })
}

async fn waited_for(
    front: &Arc<Front>,
    call: &Call<'_>,
    tool_call: ToolCall,
    checked: Result<(), ArgumentError>,
    promote_after: Option<u64>,
) -> Result<Answer, RpcError> {
    if let Err(wrong) = checked {
        return Ok(refused(front, call, &wrong));
    }
    let waiting = front.engine.begin(tool_call).await.map_err(store_failed)?;
    waiting::answer(front, waiting, call, promote_after).await
}

/// Arguments that do not fit are a result the model can act on; nothing was started.
fn refused(front: &Front, call: &Call<'_>, wrong: &ArgumentError) -> Answer {
    let outcome = Outcome::tool_error(&wrong.to_string());
    Answer::written(|out| waiting::write_outcome(out, call.id, &outcome, call.caller.generation, front))
}
