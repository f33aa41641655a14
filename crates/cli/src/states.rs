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

/// The state of a task, as its server tells it.
pub(crate) fn of_snapshot(task: &TaskSnapshot) -> &'static str {
    let message = task.message.as_deref().unwrap_or_default();
    match task.status {
        TaskStatus::Working if message.starts_with(QUEUED) => QUEUED,
        status => of_task(status),
    }
}

/// What the message says beside the state.
pub(crate) fn detail(task: &TaskSnapshot) -> Option<&str> {
    let message = task.message.as_deref()?;
    let detail = match of_snapshot(task) {
        QUEUED => message[QUEUED.len()..].trim_start_matches([' ', ';', ':', ',']),
        _ => message,
    };
    Some(detail).filter(|detail| !detail.is_empty())
}

/// How a call has ended. Whether it had a task makes no difference.
pub(crate) fn of_finished(finished: Finished) -> &'static str {
    match finished {
        Finished::Answered | Finished::Completed => "completed",
        Finished::Failed => "failed",
        Finished::Cancelled => "cancelled",
        _ => "refused",
    }
}
