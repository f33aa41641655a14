//! Which writes to the store a process is killed at, and their names in messages.

use longhaul_core::{
    AttemptEnd, Event,
    store::{Change, NewTask},
};

/// The name of the write that suspends the task.
pub(super) const SUSPENSION: &str = "the suspension of the task";

/// The name of a change; `None` for one that the tool's code does not depend on, such as progress.
pub(super) fn name_change(change: &Change) -> Option<String> {
    let what: Vec<String> = change.events.iter().filter_map(name_event).collect();
    (!what.is_empty()).then(|| what.join(" and "))
}

/// The name of a creation.
pub(super) fn name_creation(new: &NewTask) -> String {
    match &new.parent {
        Some(parent) => parent.entry.key.to_string(),
        None => format!("the call of {:?}", new.tool),
    }
}

fn name_event(event: &Event) -> Option<String> {
    Some(match event {
        Event::Journaled(entry) => entry.key.to_string(),
        Event::InputRequested { key, .. } => format!("question {}", key.as_str()),
        Event::InputAnswered { key, .. } => format!("the answer to {}", key.as_str()),
        Event::InputWithdrawn { key } => format!("the withdrawal of {}", key.as_str()),
        Event::TimerFired => "the end of a wait".to_owned(),
        Event::ChildEnded { entry, .. } => format!("the end of the child of entry {entry}"),
        Event::CancelRequested(_) => "a cancellation".to_owned(),
        Event::DeadlinePassed => "the deadline".to_owned(),
        Event::AttemptEnded(AttemptEnd::Finished(_)) => "the end of the task".to_owned(),
        Event::AttemptEnded(AttemptEnd::Suspended { .. }) => SUSPENSION.to_owned(),
        Event::AttemptEnded(AttemptEnd::Blocked(_)) => "the block of the task".to_owned(),
        Event::Unblocked { .. } => "the retry of a blocked task".to_owned(),
        Event::Raised { .. } => "the raise of a queued task".to_owned(),
        Event::BlockedTimedOut => "the end of a blocked task".to_owned(),
        Event::AttemptEnded(_) => "the end of an attempt".to_owned(),
        Event::Abandoned(_) => "giving up the task".to_owned(),
        Event::Claimed { .. }
        | Event::Adopted { .. }
        | Event::Reclaimed { .. }
        | Event::Started
        | Event::Reported { .. }
        | Event::Advanced
        | Event::QueueTimedOut
        | Event::Promoted
        | Event::RetryAwaited { .. }
        | Event::TtlExtended { .. } => return None,
    })
}
