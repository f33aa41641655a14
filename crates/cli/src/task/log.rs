//! The log of a task.

use crate::{failure::Failure, output, pace::Pace, record::Named, result::Exit, states, waiting::with_notice};
use longhaul_client::{RequestError, SystemClock, TaskHandle, TaskSnapshot};
use longhaul_core::Clock;
use serde_json::json;

/// Prints the end of the log, of the latest attempt or another.
pub(super) async fn print(named: &Named, task: &TaskHandle, attempt: Option<u32>, json: bool) -> Result<Exit, Failure> {
    let log = match with_notice(task.connection().address(), task.log(attempt)).await {
        Err(error) => {
            let latest = match attempt {
                Some(_) => task.log(None).await.ok(),
                None => None,
            };
            return Err(match (attempt, latest) {
                (Some(attempt), Some(_)) if is_no_log(&error) => Failure::refused(format!(
                    "there is no log of an attempt {attempt}. The history has the attempts:\n  {}",
                    named.server.task_line("task", task.id(), &["--history"])
                )),
                _ => no_log(named, task, error).await,
            });
        }
        Ok(log) => log,
    };
    let log = String::from_utf8_lossy(&log);
    if json {
        output::json_line(&json!({"taskId": task.id(), "log": log}));
    } else {
        output::text(&log);
    }
    Ok(Exit::Answered)
}

/// The code with which a server says that it has failed, for example since the log is on a host that is away.
const INTERNAL_ERROR: i32 = -32603;

fn is_no_log(error: &RequestError) -> bool {
    matches!(error, RequestError::Rpc(failure) if failure.code != INTERNAL_ERROR)
}

/// Why there is no log. Of a task that the server knows, it refuses the log alone.
async fn no_log(named: &Named, task: &TaskHandle, error: RequestError) -> Failure {
    if !is_no_log(&error) || task.get().await.is_err() {
        return error.into();
    }
    let no_log = "the task has no log: only commands of Longhaul servers have one, once they have started";
    match task.history().await {
        Ok(steps) if !steps.is_empty() => Failure::refused(format!(
            "{no_log}. The history has the steps of a durable tool:\n  {}",
            named.server.task_line("task", task.id(), &["--history"])
        )),
        _ => Failure::refused(no_log.to_owned()),
    }
}

/// Prints the end of the log, and then what is added to it until the task ends.
pub(super) async fn follow(named: &Named, task: &TaskHandle, json: bool) -> Result<Exit, Failure> {
    let mut next = None;
    let (mut has_answered, mut is_retrying) = (false, false);
    let mut pace = Pace::default();
    loop {
        let pause = match read_on(task, &mut next, json).await {
            Ok(task) if task.status.is_final() => {
                output::note(&format!("the task has ended ({})", states::of_snapshot(&task)));
                return Ok(Exit::Answered);
            }
            Ok(task) => {
                (has_answered, is_retrying) = (true, false);
                pace.after(Ok(&task))
            }
            // Before the first answer the address may be wrong.
            Err(error) if (error.is_transient() || is_away(&error)) && has_answered => {
                if !is_retrying {
                    output::note(&format!("{error}; retrying"));
                }
                is_retrying = true;
                pace.after(Err(&error))
            }
            Err(error) if next.is_none() => return Err(no_log(named, task, error).await),
            Err(error) => return Err(error.into()),
        };
        SystemClock.sleep(pause).await;
    }
}

/// Whether the log may be read again later: its host may come back.
fn is_away(error: &RequestError) -> bool {
    matches!(error, RequestError::Rpc(failure) if failure.code == INTERNAL_ERROR)
}

/// Prints the log from `next` to its end, and returns the task as it was before.
async fn read_on(task: &TaskHandle, next: &mut Option<u64>, json: bool) -> Result<TaskSnapshot, RequestError> {
    // In this order: when the task has ended, nothing is added to its log.
    let snapshot = with_notice(task.connection().address(), task.get()).await?;
    loop {
        let chunk = match task.read_log(*next).await {
            Ok(chunk) => chunk,
            // A queued task has no log yet.
            Err(error)
                if is_no_log(&error) && next.is_none() && !snapshot.status.is_final() && keeps_logs(task).await? =>
            {
                return Ok(snapshot);
            }
            Err(error) => return Err(error),
        };
        if next.is_some_and(|next| next > chunk.total) {
            // That of another attempt, which begins anew.
            *next = Some(0);
            continue;
        }
        if !chunk.bytes.is_empty() {
            let text = String::from_utf8_lossy(&chunk.bytes);
            match json {
                true => output::json_line(&json!({"taskId": task.id(), "log": text})),
                false => output::part(&text),
            }
        }
        *next = Some(chunk.next);
        // The last bytes may be the beginning of a character.
        if chunk.next >= chunk.total || chunk.bytes.is_empty() {
            return Ok(snapshot);
        }
    }
}

/// Whether the server keeps logs of any tasks.
async fn keeps_logs(task: &TaskHandle) -> Result<bool, RequestError> {
    let templates = task.connection().list_resource_templates().await?;
    let mut uris = templates.iter().filter_map(|template| template["uriTemplate"].as_str());
    Ok(uris.any(|uri| uri.starts_with("longhaul://task/{id}/log")))
}
