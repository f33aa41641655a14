//! `notifications/tasks/status`: every change of the status, and of its message at most once a second.

use longhaul_core::{BoxFuture, Clock, Now, Task, store::Record};
use longhaul_wire::{TaskStatus, legacy};
use std::{sync::Arc, time::Duration};

/// Between two notifications of one status.
const INTERVAL: Duration = Duration::from_secs(1);

/// Which status one client was sent.
pub(super) struct StatusNotifications {
    sent: (TaskStatus, Option<Arc<str>>),
    pause: Option<BoxFuture<'static, ()>>,
}

impl StatusNotifications {
    /// The client already has the task in this state.
    pub(super) fn known(task: &Task) -> Self {
        Self {
            sent: of(task),
            pause: None,
        }
    }

    /// The client has the task as it was created: the answer to its call says `working`.
    pub(super) fn created() -> Self {
        Self {
            sent: (TaskStatus::Working, None),
            pause: None,
        }
    }

    /// The notification, if one is due.
    pub(super) fn due(&mut self, record: &Record, clock: &dyn Clock) -> Option<String> {
        let now = of(&record.task);
        let (same_status, pausing) = (now.0 == self.sent.0, self.pause.is_some());
        if now == self.sent || (same_status && pausing) {
            return None;
        }
        self.sent = now;
        self.pause = Some(clock.sleep(INTERVAL));
        Some(written(record, clock.read()))
    }

    /// Completes when a notification that had to wait is due.
    pub(super) async fn paused(&mut self) {
        match &mut self.pause {
            Some(pause) => pause.await,
            None => std::future::pending().await,
        }
        self.pause = None;
    }
}

fn of(task: &Task) -> (TaskStatus, Option<Arc<str>>) {
    let line = match task.block() {
        Some(blocked) => Some(blocked.to_string().into()),
        None => task.status.clone(),
    };
    (legacy::tasks::status(task), line)
}

fn written(record: &Record, now: Now) -> String {
    let mut text = String::new();
    legacy::tasks::write_status_notification(&mut text, &record.task, record.outcome.as_ref(), now);
    text
}
