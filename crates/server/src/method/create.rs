//! `tools/call`: as a task, or waited for.

use super::route::{Asking, Route, Unroutable};
use crate::{
    answer::{Answer, store_failed},
    dispatch::Call,
    front::Front,
    progress::ProgressNews,
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
    let route = Route::of(tool.settings().policy, asking(call)?).map_err(|why| unroutable(why, &wish.name))?;
    // Read before anything starts: a call that is refused for it must not run.
    let progress = ProgressNews::wanted(&call.meta)?;
    let arguments = wish.arguments.map_or_else(|| Json::trusted("{}"), Json::from);
    let checked = tool.check(arguments.as_str());
    let tool_call = ToolCall {
        tool: Arc::clone(tool),
        arguments,
        owner: call.caller.owner(),
        origin: call.caller.origin(),
        cancel_if_caller_leaves: call.caller.generation == Generation::Modern,
    };
    match (route, checked) {
        (Route::Task, checked) => as_task(front, call, tool_call, checked).await,
        (Route::Wait { .. }, Err(wrong)) => Ok(refused(front, call, &wrong)),
        (Route::Wait { promote_after }, Ok(())) => {
            let waiting = front.engine.begin(tool_call).await.map_err(store_failed)?;
            Ok(waiting::answer(front, waiting, call, progress, promote_after))
        }
    }
}

fn unroutable(why: Unroutable, tool: &str) -> RpcError {
    match why {
        Unroutable::MustBeTask => RpcError::must_be_task(tool),
        Unroutable::CannotBeTask => RpcError::cannot_be_task(tool),
        Unroutable::MustDeclare => RpcError::missing_capability(Capability::Tasks),
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

/// Arguments that do not fit are a result the model can act on; nothing was started.
fn refused(front: &Front, call: &Call<'_>, wrong: &ArgumentError) -> Answer {
    let outcome = Outcome::tool_error(&wrong.to_string());
    Answer::written(|out| waiting::write_outcome(out, call.id, &outcome, call.caller.generation, front))
}
