//! The status of an entry.

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

/// The status of an entry and what belongs to it, as its value says.
#[derive(Default)]
pub(crate) struct EntryDetails {
    /// `None` if it cannot be read.
    pub(crate) status: Option<EntryStatus>,
    pub(crate) failed: FailedStepAttempts,
    pub(crate) ended_by: Option<EndedBy>,
    pub(crate) took: Option<Millis>,
}

impl EntryDetails {
    pub(crate) fn of(status: EntryStatus) -> Self {
        Self {
            status: Some(status),
            ..Self::default()
        }
    }
}
