//! A tool whose work runs outside of the nodes, as a command does: it is bound to one host, and it outlives its node.

use crate::tool::{GRACE, RunContext};
use futures_util::future::{Either, select};
use longhaul_core::{AttemptState, BoxFuture, HostId, Outcome, TaskId, text_result};
use longhaul_runtime::{Attempt, ExecutionEnd, Executor, TaskContext};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// How long most commands run at most, and a few, in milliseconds. Few, so that the queues after the last fault are short.
const LONGEST: (u64, u64) = (3_000, 30_000);

/// What is on the disks of all hosts: the folder of each attempt.
#[derive(Default)]
pub(crate) struct Commands(Mutex<BTreeMap<(TaskId, u32), Folder>>);

struct Folder {
    host: HostId,
    /// When its command ends, in milliseconds; `None` if none was started.
    ends_at: Option<u64>,
}

impl Commands {
    fn prepare(&self, host: &HostId, attempt: &Attempt) {
        let folder = Folder {
            host: host.clone(),
            ends_at: None,
        };
        self.0.lock().insert((attempt.task.clone(), attempt.epoch), folder);
    }

    /// Starts a command. Returns the attempts of its task whose commands still run.
    fn start(&self, attempt: &Attempt, now: u64, lasts: u64) -> Vec<u32> {
        let mut folders = self.0.lock();
        let of_task = (attempt.task.clone(), 0)..=(attempt.task.clone(), u32::MAX);
        let running = folders.range(of_task).filter(|(_, folder)| folder.runs_at(now));
        let running = running.map(|((_, epoch), _)| *epoch).collect();
        if let Some(folder) = folders.get_mut(&(attempt.task.clone(), attempt.epoch)) {
            folder.ends_at = Some(now + lasts);
        }
        running
    }

    /// The host that has the folder of an attempt.
    pub(crate) fn host_of(&self, task: &TaskId, epoch: u32) -> Option<HostId> {
        let folders = self.0.lock();
        folders.get(&(task.clone(), epoch)).map(|folder| folder.host.clone())
    }

    /// The host that has the folder of an attempt, and the end of its command if one was started.
    fn folder(&self, attempt: &Attempt) -> Option<(HostId, Option<u64>)> {
        let folders = self.0.lock();
        let folder = folders.get(&(attempt.task.clone(), attempt.epoch))?;
        Some((folder.host.clone(), folder.ends_at))
    }

    fn kill(&self, attempt: &Attempt, now: u64) {
        if let Some(folder) = self.0.lock().get_mut(&(attempt.task.clone(), attempt.epoch)) {
            folder.ends_at = folder.ends_at.map(|end| end.min(now));
        }
    }
}

impl Folder {
    fn runs_at(&self, now: u64) -> bool {
        self.ends_at.is_some_and(|end| end > now)
    }
}

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
