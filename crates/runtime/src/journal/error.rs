//! Errors of journaled operations.

use super::{MAX_ENTRIES, MAX_ENTRY_BYTES};
use longhaul_core::{
    EntryKey, StopReason,
    store::{ApplyError, StoreError},
};
use std::sync::Arc;

/// A non-determinism error: replayed code did something else than its journal has. Either the code was changed while the task ran, or
/// it depends on something that differs each time: time, randomness, the order of a map, a race.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Divergence {
    /// The code began another operation than the journal has next in that branch.
    #[error(
        "it asked for {asked} where it had asked for {expected} before; changed code asks `version` first, and whatever comes out \
         differently each time belongs into a step"
    )]
    Mismatch {
        /// What the code asks for now.
        asked: EntryKey,
        /// What is in the journal instead.
        expected: EntryKey,
    },
    /// The code ended without reaching an entry.
    #[error(
        "it ended without asking for {expected}, which it had asked for before; changed code asks `version` first, and whatever comes \
         out differently each time belongs into a step"
    )]
    NotReached {
        /// What is in the journal.
        expected: EntryKey,
    },
}

/// Why an operation could not be looked up or recorded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JournalError {
    /// The work was asked to stop, so nothing new begins.
    #[error("the work is to stop")]
    Stopped(StopReason),
    /// The code has diverged from its journal. The attempt ends, whatever the code does from here.
    #[error("the tool's code does not follow its journal: {0}")]
    Diverged(#[from] Divergence),
    /// The journal is full.
    #[error("{asked} would be more than {MAX_ENTRIES} entries: let a child task do a part of the work")]
    TooManyEntries {
        /// The operation that was refused.
        asked: EntryKey,
    },
    /// The value of the entry is too long.
    #[error("{asked} is {bytes} bytes long, and may have {MAX_ENTRY_BYTES}: keep it elsewhere, and where it is here")]
    TooLarge {
        /// The operation that was refused.
        asked: EntryKey,
        /// Its length.
        bytes: usize,
    },
    /// The output is too long for one entry.
    #[error("the output is {bytes} bytes long, and may have {MAX_ENTRY_BYTES} at once: emit it in parts")]
    OutputTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A branch uses the context that it was forked from.
    #[error("a branch of the code uses the context it was forked from: it is to use the one that it is given")]
    Forked,
    /// A step's work begins a journaled operation, which replay would never reach, since it skips the work.
    #[error("{asked} is asked for inside of step {step:?}: it belongs before or after it")]
    InsideStep {
        /// What is asked for.
        asked: EntryKey,
        /// The step's name.
        step: Arc<str>,
    },
    /// The entry cannot be read: another version of Longhaul has written it.
    #[error("{asked} cannot be read: {why}")]
    Unreadable {
        /// Which entry.
        asked: EntryKey,
        /// The parser's words.
        why: String,
    },
    /// The tool is not durable.
    #[error("only a durable tool keeps a journal, and this one is not made durable")]
    None,
    /// The tool is durable.
    #[error("a durable tool keeps a journal: it records the result of a step in place of a checkpoint")]
    Journaled,
    /// The task could not be changed, or the store failed.
    #[error(transparent)]
    Task(#[from] ApplyError),
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        Self::Task(error.into())
    }
}
