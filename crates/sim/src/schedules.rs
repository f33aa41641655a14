//! The schedules of a world, which all of its nodes have.

use crate::{executor::Process, tool::SCHEDULED, world::World};
use longhaul_core::{Json, Principal};
use longhaul_runtime::{CatchUp, Cron, Engine, Overlap, Recurrence, Schedule};
use serde_json::json;
use std::sync::Arc;

/// The calls of schedules have these numbers.
const CALLS: u64 = 3_000_000;

/// Each world has so many.
const SCHEDULES: u64 = 2;

/// Any that a configuration can have.
pub(crate) fn draw(rng: &mut fastrand::Rng) -> Vec<Schedule> {
    let mut one = |nth: u64| {
        let catch_up = [CatchUp::None, CatchUp::Last, CatchUp::All][rng.usize(0..3)];
        // As configurations must have it.
        let queues = catch_up == CatchUp::All || rng.bool();
        let minutely = Cron::parse("* * * * *", "UTC").ok().filter(|_| rng.u32(0..4) == 0);
        Schedule {
            name: format!("schedule {nth}").into(),
            tool: SCHEDULED.into(),
            arguments: Json::from(json!({"program": 0, "call": CALLS + nth})),
            principal: Principal::named("schedules"),
            recurrence: minutely.map_or_else(|| Recurrence::Every(rng.u64(15_000..90_000)), Recurrence::Cron),
            jitter: if rng.bool() { 0 } else { rng.u64(0..10_000) },
            catch_up,
            overlap: if queues { Overlap::Queue } else { Overlap::Skip },
        }
    };
    (0..SCHEDULES).map(&mut one).collect()
}

/// A node takes the schedules of its world over.
pub(crate) async fn offer(world: &World, engine: &Engine) {
    while engine.set_schedules(world.schedules.clone()).await.is_err() {
        world.sleep(500).await;
    }
}

/// Somebody pauses a schedule, ends its pause or starts it by hand.
pub(crate) fn operate_one(world: &Arc<World>) {
    let nth = world.between(0..=world.schedules.len().saturating_sub(1) as u64);
    let chosen = world.schedules.get(usize::try_from(nth).unwrap_or(0));
    let (Some(node), Some(schedule)) = (world.random_node(), chosen) else {
        return;
    };
    let (name, action) = (Arc::clone(&schedule.name), world.between(0..=3));
    let work = async move {
        match action {
            0 => drop(node.engine.pause_schedule(&name, true).await),
            1 => drop(node.engine.pause_schedule(&name, false).await),
            _ => drop(node.engine.trigger_schedule(&name).await),
        }
    };
    world.executor.spawn(Process::WORLD, Box::pin(work));
}
