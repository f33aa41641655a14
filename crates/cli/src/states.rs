//! The states of calls and tasks, in the words that every command uses. With `--json` tasks have the names of MCP.

use longhaul_client::{Finished, TaskStatus};

/// The state of a task.
pub(crate) fn of_task(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::InputRequired => "asks",
        status => status.as_str(),
    }
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
