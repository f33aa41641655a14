//! What the folders of a restored backup say of attempts that nobody goes on with.

use super::{
    attempt_dir::{AttemptDir, Attempts, artifacts, record::ExitRecord},
    definition::{CommandDefinition, CommandTool},
    output::{self, CommandResult, EndedCommand, artifacts::ShownArtifacts},
};
use longhaul_core::{AttemptEnd, Outcome, Task};
use std::io;

/// What became of a live task's work, as far as the folders of its attempts know.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordedWork {
    /// No command was started that the task does not know to have ended.
    None,
    /// A command may have been started, and its end is not recorded.
    Began,
    /// A command ended.
    Ended {
        /// How it ended, without a retry.
        end: AttemptEnd,
        /// What the status message is from now on, if it changes.
        status: Option<String>,
    },
}

/// Looks at the present attempt of `task`, and at later ones: the folders may be newer than the task. `definition` is that of its tool.
///
/// # Errors
/// When a folder cannot be read.
pub fn recorded_work(attempts: &Attempts, task: &Task, definition: &str) -> io::Result<RecordedWork> {
    let first = match &task.attempt {
        Some(attempt) if attempt.is_active() => attempt.epoch,
        Some(attempt) => attempt.epoch + 1,
        None => 1,
    };
    for epoch in attempts.epochs(&task.id)?.into_iter().rev() {
        if epoch < first {
            break;
        }
        let dir = attempts.dir(&task.id, epoch);
        // Neither another format nor a damaged record says how it ended.
        let exit = match dir.foreign_version()? {
            Some(_) => return Ok(RecordedWork::Began),
            None => dir.exit().unwrap_or_default(),
        };
        match exit {
            Some(exit) => return Ok(ended(task, &dir, &exit, definition).unwrap_or(RecordedWork::Began)),
            None if dir.is_started()? || dir.has_exit()? => return Ok(RecordedWork::Began),
            None => {}
        }
    }
    Ok(RecordedWork::None)
}

/// `None` if the tool's definition cannot be read.
fn ended(task: &Task, dir: &AttemptDir, exit: &ExitRecord, definition: &str) -> Option<RecordedWork> {
    let definition = CommandDefinition::from_json(definition).ok()?;
    let tool = CommandTool::new(definition, None).ok()?;
    let left = artifacts::list(dir).ok().flatten().filter(|_| task.announced);
    let shown = left.map(|list| ShownArtifacts {
        task: task.id.clone(),
        list,
        as_links: true,
    });
    let command = EndedCommand {
        artifacts: shown.as_ref(),
        tool: &tool,
        dir,
        exit,
        log_of: Some(&task.id).filter(|_| task.announced && output::names_log(&tool, exit)),
    };
    let failed = |outcome: Outcome| AttemptEnd::Failed {
        outcome: outcome.within_max_depth(),
        retry_at: None,
        asks_again: false,
    };
    let (end, status) = match command.command_result(task.deadline) {
        Ok(CommandResult::Stopped(reason, status)) => (AttemptEnd::Stopped(reason), Some(status)),
        // As when it ends while the server runs: a request to stop does not take back what was done.
        Ok(CommandResult::Outcome(outcome)) if exit.stopped.is_some() || exit.succeeded() => {
            (AttemptEnd::Finished(outcome.within_max_depth()), None)
        }
        Ok(CommandResult::Outcome(outcome) | CommandResult::TimedOut(outcome)) => (failed(outcome), None),
        Err(_) => {
            let text = "the command ended, but its output cannot be read";
            (failed(Outcome::tool_error(text)), None)
        }
    };
    Some(RecordedWork::Ended { end, status })
}
