//! Changes to a task.

use crate::{AttemptOutcome, Event, Fence, Task, TaskId, UnixMillis};
use std::time::Duration;

/// How long a store may defer a change that [can wait](Change::can_wait).
pub const LONGEST_DEFERRAL: Duration = Duration::from_millis(100);

/// Changes to one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which task.
    pub task: TaskId,
    /// The worker's right to write; needed by the events that [`Event::needs_fence`].
    pub fence: Option<Fence>,
    /// What happened, in order; applied all or none.
    pub events: Vec<Event>,
    /// When.
    pub at: UnixMillis,
    /// Numbers the changes of an attempt, from 1, so that one whose outcome is [unknown](super::StoreError::OutcomeUnknown) can be made again: a change
    /// whose number is not greater than the [latest](crate::Attempt::changes) of the attempt of its fence was made before. It is not made a second
    /// time, and the answer is the task as it is. The worker makes numbered changes one after the other. `None` for a change that is not recognized.
    pub number: Option<u32>,
    /// Whether the change may be made a little later, as the reports of running work may. A store may defer it for up to [`LONGEST_DEFERRAL`], so that it
    /// shares a commit with others. Once it is acknowledged it is as durable as any other.
    pub can_wait: bool,
}

impl Change {
    /// A change that needs no fence and is not deferred.
    pub fn of(task: &TaskId, event: Event, at: UnixMillis) -> Self {
        Self {
            task: task.clone(),
            fence: None,
            events: vec![event],
            at,
            number: None,
            can_wait: false,
        }
    }

    /// What it may end. A layer around a store asks before the change is made, and looks at the task afterwards.
    pub fn ends(&self) -> ChangeEnds {
        ChangeEnds {
            at: self.at,
            attempt: self.events.iter().find_map(|event| match event {
                Event::AttemptEnded(end) => Some(end.into()),
                _ => None,
            }),
        }
    }
}

/// What a [`Change`] may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeEnds {
    /// When.
    pub at: UnixMillis,
    /// How the attempt has ended, if it ends one.
    pub attempt: Option<AttemptOutcome>,
}

impl ChangeEnds {
    /// Whether the change has ended `task`, which is as it was left. A legacy cancel ends a task before its attempt: the end of that attempt is not another
    /// end of the task.
    pub fn ended(&self, task: &Task) -> bool {
        let ended_before = self.attempt.is_some() && task.stop.is_some_and(|stop| Some(stop.at) == task.ended_at);
        task.is_done() && task.ended_at == Some(self.at) && !ended_before
    }
}
