//! `tasks/cancel`: at once and once for legacy clients, by asking and as often as they like for modern ones (C-09).

use super::task_id;
use crate::{
    dispatch::Call,
    response::{Answer, store_failed},
    transport::front::Front,
};
use longhaul_core::{CancelMode, Task, store::Record};
use longhaul_runtime::CancelError;
use longhaul_wire::{Generation, RpcError, legacy, modern};
use std::sync::Arc;

pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let id = task_id(call)?;
    let mode = match call.caller.generation {
        Generation::Legacy => CancelMode::AtOnce,
        Generation::Modern => CancelMode::Cooperative,
    };
    let cancelled = front.engine.cancel(&call.caller.scope(), &id, mode).await;
    match (cancelled, call.caller.generation) {
        (Ok(task), Generation::Legacy) => Ok(shown(front, call, task)),
        (Ok(_) | Err(CancelError::Done(_)), Generation::Modern) => Ok(Answer::result(call.id, |out| {
            modern::tasks::write_ack(out, &front.identity)
        })),
        (Err(CancelError::Done(task)), Generation::Legacy) => {
            Err(RpcError::cannot_cancel(legacy::tasks::status(&task).as_str()))
        }
        (Err(CancelError::NotFound), _) => Err(RpcError::task_not_found()),
        (Err(CancelError::Store(error)), _) => Err(store_failed(error)),
    }
}

fn shown(front: &Front, call: &Call<'_>, task: Task) -> Answer {
    let now = front.engine.ports().clock.read();
    let record = Record {
        task,
        outcome: None,
        inputs: Vec::new(),
    };
    Answer::result(call.id, |out| legacy::tasks::write_get(out, &record, now))
}
