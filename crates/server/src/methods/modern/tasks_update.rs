//! `tasks/update` (modern): answers to a task's questions, applied before they are acknowledged.

use crate::{
    admission::request::AdmittedRequest,
    interaction::check_answer,
    methods::Methods,
    response::{Answer, store_failed},
};
use longhaul_core::{InputKey, Json, TaskId};
use longhaul_wire::{RpcError, modern};
use std::collections::BTreeMap;

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let update = request.params.update_task()?;
    let id: TaskId = update.task_id.parse().map_err(|_| RpcError::task_not_found())?;
    let answers: BTreeMap<InputKey, Json> = update
        .input_responses
        .iter()
        .map(|(key, answer)| (InputKey::named(&**key), Json::from(*answer)))
        .collect();
    let (engine, scope) = (&methods.engine, request.caller.scope());
    let record = engine.get(&scope, &id).await.map_err(store_failed)?;
    let record = record.ok_or_else(RpcError::task_not_found)?;
    if record.task.is_confirmed_by_operators() && !answers.is_empty() {
        return Err(RpcError::invalid_params(
            "The task waits for an operator to confirm it, and its clients cannot",
        ));
    }
    // All of them are checked before any is written: a request is refused as a whole.
    for input in record.inputs {
        if let Some(answer) = answers.get(&input.key) {
            check_answer(&input.request, answer)?;
        }
    }
    let known = engine.answer(&scope, &id, answers).await.map_err(store_failed)?;
    known.ok_or_else(RpcError::task_not_found)?;
    Ok(Answer::result(request.id, |out| {
        modern::tasks::write_ack(out, &methods.server_info);
    }))
}
