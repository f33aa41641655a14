//! `tasks/update` (modern): answers to a task's questions, applied before they are acknowledged (C-10).

use crate::{
    dispatch::Call,
    response::{Answer, store_failed},
    session::replies,
    transport::front::Front,
};
use longhaul_core::{InputKey, Json, TaskId};
use longhaul_wire::{RpcError, modern};
use std::{collections::BTreeMap, sync::Arc};

pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let update = call.params.update_task()?;
    let id: TaskId = update.task_id.parse().map_err(|_| RpcError::task_not_found())?;
    let answers: BTreeMap<InputKey, Json> = update
        .input_responses
        .iter()
        .map(|(key, answer)| (InputKey::named(&**key), Json::from(*answer)))
        .collect();
    let scope = call.caller.scope();
    let record = front.engine.get(&scope, &id).await.map_err(store_failed)?;
    // All of them before any is written: a request is refused whole (G2-42).
    for input in record.ok_or_else(RpcError::task_not_found)?.inputs {
        if let Some(answer) = answers.get(&input.key) {
            replies::check(&input.request, answer)?;
        }
    }
    let known = front.engine.answer(&scope, &id, answers).await.map_err(store_failed)?;
    known.ok_or_else(RpcError::task_not_found)?;
    Ok(Answer::result(call.id, |out| {
        modern::tasks::write_ack(out, &front.identity)
    }))
}
