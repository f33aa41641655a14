//! The log of a task.

use crate::{
    args,
    call::record::NamedTask,
    exit::{failure::Failure, result::Exit},
    output::{self, pace::Pace, states},
    servers::notice::with_notice,
};
use longhaul_client::{RequestError, SystemClock, TaskHandle, TaskSnapshot};
use longhaul_core::Clock;
use serde_json::json;

/// Prints the log, of the latest attempt or another.
pub(super) async fn print(named: &NamedTask, task: &TaskHandle, asked: &args::Task) -> Result<Exit, Failure> {
    let mut next = begin(asked);
    let mut whole = String::new();
    let mut show = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        match asked.json {
            true => whole.push_str(&text),
            false => output::part(&text),
        }
        text.is_empty() || text.ends_with('\n')
    };
    let mut ends_with_line = true;
    loop {
        let read = with_notice(task.connection().address(), task.read_log(asked.attempt, next)).await;
        let chunk = match read {
            Ok(chunk) => chunk,
            Err(error) if is_begin(next) => return Err(no_log_of(named, task, asked.attempt, error).await),
            Err(error) => return Err(error.into()),
        };
        if !chunk.bytes.is_empty() {
            ends_with_line = show(&chunk.bytes);
        }
        if chunk.next >= chunk.total || !output::is_written() {
            break;
        }
        if chunk.bytes.is_empty() {
            // What follows is a line that is being drawn.
            let end = task.read_log(asked.attempt, None).await?;
            let drawn = end.bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            ends_with_line = show(drawn);
            break;
        }
        next = Some(chunk.next);
    }
    if asked.json {
        output::json_line(&json!({"taskId": task.id(), "log": whole}));
    } else if !ends_with_line {
        output::part("\n");
    }
    Ok(Exit::Answered)
}

/// Where to begin: at the first byte, or with the end.
fn begin(asked: &args::Task) -> Option<u64> {
    (!asked.tail).then_some(0)
}

fn is_begin(next: Option<u64>) -> bool {
    next.is_none_or(|next| next == 0)
}

/// Why there is no log of an attempt.
async fn no_log_of(named: &NamedTask, task: &TaskHandle, attempt: Option<u32>, error: RequestError) -> Failure {
    match attempt {
        Some(attempt) if is_no_log(&error) && task.read_log(None, None).await.is_ok() => Failure::refused(format!(
            "there is no log of an attempt {attempt}. The history has the attempts:\n  {}",
            named.server.task_line("task", task.id(), &["--history"])
        )),
        _ => no_log(named, task, error).await,
    }
}

/// The code with which a server says that it has failed, for example since the log is on a host that is away.
const INTERNAL_ERROR: i32 = -32603;

fn is_no_log(error: &RequestError) -> bool {
    matches!(error, RequestError::Rpc(failure) if failure.code != INTERNAL_ERROR)
}

/// Why there is no log. Of a task that the server knows, it refuses the log alone.
async fn no_log(named: &NamedTask, task: &TaskHandle, error: RequestError) -> Failure {
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

/// Prints the log, and then what is added to it until the task ends.
pub(super) async fn follow(named: &NamedTask, task: &TaskHandle, asked: &args::Task) -> Result<Exit, Failure> {
    let mut next = begin(asked);
    let (mut has_answered, mut is_retrying) = (false, false);
    let mut pace = Pace::default();
    loop {
        let pause = match read_on(task, &mut next, asked.json).await {
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
            Err(error) if is_begin(next) => return Err(no_log(named, task, error).await),
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
        let chunk = match task.read_log(None, *next).await {
            Ok(chunk) => chunk,
            // A queued task has no log yet.
            Err(error)
                if is_no_log(&error) && is_begin(*next) && !snapshot.status.is_final() && keeps_logs(task).await? =>
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
