//! What is recorded of an attempt that failed.

use super::TaskContext;
use crate::journal::{bounded, failure_value};
use longhaul_core::{EndedBy, Entry, EntryKey, EntryKind, Event, FailedAttempt};
use std::sync::Arc;

impl TaskContext {
    /// What is to be told of this attempt, which has come to nothing; `said` is what is known beside where it was.
    pub(crate) fn failed(&self, by: EndedBy, said: Option<&str>) -> FailedAttempt {
        let latest = self.shared.journal.as_ref().and_then(|journal| journal.latest());
        let place = match latest {
            Some(latest) => format!("after {latest}"),
            None => "before it had come to anything".to_owned(),
        };
        let mut why = match by {
            EndedBy::Crash => format!("its process died {place}"),
            EndedBy::Panic => format!("it panicked {place}"),
            EndedBy::Store => format!("what it came to {place} could not be kept"),
            EndedBy::NonDeterminism => "it did not follow its journal".to_owned(),
            EndedBy::Error => format!("it returned an error {place}"),
        };
        if let Some(said) = said {
            why.push_str(": ");
            why.push_str(bounded(said));
        }
        FailedAttempt {
            at: self.now(),
            by: Some(by),
            why,
        }
    }

    /// The entry that keeps it, in the next place; `None` if the attempt keeps no journal.
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
