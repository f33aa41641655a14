//! How an entry stands.

use super::Trail;
use longhaul_core::{EndedBy, Millis, UnixMillis};

/// How an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryStatus {
    /// It is settled.
    Done,
    /// It came to nothing, for this reason.
    Failed(String),
    /// It goes on, at the latest until a moment if there is one.
    Waiting(Option<UnixMillis>),
    /// A question that nobody answered in time.
    Unanswered,
    /// Nobody wanted it any more.
    GivenUp,
    /// It cannot be read: another version of Longhaul has written it.
    Unreadable,
}

/// What an entry's value says of how it stands.
#[derive(Default)]
pub(crate) struct EntryDetails {
    /// `None` if it cannot be read.
    pub(crate) status: Option<EntryStatus>,
    pub(crate) failed: Trail,
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
