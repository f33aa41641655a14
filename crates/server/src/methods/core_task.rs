//! `tasks/get` and `tasks/cancel` of a modern client that declares the legacy `tasks` and not the extension: it reaches the tasks it
//! created as a legacy client, and no others (C-12). Anything else is answered as if it had declared nothing.

use super::tasks_get::say_what_it_waits_for;
use crate::{
    dispatch::Call,
    response::{Answer, store_failed},
    transport::front::Front,
};
use longhaul_core::{CancelMode, Origin, store::Record};
use longhaul_runtime::CancelError;
use longhaul_wire::{Capability, RpcError, legacy, modern};
use std::sync::Arc;

pub(super) async fn get(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let mut record = own(front, call).await?;
    say_what_it_waits_for(front, &mut record.task).await?;
    Ok(shown(front, call, &record))
}

/// As a legacy client cancels: at once, and once.
pub(super) async fn cancel(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let id = own(front, call).await?.task.id;
    let cancelled = front.engine.cancel(&call.caller.scope(), &id, CancelMode::AtOnce).await;
    match cancelled {
        Ok(task) => Ok(shown(
            front,
            call,
            &Record {
                task,
                outcome: None,
                inputs: Vec::new(),
            },
        )),
        Err(CancelError::Done(task)) => Err(RpcError::cannot_cancel(legacy::tasks::status(&task).as_str())),
        Err(CancelError::NotFound) => Err(undeclared()),
        Err(CancelError::Store(error)) => Err(store_failed(error)),
    }
}

async fn own(front: &Front, call: &Call<'_>) -> Result<Record, RpcError> {
    let id = call.params.task_id()?.parse().map_err(|_| undeclared())?;
    let record = front
        .engine
        .get(&call.caller.scope(), &id)
        .await
        .map_err(store_failed)?;
    record
        .filter(|record| record.task.origin == Origin::Legacy)
        .ok_or_else(undeclared)
}

fn undeclared() -> RpcError {
    RpcError::missing_capability(Capability::Tasks)
}

fn shown(front: &Front, call: &Call<'_>, record: &Record) -> Answer {
    let now = front.engine.ports().clock.read();
    Answer::result(call.id, |out| {
        modern::tasks::write_core_task(out, record, &front.identity, now)
    })
}
