//! What can be told of a journal entry without its value.

use super::FailedStepAttempts;
use longhaul_core::{EndedBy, Millis, UnixMillis};

/// The status of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryStatus {
    /// It has a final result.
    Done,
    /// It failed, for this reason.
    Failed(String),
    /// It still waits or runs, until this time if there is one.
    Waiting(Option<UnixMillis>),
    /// A question that timed out.
    Unanswered,
    /// It was withdrawn or cancelled.
    Withdrawn,
    /// It cannot be read: another version of Longhaul has written it.
    Unreadable,
}

/// What the value of an entry says: its status, failed attempts of the step, how it ended, how long it took.
pub(crate) struct EntryDetails {
    pub(crate) status: EntryStatus,
    pub(crate) failed: FailedStepAttempts,
    pub(crate) ended_by: Option<EndedBy>,
    pub(crate) took: Option<Millis>,
}

impl EntryDetails {
    pub(crate) fn of(status: EntryStatus) -> Self {
        Self {
            status,
            failed: FailedStepAttempts::default(),
            ended_by: None,
            took: None,
        }
    }
}
