//! From the recorded end of a command to that of its attempt.

use super::{CommandExecutor, blocking, tell};
use crate::command::{
    attempt_dir::{AttemptDir, artifacts, record::ExitRecord},
    output::{
        self, CommandResult, EndedCommand,
        artifacts::{ShownArtifacts, knows_links},
    },
};
use longhaul_core::{Outcome, StopReason, TaskId};
use longhaul_runtime::{ArtifactList, ExecutionEnd, TaskContext};
use std::sync::Arc;
use tracing::{info, warn};

impl CommandExecutor {
    pub(super) async fn finished(&self, dir: AttemptDir, exit: ExitRecord, cx: &TaskContext) -> ExecutionEnd {
        self.shared.unwritten.ended(&exit, cx.ports().clock.monotonic());
        let artifacts = self.shown_artifacts(&dir, &exit, cx).await.map(Arc::new);
        let log_of = match output::names_log(&self.tool, &exit) && cx.is_announced().await {
            true => Some(cx.task().clone()),
            false => None,
        };
        let deadline = cx.deadline();
        if let Some(reason) = exit.stopped {
            info!(ended = ?exit.ended, killed = exit.killed, ?reason, "a command was stopped");
        }
        let (dir, exit) = (Arc::new(dir), Arc::new(exit));
        let read = |log_of: Option<TaskId>| {
            let (tool, dir, exit) = (Arc::clone(&self.tool), Arc::clone(&dir), Arc::clone(&exit));
            let artifacts = artifacts.clone();
            blocking(cx.ports(), move || {
                let command = EndedCommand {
                    tool: &tool,
                    dir: &dir,
                    exit: &exit,
                    log_of: log_of.as_ref(),
                    artifacts: artifacts.as_deref(),
                };
                Ok((command.command_result(deadline)?, command.report()))
            })
        };
        let has_log = log_of.is_some();
        let mut result = read(log_of).await;
        // An output that cannot be used is known to be such only when it was read.
        let is_unusable = matches!(
            &result,
            Ok((CommandResult::Outcome(Outcome::Result { is_error: true, .. }), _))
        );
        if is_unusable && !has_log && output::keeps_log(&self.tool) && cx.is_announced().await {
            result = read(Some(cx.task().clone())).await;
        }
        let result = match result {
            Ok((result, report)) => {
                // What came since the last event of the supervisor.
                tell(report, cx);
                result
            }
            Err(error) => {
                warn!(%error, "a command's output cannot be read");
                CommandResult::without_output(exit.stopped)
            }
        };
        match result {
            CommandResult::Stopped(reason, status) => {
                cx.status(status);
                ExecutionEnd::Stopped(reason)
            }
            // If the deadline has passed meanwhile there is no other attempt, and this result says more.
            CommandResult::TimedOut(outcome) if cx.stop_requested() == Some(StopReason::Deadline) => {
                ExecutionEnd::Finished(outcome)
            }
            CommandResult::TimedOut(outcome) => ExecutionEnd::TimedOut(outcome),
            // What was stopped is not run again, whatever its outcome.
            CommandResult::Outcome(outcome) if exit.stopped.is_some() || exit.succeeded() => {
                ExecutionEnd::Finished(outcome)
            }
            CommandResult::Outcome(outcome) => match exit.code() {
                Some(code) => ExecutionEnd::Exited(code, outcome),
                None => ExecutionEnd::Errored(outcome),
            },
        }
    }

    /// The files that the attempt has left, if it may leave any. A plain call that has left files becomes a task: otherwise nobody could read them.
    async fn shown_artifacts(&self, dir: &AttemptDir, exit: &ExitRecord, cx: &TaskContext) -> Option<ShownArtifacts> {
        self.tool.definition().artifacts.as_ref()?;
        let read = dir.clone();
        let mut list = match blocking(cx.ports(), move || artifacts::list(&read)).await {
            Ok(list) => list.unwrap_or_default(),
            Err(error) => {
                warn!(%error, "the list of an attempt's artifacts cannot be read");
                ArtifactList {
                    problems: vec!["what it has left cannot be read".to_owned()],
                    ..ArtifactList::default()
                }
            }
        };
        list.problems.extend(exit.artifacts_error.clone());
        if !list.kept.is_empty() && !cx.announce().await {
            list.kept.clear();
        }
        Some(ShownArtifacts {
            task: cx.task().clone(),
            list,
            as_links: knows_links(cx.requestor()),
        })
    }
}
