//! What is recorded of an attempt that failed.

use super::TaskContext;
use crate::journal::{beginning_of, failure_value};
use longhaul_core::{EndedBy, Entry, EntryKey, EntryKind, Event, FailedAttempt};
use std::sync::Arc;

impl TaskContext {
    /// Describes this attempt, which has failed, for its entry; `message` is its own error or panic message.
    pub(crate) fn failed_attempt(&self, by: EndedBy, message: Option<&str>) -> FailedAttempt {
        let latest = self.shared.journal.as_ref().and_then(|journal| journal.latest());
        let position = match latest {
            Some(latest) => format!("after {latest}"),
            None => "before its first journal entry".to_owned(),
        };
        let mut why = match by {
            EndedBy::Crash => format!("its process died {position}"),
            EndedBy::Panic => format!("it panicked {position}"),
            EndedBy::Store => format!("the store failed {position}"),
            EndedBy::NonDeterminism => "it did not follow its journal".to_owned(),
            EndedBy::Error => format!("it returned an error {position}"),
        };
        if let Some(message) = message {
            why.push_str(": ");
            why.push_str(beginning_of(message));
        }
        FailedAttempt {
            at: self.now(),
            by: Some(by),
            why,
        }
    }

    /// The entry of a failed attempt; `None` if the task is not durable.
    pub(crate) fn failure_entry(&self, failed: FailedAttempt) -> Option<Event> {
        let journal = self.shared.journal.as_ref()?;
        let FailedAttempt { at, by, why } = failed;
        let key = EntryKey {
            path: Arc::from(""),
            kind: EntryKind::Failure,
            name: Arc::from(""),
            nth: self.shared.fence.epoch,
        };
        Some(Event::Journaled(Entry {
            seq: journal.next(),
            key,
            beside: false,
            value: failure_value(by, why),
            at,
            epoch: self.shared.fence.epoch,
        }))
    }
}
