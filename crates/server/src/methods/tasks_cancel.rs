//! `tasks/cancel`. For a legacy client it cancels the task at once, and is refused when the task has ended. For a modern one it asks the
//! work to stop, and can be repeated at any time.

use super::{
    Methods,
    tasks_get::{legacy_task, legacy_task_answer, undeclared},
};
use crate::{
    admission::request::AdmittedRequest,
    response::{Answer, store_failed},
};
use longhaul_core::{CancelMode, Task, store::Record};
use longhaul_runtime::CancelError;
use longhaul_wire::{Generation, RpcError, legacy, modern};

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    if request.caller.declares_legacy_tasks_only() {
        return answer_with_legacy_task(methods, request).await;
    }
    let id = request.task_id()?;
    let mode = match request.caller.generation {
        Generation::Legacy => CancelMode::AtOnce,
        Generation::Modern => CancelMode::Cooperative,
    };
    let cancelled = methods.engine.cancel(&request.caller.scope(), &id, mode).await;
    match (cancelled, request.caller.generation) {
        (Ok(task), Generation::Legacy) => {
            let now = methods.engine.ports().clock.read();
            let record = without_payloads(task);
            Ok(Answer::result(request.id, |out| {
                legacy::tasks::write_get(out, &record, None, now);
            }))
        }
        (Ok(_) | Err(CancelError::Done(_)), Generation::Modern) => Ok(Answer::result(request.id, |out| {
            modern::tasks::write_ack(out, &methods.server_info);
        })),
        (Err(CancelError::Done(task)), Generation::Legacy) => {
            Err(RpcError::cannot_cancel(legacy::tasks::status(&task).as_str()))
        }
        (Err(CancelError::NotFound), _) => Err(RpcError::task_not_found()),
        (Err(CancelError::Store(error)), _) => Err(store_failed(error)),
    }
}

/// For a modern client that declares the legacy `tasks` and not the extension: as for a legacy client.
async fn answer_with_legacy_task(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let id = legacy_task(methods, request).await?.task.id.clone();
    let cancelled = methods
        .engine
        .cancel(&request.caller.scope(), &id, CancelMode::AtOnce)
        .await;
    match cancelled {
        Ok(task) => Ok(legacy_task_answer(methods, request, &without_payloads(task), None)),
        Err(CancelError::Done(task)) => Err(RpcError::cannot_cancel(legacy::tasks::status(&task).as_str())),
        Err(CancelError::NotFound) => Err(undeclared()),
        Err(CancelError::Store(error)) => Err(store_failed(error)),
    }
}

fn without_payloads(task: Task) -> Record {
    Record {
        task,
        outcome: None,
        inputs: Vec::new(),
    }
}
