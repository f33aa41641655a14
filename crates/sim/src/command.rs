//! A tool whose work runs outside of the nodes, as a command does: it is bound to one host, and it outlives its node.

use crate::run_context::{GRACE, RunContext};
use futures_util::future::{Either, select};
use longhaul_core::{AttemptState, BoxFuture, Outcome, text_result};
use longhaul_runtime::{Attempt, ExecutionEnd, Executor, TaskContext};
use std::sync::Arc;

/// How long most commands run at most, and a few, in milliseconds. Few, so that the queues after the last fault are short.
const LONGEST: (u64, u64) = (3_000, 30_000);

/// Runs a command on the host of its node.
pub(crate) struct Command(pub(crate) RunContext);

impl Executor for Command {
    fn host_bound(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, attempt: Attempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
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

    fn resume(self: Arc<Self>, attempt: Attempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
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

impl Command {
    async fn follow(&self, attempt: &Attempt, cx: &TaskContext) -> ExecutionEnd {
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
