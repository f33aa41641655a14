//! Changes to a task.

use crate::{Event, Fence, TaskId, UnixMillis};
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
}
