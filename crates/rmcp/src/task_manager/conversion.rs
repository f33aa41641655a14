//! Converts records to rmcp's types.

use longhaul_core::{
    Now, Outcome, UnixMillis,
    store::{Record, StoreError},
};
use rmcp::{
    ErrorData,
    model::{DetailedTask, InputRequests, JsonObject, Task, TaskPayload, TaskStatus},
};
use serde_json::json;

pub(super) fn task(task: &longhaul_core::Task, poll_interval_ms: Option<u64>, now: Now) -> Task {
    let mut converted = Task::new(
        task.id.as_str(),
        TaskStatus::Working,
        timestamp(now.in_the_world(task.created_at)),
        timestamp(now.in_the_world(task.updated_at)),
    );
    converted.status_message = task.status.as_deref().map(str::to_owned);
    converted.ttl_ms = task.deadline;
    converted.poll_interval_ms = poll_interval_ms;
    converted
}

pub(super) fn detailed_task(
    record: Record,
    poll_interval_ms: Option<u64>,
    now: Now,
) -> Result<DetailedTask, ErrorData> {
    let task = task(&record.task, poll_interval_ms, now);
    let payload = payload(record)
        .map_err(|error| ErrorData::internal_error(format!("the task's record cannot be read: {error}"), None))?;
    // `DetailedTask` takes the status from the payload.
    Ok(DetailedTask::new(task, payload))
}

fn payload(record: Record) -> Result<TaskPayload, serde_json::Error> {
    // A task that is to stop waits for no answers.
    let asks = !record.inputs.is_empty() && record.task.stop.is_none();
    // The TTL passed while no process ran the task: the engine's outcome is a result, and rmcp's is an error.
    let overdue = record.task.deadline.map(Outcome::deadline_passed);
    Ok(match record.outcome {
        Some(outcome) if Some(&outcome) == overdue.as_ref() => TaskPayload::Failed {
            error: JsonObject::from_iter([
                ("code".to_owned(), expired().code.0.into()),
                ("message".to_owned(), json!(expired().message)),
            ]),
        },
        Some(Outcome::Result { json, .. }) => TaskPayload::Completed {
            result: serde_json::from_str(json.as_str())?,
        },
        Some(Outcome::RpcError(failure)) => {
            let mut error = JsonObject::new();
            error.insert("code".to_owned(), failure.code.into());
            error.insert("message".to_owned(), json!(&*failure.message));
            if let Some(data) = failure.data {
                error.insert("data".to_owned(), serde_json::from_str(data.as_str())?);
            }
            TaskPayload::Failed { error }
        }
        Some(Outcome::Cancelled) => TaskPayload::Cancelled,
        None if asks => {
            let asked = record.inputs.iter().map(|input| {
                let name = input.name.as_deref().unwrap_or(input.key.as_str());
                Ok((name.to_owned(), serde_json::from_str(input.request.as_str())?))
            });
            TaskPayload::InputRequired {
                input_requests: asked.collect::<Result<InputRequests, serde_json::Error>>()?,
            }
        }
        None => TaskPayload::Working,
    })
}

/// The error of a task that takes longer than its TTL.
pub(super) fn expired() -> ErrorData {
    ErrorData::internal_error("task expired: TTL elapsed before completion", None)
}

fn timestamp(at: UnixMillis) -> String {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default().to_string()
}

pub(super) fn unknown_task(task_id: &str) -> ErrorData {
    ErrorData::invalid_params(format!("unknown task: {task_id}"), None)
}

pub(super) fn store_error(error: &StoreError) -> ErrorData {
    ErrorData::internal_error(format!("the task records cannot be read or written: {error}"), None)
}
