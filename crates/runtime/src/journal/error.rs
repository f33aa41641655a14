//! Why code cannot go along its journal.

use super::{MAX_ENTRIES, MAX_ENTRY_BYTES};
use longhaul_core::{
    EntryKey, StopReason,
    store::{ApplyError, StoreError},
};
use std::sync::Arc;

/// A tool's code, run again, did not do what it had done before. It was changed while the task was under way, or something in it comes
/// out differently each time: time, randomness, a map's order, a race.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Divergence {
    /// It came to another place than the journal has next in that branch.
    #[error(
        "it asked for {asked} where it had asked for {expected} before; changed code asks `version` first, and whatever comes out \
         differently each time belongs into a step"
    )]
    Otherwise {
        /// What the code asks for now.
        asked: EntryKey,
        /// What is in the journal instead.
        expected: EntryKey,
    },
    /// It ended without coming to what it had come to before.
    #[error(
        "it ended without asking for {expected}, which it had asked for before; changed code asks `version` first, and whatever comes \
         out differently each time belongs into a step"
    )]
    NeverAsked {
        /// What is in the journal.
        expected: EntryKey,
    },
}

/// Why nothing could be read from or written to the journal.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JournalError {
    /// The work is asked to stop: nothing new is begun.
    #[error("the work is to stop")]
    Stopped(StopReason),
    /// The code does not follow its journal. The task fails, whatever the code does from here.
    #[error("the tool's code does not follow its journal: {0}")]
    Diverged(#[from] Divergence),
    /// The journal is full.
    #[error("{asked} would be more than {MAX_ENTRIES} entries: let a child task do a part of the work")]
    TooManyEntries {
        /// What there was no room for.
        asked: EntryKey,
    },
    /// What is to be kept is too long.
    #[error("{asked} is {bytes} bytes long, and may have {MAX_ENTRY_BYTES}: keep it elsewhere, and where it is here")]
    TooLarge {
        /// What there was no room for.
        asked: EntryKey,
        /// How long it is.
        bytes: usize,
    },
    /// What is to be given out is too long.
    #[error("the output is {bytes} bytes long, and may have {MAX_ENTRY_BYTES} at once: give it out in parts")]
    TooMuch {
        /// How long it is.
        bytes: usize,
    },
    /// A branch uses the context of the one it comes from, which cannot tell it from the others.
    #[error("a branch of the code uses the context it was forked from: it is to use the one that it is given")]
    Forked,
    /// A step uses the journal. Once the step is known, nothing would ask for what is in it.
    #[error("{asked} is asked for inside of step {step:?}: it belongs before or after it")]
    InsideStep {
        /// What is asked for.
        asked: EntryKey,
        /// The step's name.
        step: Arc<str>,
    },
    /// What is in the journal cannot be read: another version of Longhaul has written it.
    #[error("{asked} cannot be read: {why}")]
    Garbled {
        /// Which entry.
        asked: EntryKey,
        /// The parser's words.
        why: String,
    },
    /// The executor of this tool keeps no journal.
    #[error("only a durable tool keeps a journal, and this one is not made durable")]
    None,
    /// The task could not be changed, or the store failed.
    #[error(transparent)]
    Task(#[from] ApplyError),
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        Self::Task(error.into())
    }
}
