//! Which schedules there are, and which of them are due.

mod cron;
mod recurrence;
mod timeline;

pub use cron::{Cron, CronError};
pub use recurrence::{Recurrence, SCHEDULE_GRACE};
pub(crate) use timeline::{DueSchedule, Timeline};

use longhaul_core::{Clock, Json, Millis, Principal, UnixMillis, store::NewSchedule};
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::sync::Notify;

/// What starts when, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// What it is called. Unique.
    pub name: Arc<str>,
    /// The tool that it calls.
    pub tool: Arc<str>,
    /// What it calls it with: an object.
    pub arguments: Json,
    /// Whose tasks they are.
    pub principal: Principal,
    /// When.
    pub recurrence: Recurrence,
    /// Each start is late by a part of this, which follows from name and time; in milliseconds.
    pub jitter: Millis,
    /// What becomes of times that were missed.
    pub catch_up: CatchUp,
    /// What becomes of a time while the task before is live.
    pub overlap: Overlap,
}

/// What becomes of planned times that passed while nothing could start them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// They are missed; what is at most [`SCHEDULE_GRACE`] late is not.
    #[default]
    None,
    /// The last of them is started, once.
    Last,
    /// Each is started, in order; the last 100 of more.
    All,
}

/// What becomes of a planned time while the task that was started before is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Nothing is started.
    #[default]
    Skip,
    /// A task is created all the same; the queue of its tool decides when it runs.
    Queue,
}

impl Schedule {
    /// The time of its clock.
    pub(crate) fn now(&self, clock: &dyn Clock) -> UnixMillis {
        match self.recurrence {
            Recurrence::Cron(_) => clock.wall(),
            Recurrence::Every(_) => clock.now(),
        }
    }

    /// When the start that is planned for `planned` is made.
    pub(crate) fn due(&self, planned: UnixMillis) -> UnixMillis {
        if self.jitter == 0 {
            return planned;
        }
        let digest = Sha256::new()
            .chain_update(self.name.as_bytes())
            .chain_update(planned.0.to_be_bytes())
            .finalize();
        let random = digest
            .iter()
            .take(8)
            .fold(0, |random, byte| random << 8 | u64::from(*byte));
        planned.plus(random % self.jitter.saturating_add(1))
    }

    pub(crate) fn as_new(&self, clock: &dyn Clock) -> NewSchedule {
        NewSchedule {
            name: Arc::clone(&self.name),
            plan: self.recurrence.to_string().into(),
            first_at: self.recurrence.next_after(self.now(clock)),
        }
    }
}

/// The schedules of a node.
#[derive(Default)]
pub(crate) struct Schedules {
    timeline: Mutex<Timeline>,
    changed: Notify,
}

impl Schedules {
    pub(crate) fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock()
    }

    /// They are others from now on.
    pub(crate) fn replace(&self, timeline: Timeline) {
        *self.timeline.lock() = timeline;
        self.wake();
    }

    /// Completes when they are to be looked at before their time.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The system's clock was set, or the schedules are others.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }
}
