//! `tasks/get`: one read, written for the era of the request.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    interaction::legacy::push_stream,
    response::{Answer, store_failed},
};
use longhaul_core::{Capability, Origin, Task, store::Record};
use longhaul_runtime::{Engine, QueueWait};
use longhaul_wire::{Generation, RpcError, legacy, modern};

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    if request.caller.declares_legacy_tasks_only() {
        return Box::pin(answer_with_legacy_task(methods, request)).await;
    }
    let id = request.task_id()?;
    let engine = &methods.engine;
    let record = engine.get(&request.caller.scope(), &id).await.map_err(store_failed)?;
    let record = record.ok_or_else(RpcError::task_not_found)?;
    let mut record = record.for_client(request.caller.capabilities());
    // A session that asks about a task gets its messages from then on, also if an earlier session created it.
    push_stream::follow_for(&methods.interaction, &request.caller, &record.task);
    say_what_it_waits_for(engine, &mut record.task).await?;
    let exit = methods.interaction.cancelled_exits.of(engine, &record.task).await;
    let now = engine.ports().clock.read();
    Ok(Answer::result(request.id, |out| match request.caller.generation {
        Generation::Legacy => legacy::tasks::write_get(out, &record, exit.as_deref(), now),
        Generation::Modern => modern::tasks::write_get(out, &record, exit.as_deref(), &methods.server_info, now),
    }))
}

/// For a modern client that declares the legacy `tasks` and not the extension.
async fn answer_with_legacy_task(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let mut record = legacy_task(methods, request).await?;
    say_what_it_waits_for(&methods.engine, &mut record.task).await?;
    let exit = methods
        .interaction
        .cancelled_exits
        .of(&methods.engine, &record.task)
        .await;
    Ok(legacy_task_answer(methods, request, &record, exit.as_deref()))
}

/// The task that such a client names: it reaches those that it created as a legacy client, and no others.
///
/// # Errors
/// As if it had declared nothing; the store's.
pub(super) async fn legacy_task(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Record, RpcError> {
    let id = request.params.task_id()?.parse().map_err(|_| undeclared())?;
    let record = methods.engine.get(&request.caller.scope(), &id).await;
    record
        .map_err(store_failed)?
        .filter(|record| record.task.origin == Origin::Legacy)
        .map(|record| record.for_client(request.caller.capabilities()))
        .ok_or_else(undeclared)
}

pub(super) fn undeclared() -> RpcError {
    RpcError::missing_capability(Capability::Tasks)
}

pub(super) fn legacy_task_answer(
    methods: &Methods,
    request: &AdmittedRequest<'_>,
    record: &Record,
    exit: Option<&str>,
) -> Answer {
    let now = methods.engine.ports().clock.read();
    Answer::result(request.id, |out| {
        modern::tasks::write_legacy_task(out, record, exit, &methods.server_info, now);
    })
}

/// Puts what a queued task waits for into its status message. It would be out of date at once, so it is neither stored nor pushed.
async fn say_what_it_waits_for(engine: &Engine, task: &mut Task) -> Result<(), RpcError> {
    if let Some(wait) = engine.queue_wait(task).await.map_err(store_failed)? {
        task.status = Some(match (&wait, task.status.take()) {
            // Why there is another attempt, unless it says when that begins, too.
            (QueueWait::NextTry(next), Some(why)) if !why.contains("next try") => format!("{why}; {next}").into(),
            _ => wait.to_string().into(),
        });
    }
    Ok(())
}
