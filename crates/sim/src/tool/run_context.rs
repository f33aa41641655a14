//! What executors need to run programs and commands.

use crate::{deploys::Build, executor::Process, world::World};
use longhaul_core::HostId;
use longhaul_runtime::{ExecutorAttempt, TaskContext};
use std::sync::Arc;

/// How long code may take to stop, in milliseconds.
pub(crate) const GRACE: u64 = 3_000;

/// What executors need to run programs and commands, and to report to the checker.
#[derive(Clone)]
pub(crate) struct RunContext {
    pub(crate) world: Arc<World>,
    pub(crate) process: Process,
    pub(crate) host: HostId,
    pub(crate) build: Build,
}

/// Work of a tool with a limit.
struct LimitedWork {
    world: Arc<World>,
    nth: u64,
}

impl Drop for LimitedWork {
    fn drop(&mut self) {
        self.world.check(|checker| checker.limits.work_ends(self.nth));
    }
}

impl RunContext {
    /// Some work during which the attempt holds its slot.
    pub(crate) async fn limited_work(&self, attempt: &ExecutorAttempt) {
        let world = &self.world;
        let nth =
            world.check(|checker| checker.limited_work_begins(&world.disk, self.process, &attempt.task, attempt.epoch));
        let _work = LimitedWork {
            world: Arc::clone(world),
            nth,
        };
        world.sleep(world.between(0..=6_000)).await;
    }

    pub(crate) fn report_attempt(&self, attempt: &ExecutorAttempt) {
        let Self {
            world, process, build, ..
        } = self;
        world.note(*process, |checker| {
            format!("{} runs, attempt {}", checker.name(&attempt.task), attempt.epoch)
        });
        world.check(|checker| checker.attempt_runs(&attempt.task, attempt.epoch, *build));
    }

    /// Reports the result of an act, which must be the same in every attempt.
    pub(crate) fn act_result(&self, cx: &TaskContext, number: u32, step: Option<&str>, what: &str) {
        let Self { world, process, .. } = self;
        let id = cx.task();
        world.note(*process, |checker| {
            format!("{} act {number} returned {what}", checker.name(id))
        });
        world.check(|checker| checker.act_result(&world.disk, id, number, step, what));
    }
}
