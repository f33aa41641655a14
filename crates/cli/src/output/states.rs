//! The states of calls and tasks: for people in the words that `longhaul admin tasks` and the page have, too; with `--json` by their names in MCP.

use longhaul_client::{Finished, Outcome, TaskSnapshot, TaskStatus};

/// The state of a task. One that has completed may have succeeded, or failed with an error of its tool: [`of_snapshot`] knows more.
pub(crate) fn of_task(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Working => "running",
        TaskStatus::InputRequired => "asking",
        status => status.as_str(),
    }
}

/// How a message begins that says that a task waits for its turn: MCP has no status for that.
const QUEUED: &str = "queued";

const SUCCEEDED: &str = "succeeded";
const FAILED: &str = "failed";

/// The letters of a status that MCP does not know that are shown.
const SHOWN_STATUS: usize = 40;

/// The state of a task, as its server tells it: also in a word that MCP does not know.
pub(crate) fn of_snapshot(task: &TaskSnapshot) -> &str {
    let message = task.message.as_deref().unwrap_or_default();
    match (task.status, &task.unknown_status) {
        (_, Some(status)) => &status[..status.floor_char_boundary(SHOWN_STATUS)],
        (TaskStatus::Working, None) if message.starts_with(QUEUED) => QUEUED,
        (TaskStatus::Completed, None) => match &task.outcome {
            Some(Outcome::Result { is_error: true, .. }) => FAILED,
            Some(_) => SUCCEEDED,
            None => of_task(task.status),
        },
        (status, None) => of_task(status),
    }
}

/// The same of a task of which it is known otherwise whether it asks.
pub(crate) fn of_asking(task: &TaskSnapshot, asks: bool) -> &str {
    match asks {
        true => of_task(TaskStatus::InputRequired),
        false => of_snapshot(task),
    }
}

/// The status by its name in MCP, or as the server writes it.
pub(crate) fn in_mcp(task: &TaskSnapshot) -> &str {
    task.unknown_status.as_deref().unwrap_or(task.status.as_str())
}

/// Whether the result of a task is an error of its tool, which MCP calls `completed`, too; `None` without a result.
pub(crate) fn is_error(task: &TaskSnapshot) -> Option<bool> {
    match task.outcome {
        Some(Outcome::Result { is_error, .. }) => Some(is_error),
        _ => None,
    }
}

/// What the message says beside the state.
pub(crate) fn detail(task: &TaskSnapshot) -> Option<&str> {
    let message = task.message.as_deref()?;
    let detail = match of_snapshot(task) {
        QUEUED if message.starts_with(QUEUED) => message[QUEUED.len()..].trim_start_matches([' ', ';', ':', ',']),
        _ => message,
    };
    Some(detail).filter(|detail| !detail.is_empty())
}

/// How a call has ended. Whether it had a task makes no difference.
pub(crate) fn of_finished(finished: Finished) -> &'static str {
    match finished {
        Finished::Answered | Finished::Completed => SUCCEEDED,
        Finished::ToolError | Finished::InvalidOutput => FAILED,
        finished => finished_in_mcp(finished),
    }
}

/// The same as a status of MCP.
pub(crate) fn finished_in_mcp(finished: Finished) -> &'static str {
    match finished {
        // With an error, but there is a result.
        Finished::Answered | Finished::Completed | Finished::ToolError | Finished::InvalidOutput => "completed",
        Finished::Failed => FAILED,
        Finished::Cancelled | Finished::Unanswered => "cancelled",
        _ => "refused",
    }
}
