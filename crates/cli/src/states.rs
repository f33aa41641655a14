//! The states of calls and tasks, in the words that every command uses. With `--json` tasks have the names of MCP.

use longhaul_client::{Finished, TaskSnapshot, TaskStatus};

/// The state of a task.
pub(crate) fn of_task(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::InputRequired => "asks",
        status => status.as_str(),
    }
}

/// How a message begins that says that a task waits for its turn: MCP has no status for that.
const QUEUED: &str = "queued";

/// The letters of a status that MCP does not know that are shown.
const SHOWN_STATUS: usize = 40;

/// The state of a task, as its server tells it: also in a word that MCP does not know.
pub(crate) fn of_snapshot(task: &TaskSnapshot) -> &str {
    let message = task.message.as_deref().unwrap_or_default();
    match (task.status, &task.unknown_status) {
        (_, Some(status)) => &status[..status.floor_char_boundary(SHOWN_STATUS)],
        (TaskStatus::Working, None) if message.starts_with(QUEUED) => QUEUED,
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
        // As MCP says it: with an error, but there is a result.
        Finished::Answered | Finished::Completed | Finished::ToolError | Finished::InvalidOutput => "completed",
        Finished::Failed => "failed",
        Finished::Cancelled | Finished::Unanswered => "cancelled",
        _ => "refused",
    }
}
