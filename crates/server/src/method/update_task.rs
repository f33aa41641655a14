//! `tasks/update` (modern): answers to a task's questions, applied before they are acknowledged (C-10).

use crate::{
    answer::{Answer, store_failed},
    dispatch::Call,
    front::Front,
};
use longhaul_core::{InputKey, Json};
use longhaul_wire::{RpcError, modern};
use std::sync::Arc;

pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let update = call.params.update_task()?;
    let id = update.task_id.parse().map_err(|_| RpcError::task_not_found())?;
    let answers = update
        .input_responses
        .iter()
        .map(|(key, answer)| (InputKey::named(&**key), Json::from(*answer)));
    let known = front
        .engine
        .answer(&call.caller.scope(), &id, answers.collect())
        .await
        .map_err(store_failed)?;
    known.ok_or_else(RpcError::task_not_found)?;
    Ok(Answer::result(call.id, |out| {
        modern::tasks::write_ack(out, &front.identity)
    }))
}
