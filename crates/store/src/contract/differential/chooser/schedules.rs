//! Chooses what is done with schedules: mostly what their rows allow.

use super::{super::step::SCHEDULE_PLAN, Chooser, StoreCall};
use crate::MemoryStore;
use longhaul_core::{
    UnixMillis,
    store::{NewSchedule, ScheduleAdvance, ScheduleStore, ScheduledStart},
};
use std::sync::Arc;

const SCHEDULES: [&str; 3] = ["hourly", "nightly", "w\u{e4}hrend"];

impl Chooser {
    pub(super) async fn schedule_call(&mut self, model: &MemoryStore) -> StoreCall {
        let name: Arc<str> = self.pick(&SCHEDULES).into();
        match self.rng.u32(0..10) {
            0..3 => StoreCall::PutSchedules(vec![NewSchedule {
                name,
                plan: if self.one_in(6) { "other" } else { SCHEDULE_PLAN }.into(),
                first_at: (!self.one_in(8)).then_some(UnixMillis(self.now)),
            }]),
            3..5 => {
                let advance = self.advance(model, &name).await;
                StoreCall::AdvanceSchedule(name, advance)
            }
            5 => StoreCall::PauseSchedule(name, true),
            6..8 => StoreCall::PauseSchedule(name, false),
            8 if self.one_in(3) => StoreCall::RemoveSchedule(name),
            _ => StoreCall::Schedules(self.rng.bool().then_some(name), self.rng.usize(0..4)),
        }
    }

    pub(super) async fn scheduled_start(&mut self, model: &MemoryStore) -> Option<ScheduledStart> {
        let name: Arc<str> = self.pick(&SCHEDULES).into();
        let by_hand = self.one_in(5);
        Some(ScheduledStart {
            plan: SCHEDULE_PLAN.into(),
            advance: match by_hand {
                true => None,
                false => Some(self.advance(model, &name).await),
            },
            skip_if_live: self.rng.bool(),
            name,
        })
    }

    /// Mostly from the planned time that the row has.
    async fn advance(&mut self, model: &MemoryStore, name: &str) -> ScheduleAdvance {
        let row = model.schedule(name).await.ok().flatten();
        let planned = row.and_then(|row| row.next_at).filter(|_| !self.one_in(8));
        let expected = planned.unwrap_or(UnixMillis(self.now));
        ScheduleAdvance {
            expected,
            next_at: (!self.one_in(20)).then(|| expected.plus(self.rng.u64(1..1_000))),
            skipped: self.rng.u64(0..2),
            missed: self.rng.u64(0..3),
        }
    }
}
