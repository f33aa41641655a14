//! A tool whose work runs outside of the nodes, as a command does: it is bound to one host, and it outlives its node.

use super::run_context::{GRACE, RunContext};
use crate::{executor::Process, world::World};
use futures_util::future::{Either, select};
use longhaul_core::{AttemptState, BoxFuture, HostId, Json, Outcome, TaskId, text_result};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Provider, TaskContext};
use std::sync::Arc;

/// How long most commands run at most, and a few, in milliseconds. Few, so that the queues after the last fault are short.
const LONGEST: (u64, u64) = (3_000, 30_000);

/// Runs a command on the host of its node.
pub(crate) struct Command(pub(crate) RunContext);

impl Executor for Command {
    fn host_bound(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            let RunContext { world, host, .. } = &self.0;
            self.0.report_attempt(&attempt);
            if let Some(reason) = cx.stop_requested() {
                return ExecutionEnd::Stopped(reason);
            }
            world.commands.prepare(host, &attempt);
            if let Err(end) = cx.record_start().await {
                return end;
            }
            world.sleep(world.between(0..=20)).await;
            let longest = if world.one_in(6) { LONGEST.1 } else { LONGEST.0 };
            let lasts = world.between(0..=longest);
            let running = world.commands.start(&attempt, world.executor.elapsed(), lasts);
            world.check(|checker| checker.command_starts(&attempt.task, &running));
            self.follow(&attempt, &cx).await
        })
    }

    fn resume(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            let RunContext { world, host, .. } = &self.0;
            let never_started = || ExecutionEnd::NeverStarted("no command was started".to_owned());
            match world.commands.folder(&attempt) {
                Some((home, _)) if home != *host => {
                    world.check(|checker| checker.resumed_elsewhere(&attempt.task, attempt.epoch));
                    ExecutionEnd::Crashed
                }
                Some((_, Some(_))) => self.follow(&attempt, &cx).await,
                Some((_, None)) => never_started(),
                None if attempt.state == AttemptState::Starting => never_started(),
                // It was asked to stop before it had a folder.
                None => ExecutionEnd::Crashed,
            }
        })
    }
}

/// Removes the folders of deleted tasks from the disk of one host.
pub(crate) struct CommandProvider {
    pub(crate) world: Arc<World>,
    pub(crate) process: Process,
    pub(crate) host: HostId,
}

impl Provider for CommandProvider {
    fn kind(&self) -> &'static str {
        "command"
    }

    fn revive(&self, _definition: &Json) -> Result<Arc<dyn Executor>, String> {
        Err("the tool has no stored definition".to_owned())
    }

    fn left_by(&self, mut tasks: Vec<TaskId>) -> BoxFuture<'_, Vec<TaskId>> {
        tasks.retain(|task| self.world.commands.has_folder(&self.host, task));
        Box::pin(std::future::ready(tasks))
    }

    fn forget(&self, task: &TaskId) -> BoxFuture<'_, Result<(), String>> {
        let (world, task) = (&self.world, task.clone());
        Box::pin(async move {
            world.sleep(world.between(0..=50)).await;
            world.note(self.process, |checker| {
                format!("removes the folders of {}", checker.name(&task))
            });
            world.commands.remove(&self.host, &task);
            world.check(|checker| checker.folders_removed(&world.disk, &task));
            Ok(())
        })
    }
}

impl Command {
    async fn follow(&self, attempt: &ExecutorAttempt, cx: &TaskContext) -> ExecutionEnd {
        let RunContext { world, .. } = &self.0;
        let end = world
            .commands
            .folder(attempt)
            .and_then(|(_, end)| end)
            .unwrap_or_default();
        let ended = std::pin::pin!(world.sleep(end.saturating_sub(world.executor.elapsed())));
        let stopped = std::pin::pin!(async {
            let reason = cx.stopped().await;
            world.sleep(world.between(0..=GRACE)).await;
            reason
        });
        match select(ended, stopped).await {
            Either::Left(_) => ExecutionEnd::Finished(Outcome::result(text_result("done", false))),
            Either::Right((reason, _)) => {
                world.commands.kill(attempt, world.executor.elapsed());
                ExecutionEnd::Stopped(reason)
            }
        }
    }
}
