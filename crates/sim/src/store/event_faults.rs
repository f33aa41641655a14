//! Faults of the store's events on their way to a node.

use crate::{executor::Process, planted_fault::PlantedFault, world::World};
use longhaul_core::store::{StoreEvent, StoreListener};
use std::sync::Arc;

/// What happens to the events that one node is sent, until the faults are over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventFaults {
    /// One event in this many is lost.
    lost: Option<u32>,
    /// One event in this many comes twice.
    repeated: Option<u32>,
    /// How late events may come, in milliseconds: later ones overtake them.
    latest: u64,
    /// Whether the node is told when one is lost.
    tells: bool,
}

impl EventFaults {
    pub(crate) fn draw(world: &World) -> Self {
        let kind = world.between(0..=4);
        Self {
            lost: match kind {
                0 => None,
                1 => Some(1),
                _ => Some(3),
            },
            repeated: world.one_in(2).then_some(3),
            latest: if kind == 0 { 0 } else { world.between(0..=60_000) },
            tells: world.one_in(4),
        }
    }

    /// Sends an event to a node, or loses it.
    pub(crate) fn send(self, world: &Arc<World>, process: Process, event: &StoreEvent, listener: &StoreListener) {
        if world.plant == Some(PlantedFault::LostWakeup) && matches!(event, StoreEvent::TaskChanged(_)) {
            return;
        }
        if world.faults_are_over() {
            return listener(std::slice::from_ref(event));
        }
        let lost = self.lost.is_some_and(|times| world.one_in(times));
        if lost && !self.tells {
            return;
        }
        let event = if lost { &StoreEvent::Resync } else { event };
        let times = 1 + u32::from(self.repeated.is_some_and(|times| world.one_in(times)));
        for _ in 0..times {
            let late = world.between(0..=self.latest);
            if late == 0 {
                listener(std::slice::from_ref(event));
                continue;
            }
            let (sending, event, listener) = (Arc::clone(world), event.clone(), Arc::clone(listener));
            let deliver = async move {
                sending.sleep(late).await;
                if !sending.executor.is_dead(process) {
                    listener(&[event]);
                }
            };
            world.executor.spawn(Process::WORLD, Box::pin(deliver));
        }
    }
}
