//! `tasks/get`: one read, one projection.

use super::task_id;
use crate::{
    dispatch::Call,
    interaction::push::session_stream,
    response::{Answer, store_failed},
    transport::front::Front,
};
use longhaul_core::Task;
use longhaul_wire::{Generation, RpcError, legacy as wire, modern};
use std::sync::Arc;

pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let id = task_id(call)?;
    let record = front
        .engine
        .get(&call.caller.scope(), &id)
        .await
        .map_err(store_failed)?;
    let mut record = record.ok_or_else(RpcError::task_not_found)?;
    // Whoever asks about a task wants to hear of it, also on a stream of a later session.
    session_stream::follow_for(front, &call.caller, &record.task);
    say_what_it_waits_for(front, &mut record.task).await?;
    let now = front.engine.ports().clock.read();
    Ok(Answer::result(call.id, |out| match call.caller.generation {
        Generation::Legacy => wire::tasks::write_get(out, &record, now),
        Generation::Modern => modern::tasks::write_get(out, &record, &front.identity, now),
    }))
}

/// Puts it into the status message of a queued task. For one answer only: it would be out of date at once, so it is neither stored nor pushed.
pub(super) async fn say_what_it_waits_for(front: &Front, task: &mut Task) -> Result<(), RpcError> {
    if let Some(wait) = front.engine.describe_wait(task).await.map_err(store_failed)? {
        task.status = Some(wait);
    }
    Ok(())
}
