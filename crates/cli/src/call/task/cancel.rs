//! Cancelling a task.

use super::show::{as_json, with_result};
use crate::{
    call::record,
    exit::{failure::Failure, result::Exit},
    output::{self, states},
    servers::notice::with_notice,
};
use longhaul_client::{Event, RequestError, TaskHandle, TaskSnapshot, TaskStatus};
use serde_json::json;

/// Asks the server to cancel the task, and says what has become of it; with `waits` when it has ended.
pub(super) async fn cancel(task: &TaskHandle, waits: bool, json: bool) -> Result<Exit, Failure> {
    let address = task.connection().address();
    let before = match with_notice(address, task.get()).await {
        Ok(before) => Some(before),
        // Whatever is wrong with the answer, the task is to be cancelled.
        Err(RequestError::Invalid(reason)) => {
            output::note(&format!(
                "the task cannot be read, and is cancelled all the same: {reason}"
            ));
            None
        }
        Err(error) => return Err(record::unread(task, error).await),
    };
    if let Some(before) = before.filter(|before| before.status.is_final()) {
        return ended_before(&before, json);
    }
    let shown = match with_notice(address, task.cancel()).await {
        Ok(Some(shown)) => Some(shown),
        // Modern servers only acknowledge: the tool may still finish first.
        Ok(None) => with_notice(address, task.get()).await.ok(),
        Err(RequestError::Rpc(failure)) => {
            return match task.get().await {
                Ok(now) if now.status.is_final() => ended_before(&now, json),
                _ => Err(RequestError::Rpc(failure).into()),
            };
        }
        Err(error) => return Err(error.into()),
    };
    let shown = match shown {
        Some(shown) if waits && !shown.status.is_final() => Some(until_ended(task).await?),
        None if waits => Some(until_ended(task).await?),
        shown => shown,
    };
    match shown {
        Some(shown) if shown.status.is_final() && shown.status != TaskStatus::Cancelled => ended_before(&shown, json),
        Some(shown) if shown.status == TaskStatus::Cancelled => {
            report(&shown, &format!("the task {} is cancelled", task.id()), json);
            Ok(Exit::Answered)
        }
        _ => {
            if json {
                output::json_line(&json!({"taskId": task.id(), "cancelRequested": true}));
            } else {
                let id = output::id(task.id());
                output::note(&format!(
                    "the server was asked to cancel the task {id}; it has not ended yet"
                ));
            }
            Ok(Exit::Answered)
        }
    }
}

/// Waits until the task has ended, whatever it asks meanwhile.
async fn until_ended(task: &TaskHandle) -> Result<TaskSnapshot, Failure> {
    let mut tell = |event: Event<'_>| {
        if let Event::Retrying { error, attempt: 1, .. } = event {
            output::note(&format!("{error}; retrying"));
        }
    };
    with_notice(task.connection().address(), task.wait(&mut tell)).await?;
    Ok(task.get().await?)
}

/// A task that has ended cannot be cancelled.
fn ended_before(task: &TaskSnapshot, json: bool) -> Result<Exit, Failure> {
    if task.status == TaskStatus::Cancelled {
        report(task, &format!("the task {} was cancelled already", task.id), json);
        return Ok(Exit::Answered);
    }
    Err(Failure::refused(format!(
        "the task has ended ({}); nothing was cancelled",
        states::of_snapshot(task)
    )))
}

fn report(task: &TaskSnapshot, line: &str, json: bool) {
    if json {
        output::json_line(&with_result(&as_json(task), task));
    } else {
        output::note(&output::plain(line, ""));
    }
}
